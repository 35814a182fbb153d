"""The text of HLO, XLA's own IR, in plain Python: computations, their instructions, and the user's line behind each.

Dumps of every back end have this form (`XLA_FLAGS=--xla_dump_to=…`, files `*after_optimizations.txt`), and it is all that a machine
without JAX can read of them. Nothing is computed here: what ops mean comes from `irscope.frontends.hlo`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from irscope._base.words import plural
from irscope.errors import ParseError

_HEAD: Final = re.compile(r"HloModule\s+\"?([^\s,\"]+)\"?\s*(?:,\s*(.*))?")
_COMPUTATION: Final = re.compile(r"\s*(ENTRY\s+)?%?([\w.-]+)\s*(?:\(.*\)\s*->.*)?\{\s*")
_RESULT: Final = re.compile(r"\s*(ROOT\s+)?%?([\w.-]+)\s+=\s+")
_OPCODE: Final = re.compile(r"\s*([a-z][\w-]*)\s*\(")
_NAME: Final = re.compile(r"%?([\w.-]+)$")
_TITLE: Final = re.compile(r"[A-Z][A-Za-z]+")
_ROW: Final = re.compile(r'(\d+)\s+(?:"((?:[^"\\]|\\.)*)"|\{(.*)\})')
_PAIR: Final = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(-?\d+))')
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|/\*.*?(?:\*/|\Z)|[][(){},]', re.DOTALL)  # what does not end is read once, too
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*"?)|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TENSOR: Final = re.compile(r"\w+\[([^]]*)\](?:\{([\d,]*))?")
_EXTENTS: Final = re.compile(r"(?:(?:<=)?(?:\d+|\?)(?:,|$))*")
_ESCAPE: Final = re.compile(rb"\\(?:([0-7]{3})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
_CALLS: Final = (
    "calls", "body", "condition", "to_apply", "branch_computations", "true_computation", "false_computation", "called_computations",
    "select", "scatter",
)  # fmt: skip
"""The attributes that name other computations."""
_LITERALS: Final = frozenset({"constant", "parameter", "iota"})
"""Ops whose parentheses hold no operands."""
_MOST_LINES: Final = 100_000
"""The most lines of one instruction: a constant of two dimensions has one for each row."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One op as the text has it."""

    name: str
    opcode: str
    shape: str
    """Its result: `f32[32,64]{1,0}`, or several of them in parentheses."""
    operands: tuple[str, ...]
    attrs: Mapping[str, str]
    """The text of each attribute; what the parentheses of a constant or a parameter hold is its `value`."""
    is_root: bool
    line: int

    @property
    def called(self) -> tuple[str, ...]:
        """The names of the computations that it runs, in the order of its attributes."""
        texts = [self.attrs[key] for key in self.attrs if key in _CALLS]
        return tuple([name.strip().removeprefix("%") for text in texts for name in text.strip("{}").split(",") if name.strip()])

    @property
    def is_elided(self) -> bool:
        """Whether it is a constant whose elements the text leaves out: `constant({...})`."""
        return self.opcode == "constant" and "..." in self.attrs.get("value", "")


class Frame(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int
    column: int
    function: str


class Provenance(NamedTuple):
    """What an instruction was made from."""

    op_name: str
    """JAX's path to it: `jit(f)/while/body/dot_general`; empty where XLA does not say."""
    frames: tuple[Frame, ...]
    """The lines that lead to it, the innermost first."""

    @property
    def names(self) -> list[str]:
        """The paths, of which XLA joins those of ops that it made one of."""
        return self.op_name.split(";")


@dataclass(frozen=True)
class HloText:
    """A module: its computations in the order of the text, of which one is the entry."""

    name: str
    attrs: str
    """What follows the name in the first line."""
    entry: str
    computations: Mapping[str, Sequence[Instruction]]
    file: str = ""
    _tables: Mapping[str, Mapping[int, Mapping[str, str]]] = field(default_factory=dict, repr=False)

    def instructions(self) -> Iterator[tuple[str, Instruction]]:
        """Yields every instruction, with the name of its computation."""
        for name, inside in self.computations.items():
            yield from ((name, each) for each in inside)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the one in which they run: the text is optimized."""
        return "is_scheduled=true" in self.attrs

    def provenance(self, instruction: Instruction) -> Provenance:
        """Returns the op and the lines of the user's source that an instruction was made from."""
        said = _pairs(instruction.attrs.get("metadata", ""))
        name = said.get("op_name", "")
        if "source_file" in said:  # the older form
            return Provenance(name, (Frame(said["source_file"], _number(said, "source_line"), _number(said, "source_column"), ""),))
        return Provenance(name, self._frames.get(_number(said, "stack_frame_id"), ()))

    @cached_property
    def _frames(self) -> dict[int, tuple[Frame, ...]]:
        """Every stack by the number of its innermost frame; a frame's callers come before it in the table."""
        rows = self._tables.get("StackFrames", {})
        # JAX 0.10.2 prints the parent one too large, so that the first frame, which cannot have one, seems to be its own.
        extra = int(_number(rows.get(1, {}), "parent_frame_id") == 1)
        found: dict[int, tuple[Frame, ...]] = {}
        for number, row in sorted(rows.items()):
            parent = _number(row, "parent_frame_id") - extra
            above = found.get(parent, ()) if parent < number else ()
            found[number] = (self._frame(row), *above[:_MOST_FRAMES])
        return found

    def _frame(self, row: Mapping[str, str]) -> Frame:
        place = self._tables.get("FileLocations", {}).get(_number(row, "file_location_id"), {})
        file = self._tables.get("FileNames", {}).get(_number(place, "file_name_id"), {}).get("", "")
        function = self._tables.get("FunctionNames", {}).get(_number(place, "function_name_id"), {}).get("", "")
        return Frame(file, _number(place, "line"), _number(place, "column"), function)


_MOST_FRAMES: Final = 100
_DEEPEST: Final = 60
"""How deeply computations may be nested, a loop in a loop."""


def is_hlo_text(text: str) -> bool:
    """Checks whether the first line that is neither empty nor a comment begins a module.

    >>> is_hlo_text("// a dump\\nHloModule jit_f, is_scheduled=true"), is_hlo_text("module {\\n}")
    (True, False)
    """
    for line in text.split("\n"):
        bare = line.strip().removeprefix("\ufeff")
        if bare and not bare.startswith("//"):
            return bare.startswith("HloModule ")
    return False


def parse_hlo(text: str, *, file: str = "") -> HloText:
    """Returns the module that a text describes. Raises ParseError with the line of what is not HLO."""
    return _Reader(text, file).module()


class _Reader:
    """Reads a text line by line: the head, tables, and computations of one instruction a line."""

    def __init__(self, text: str, file: str) -> None:
        self.lines = text.split("\n")
        self.file = file
        self.at = 0

    def refused(self, what: str, at: int | None = None, hint: str = "") -> ParseError:
        """Returns the error for the line that was read last, or another."""
        number = self.at if at is None else at
        shown = self.lines[number - 1].replace("\t", " ").rstrip() if 0 < number <= len(self.lines) else ""
        column = len(shown) - len(shown.lstrip()) + 1
        hint = hint or "the text is damaged, or of an XLA whose HLO has another form: write the dump again"
        shown = shown if len(shown) < 160 else ""
        return ParseError(what, line=max(number, 1), column=column, source_line=shown, file=self.file, hint=hint)

    def module(self) -> HloText:
        name, attrs, entry, table = "", "", "", dict[int, Mapping[str, str]]()
        tables: dict[str, dict[int, Mapping[str, str]]] = {}
        computations: dict[str, Sequence[Instruction]] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip("\r")
            self.at += 1
            bare = line.strip().removeprefix("\ufeff")
            if not bare or bare.startswith("//"):
                continue
            if (head := _HEAD.fullmatch(bare)) and not name:
                name, attrs = head[1], head[2] or ""
            elif not name:
                raise self.refused("HLO begins with HloModule and the module's name")
            elif row := _ROW.fullmatch(bare):
                table[int(row[1][:18])] = {"": _unescaped(row[2])} if row[2] is not None else _pairs(row[3])
            elif _TITLE.fullmatch(bare):
                table = tables.setdefault(bare, {})
            elif found := _COMPUTATION.fullmatch(line):
                if found[2] in computations:
                    raise self.refused(f"there are two computations %{found[2]}")
                computations[found[2]] = self.computation(found[2])
                entry = found[2] if found[1] else entry
            else:
                raise self.refused("this is neither a computation nor a table of places")
        if not name or not entry:
            raise self.refused("the text ends before the computation that is the ENTRY" if name else "there is no HloModule")
        made = HloText(name, attrs, entry, computations, self.file, tables)
        self.check(made)
        return made

    def computation(self, name: str) -> Sequence[Instruction]:
        """Reads the lines up to the closing brace."""
        start, found, known = self.at, list[Instruction](), set[str]()
        while self.at < len(self.lines):
            number = self.at + 1
            line = self.whole_line()
            if line.startswith("}"):
                break
            if line and not line.startswith("//"):
                made = self.instruction(line, number)
                if made.name in known:
                    raise self.refused(f"computation %{name} has two instructions %{made.name}", number)
                known.add(made.name)
                found.append(made)
        else:
            raise self.refused(f"computation %{name} has no end", start)
        if not any(each.is_root for each in found):
            raise self.refused(f"computation %{name} has no ROOT", start)
        return found

    def whole_line(self) -> str:
        """Returns the next line, with those after it as long as a bracket is open: rows of a constant."""
        first, depth, parts = self.at, 0, list[str]()
        while self.at < len(self.lines) and self.at - first < _MOST_LINES:
            line = self.lines[self.at]
            self.at += 1
            if parts and (line.startswith("}") or _RESULT.match(line)):  # the next one, or the end
                break
            parts.append(line)
            depth += _depth(line)
            if depth <= 0:
                return _COMMENT.sub(lambda found: found[1] or "", " ".join(parts)).strip()
        raise self.refused("a bracket of this instruction is not closed", first + 1)

    def instruction(self, line: str, number: int) -> Instruction:
        """Returns one instruction: `ROOT %name = shape opcode(operands), key=value, …`."""
        result = _RESULT.match(line)
        if result is None:
            raise self.refused("an instruction is %name = shape op(…)", number)
        start = result.end()
        end = _closing(line, start) if line[start : start + 1] == "(" else line.find(" ", start)
        opcode = _OPCODE.match(line, end) if end > start else None
        close = _closing(line, opcode.end() - 1) if opcode is not None else -1
        if opcode is None or close < 0:
            raise self.refused(f"%{result[2]} has no shape and op, or a bracket is not closed", number)
        inside, shape = line[opcode.end() : close - 1], line[start:end]
        wrong = _wrong_shape(shape)
        if wrong:
            raise self.refused(f"%{result[2]} {wrong}", number)
        attrs = {key.strip(): text.strip() for key, _, text in (part.partition("=") for part in _parts(line[close:].lstrip(", ")))}
        if opcode[1] in _LITERALS:
            return Instruction(result[2], opcode[1], shape, (), {**attrs, "value": inside.strip()}, bool(result[1]), number)
        operands = []
        for part in _parts(inside):
            name = _NAME.search(part)  # older dumps have the type before the name
            if name is None:
                raise self.refused(f"an operand of %{result[2]} has no name: {part[:40]}", number)
            operands.append(name[1])
        return Instruction(result[2], opcode[1], shape, tuple(operands), attrs, bool(result[1]), number)

    def check(self, module: HloText) -> None:
        """Raises ParseError where an instruction names an operand or a computation that is not there, or runs itself, or has not the
        operands that the computations take which it runs."""
        roots = {name: next(each.shape for each in inside if each.is_root) for name, inside in module.computations.items()}
        takes = {name: sum(each.opcode == "parameter" for each in inside) for name, inside in module.computations.items()}
        for inside in module.computations.values():
            names = {each.name: each for each in inside}
            numbers = sorted(
                (each for each in inside if each.opcode == "parameter"), key=lambda each: (len(each.attrs["value"]), each.attrs["value"])
            )
            wrong = next((each for place, each in enumerate(numbers) if each.attrs["value"] != str(place)), None)
            if wrong is not None:
                raise self.refused(
                    f"%{wrong.name} has a number that is not one of {plural(len(numbers), 'parameter')}, or another's", wrong.line
                )
            for each in inside:
                lost = next((operand for operand in each.operands if operand not in names), None)
                absent = next((called for called in each.called if called not in module.computations), None)
                if lost is not None:
                    raise self.refused(f"%{each.name} reads %{lost}, which its computation does not have", each.line)
                if absent is not None:
                    raise self.refused(f"%{each.name} runs computation %{absent}, which the text does not have", each.line)
                what = _wrong_count(each, takes) if each.called else _wrong_index(each, names)
                if (
                    not what
                    and each.opcode == "while"
                    and not roots[each.attrs.get("condition", "").removeprefix("%")].startswith("pred[]")
                ):
                    what = "has a condition that is not one truth value"
                if what:
                    raise self.refused(f"%{each.name} {what}", each.line)
        _refuse_circles(self, module)


def _wrong_shape(shape: str) -> str:
    """Returns what is wrong with the tensors of a shape: their extents, or the order of their dimensions in memory."""
    for found in _TENSOR.finditer(shape):
        if not _EXTENTS.fullmatch(found[1]):
            return f"has an extent that is no number: [{found[1][:40]}]"
        order = found[2].split(",") if found[2] else []
        rank = found[1].count(",") + 1 if found[1] else 0
        if order and {*order} != {*map(str, range(rank))}:
            return f"has the layout {{{found[2][:40]}}}, and {plural(rank, 'dimension')}"
    return ""


def _wrong_index(each: Instruction, around: Mapping[str, Instruction]) -> str:
    """Returns what is wrong with what takes one element of a tuple."""
    if each.opcode != "get-tuple-element" or not each.operands:
        return ""
    shape, index = around[each.operands[0]].shape, each.attrs.get("index", "")
    count = len(_parts(shape[1:-1])) if shape.startswith("(") else 0
    return "" if index.isdecimal() and int(index[:9]) < count else f"takes element {index[:20]} of {plural(count, 'element')}"


def _wrong_count(each: Instruction, takes: Mapping[str, int]) -> str:
    """Returns what is wrong with the number of operands of an instruction that runs computations, which take so many."""
    called, given = each.called, plural(len(each.operands), "operand")
    if each.opcode in ("fusion", "call", "async-start") and len(each.operands) != takes[called[0]]:
        return f"has {given} for a computation of {plural(takes[called[0]], 'parameter')}"
    if each.opcode not in ("while", "conditional"):
        return ""
    if len(each.operands) != (1 if each.opcode == "while" else 1 + len(called)):
        one_each = f"{plural(len(called), 'branch', 'branches')}: it takes one for each, after what decides between them"
        return f"has {given} for {'a loop, which takes one' if each.opcode == 'while' else one_each}"
    other = next((name for name in called if takes[name] != 1), None)
    return f"runs computation %{other}, which has {plural(takes[other], 'parameter')} and should have one" if other is not None else ""


def _refuse_circles(reader: _Reader, module: HloText) -> None:
    """Raises ParseError if a computation leads to itself, or if they are nested too deeply."""
    calls = {name: dict.fromkeys(called for each in inside for called in each.called) for name, inside in module.computations.items()}
    depth: dict[str, int] = {}
    try:
        for name in TopologicalSorter(calls).static_order():  # what a computation runs comes before it
            depth[name] = 1 + max([depth[called] for called in calls[name]], default=0)
            if depth[name] > _DEEPEST:
                raise reader.refused(f"computation %{name} runs others, over {_DEEPEST} deep", module.computations[name][0].line)
    except CycleError as error:
        called, name, *_ = error.args[1]
        each = next(each for each in module.computations[name] if called in each.called)
        raise reader.refused(f"%{each.name} runs the computation %{called} that it is a part of", each.line) from None


def _depth(line: str) -> int:
    """Returns how many more brackets a line opens than it closes, without those in quotes and comments."""
    if sum(map(line.count, "([{")) == sum(map(line.count, ")]}")):
        return 0
    return sum((mark in "([{") - (mark in ")]}") for mark in _MARK.findall(line) if len(mark) == 1)


def _closing(text: str, start: int) -> int:
    """Returns the position behind the bracket that closes the one at `start`; -1 if none does."""
    depth = 0
    for found in _MARK.finditer(text, start):
        mark = found[0]
        depth += (mark in "([{") - (mark in ")]}") if len(mark) == 1 else 0
        if not depth and found.start() >= start and mark in ")]}":
            return found.end()
    return -1


def _parts(text: str) -> list[str]:
    """Returns what commas separate that are not inside of brackets or quotes.

    >>> _parts('calls=%f, metadata={op_name="a, b"}, dimensions={0,1}')
    ['calls=%f', 'metadata={op_name="a, b"}', 'dimensions={0,1}']
    """
    parts, depth, start = [], 0, 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark == "," and not depth:
            parts.append(text[start : found.start()].strip())
            start = found.end()
        elif len(mark) == 1:
            depth += (mark in "([{") - (mark in ")]}")
    return [part for part in (*parts, text[start:].strip()) if part]


def _pairs(text: str) -> dict[str, str]:
    """Returns `name="text"` and `name=number` of a list, such as an instruction's metadata."""
    return {key: number or _unescaped(quoted) for key, quoted, number in _PAIR.findall(text)}


def _number(row: Mapping[str, str], key: str) -> int:
    text = row.get(key, "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) else 0


def _unescaped(text: str) -> str:
    """Returns what a string of HLO says, whose bytes beyond ASCII are octal numbers.

    >>> _unescaped(r"gr\\303\\266\\303\\237e.py")
    'größe.py'
    """
    if "\\" not in text:
        return text

    def byte(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = found.groups()
        if octal or hexadecimal:
            return bytes([int(octal, 8) & 255 if octal else int(hexadecimal, 16)])
        return _LETTERS.get(letter, letter)

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
