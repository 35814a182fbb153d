"""What is known of a compiled kernel, and which line of its machine code came from which node.

Compilers carry the mapping along as debug information, which changes no instruction. LLVM's text gets a location on each
of its lines; NVRTC is asked for line information. Both then emit `.loc` before the instructions of another line, and
NVIDIA's disassembler reports it in comments. So each line of assembly, PTX and SASS is mapped to the node that it computes, as in
the kernel's own text.

The loops that run for every point are found there too: of the innermost loops, as LLVM's comments name them, those that
compute something, and of several versions of one (for long and short rows, with vectors and for the rest) the longest.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import takewhile
from math import gcd
from typing import Final

from irscope._base.words import plural
from irscope.codegen.cuda import MULTIPROCESSORS, Schedule, held_values
from irscope.codegen.kernel import ITEM_SIZE, NO_LINE, NO_NODE, KernelSpec, SourceText, operations_per_point, traffic_of

_FIRST: Final = 100
"""The number of the first location; the kernel's own metadata has smaller ones."""
_UNIT: Final = """!llvm.dbg.cu = !{!90}
!llvm.module.flags = !{!93}
!90 = distinct !DICompileUnit(language: DW_LANG_C99, file: !91, emissionKind: LineTablesOnly)
!91 = !DIFile(filename: "kernel.ll", directory: "")
!92 = distinct !DISubprogram(name: "kernel", file: !91, line: 1, type: !94, unit: !90, spFlags: DISPFlagDefinition)
!93 = !{i32 2, !"Debug Info Version", i32 3}
!94 = !DISubroutineType(types: !95)
!95 = !{}"""
_LOCATION: Final = re.compile(r"\s*\.loc\s+\d+\s+(\d+)(?:.*inlined_at \d+ (\d+))?")
_SASS_LINE: Final = re.compile(r'\s*//## File "[^"]*", line (\d+)(.*)')
_SASS_CODE: Final = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*(?:/\*.*)?$")
_REMARK: Final = re.compile(r"\s*(?:#|//|;|@)\s+(?!%bb|.*Inner Loop Header)")
"""A line that is a comment, except one at the start of a block or of an innermost loop."""
_DIRECTIVE: Final = re.compile(r"\s*\.(?!L)[a-z]")
_LABEL: Final = re.compile(r"(\.?L?[\w.$]+):")
_JUMP: Final = re.compile(r"\s+(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:.*[,\s])?(\.?L\w+)")
_HEADER: Final = "Inner Loop Header"
_OPERATION: Final = re.compile(r"\s+%[\w.]+ = (?:(?:tail )?call .*?(@[\w.]+?)(?:\.v\d+f\d+)?\(|(\w+))")
_MOVES: Final = frozenset({
    "load", "shufflevector", "insertelement", "extractelement", "getelementptr", "phi", "ptrtoint", "add", "sub", "mul",
    "and", "icmp", "bitcast", "trunc", "zext", "sext",
})  # fmt: skip
"""What a loop of the text does beside computing: moving, and counting."""
_VECTOR: Final = re.compile(r"%([xyz])mm(\d+)|\b([vqdsh])(\d+)(?:\.\w+)?\b")
_GENERAL: Final = re.compile(r"%(r\d+|[re]?[abcd]x|[abcd][lh]|[re]?(?:si|di|bp|sp)|(?:si|di|bp|sp)l)[dwb]?\b|\b[wx](\d+)\b")
_BITS: Final = {"x": 128, "y": 256, "z": 512}


def with_locations(source: SourceText) -> str:
    """Return the LLVM text with a location on each instruction: its line, counted from 1."""
    lines, inside = [], False
    texts = source.text.splitlines()
    for number, line in enumerate(texts):
        if line.startswith("define"):
            inside = True
            line = re.sub(r"\{$", "!dbg !92 {", line)
        elif line.startswith("}"):
            inside = False
        elif inside and line.startswith("  "):
            line = f"{line}, !dbg !{_FIRST + number}"
        lines.append(line)
    places = (f"!{_FIRST + number} = !DILocation(line: {number + 1}, scope: !92)" for number in range(len(texts)))
    return "\n".join((*lines, _UNIT, *places)) + "\n"


def tie_assembly(text: str, source: SourceText) -> SourceText:
    """Return the instructions and labels of the assembly that LLVM's code generator emitted for `with_locations(source)`."""
    lines = iter(text.splitlines())
    symbols = (f"{source.name}:", f"_{source.name}:")
    inside = [next((line for line in lines if line.startswith(symbols)), "")]
    inside += takewhile(lambda line: not re.match(r"\.?Lfunc_end|\s*\.section", line), lines)
    # without assembler directives and comments
    kept = [
        (line, place if line.startswith("\t") else NO_LINE) for line, place in _with_places(inside)
        if not re.match(r"\.?L(?:tmp|func_begin)", line) and not _REMARK.match(line) and not _DIRECTIVE.match(line)
    ]  # fmt: skip
    return _tie("assembly", source, kept)


def ptx_lines(text: str, source: SourceText) -> SourceText:
    """Return the PTX that NVRTC emitted for CUDA text with line information, with the line information removed."""
    return _tie("ptx", source, _with_places(text.partition("\t.file\t")[0].splitlines()))


def tie_sass(text: str, source: SourceText) -> SourceText:
    """Return the output of `nvdisasm -c -gi` for the same, one instruction per line."""
    found, current = [], NO_LINE
    for line in text.splitlines():
        if place := _SASS_LINE.match(line):
            around = re.findall(r"line (\d+)", place[2])
            current = int(around[-1] if around else place[1]) - 1
        elif code := _SASS_CODE.match(line):
            found.append((f"  /*{code[1]}*/  {code[2]}", current))
        elif _LABEL.match(line) and not line.startswith(".text."):
            found.append((line.rstrip(), NO_LINE))
            current = current if line.startswith(".L") else NO_LINE
    return _tie("sass", source, found)


def _with_places(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Yield each line with the line, counted from 0, that the last `.loc` before it names."""
    current = NO_LINE
    for line in lines:
        place = _LOCATION.match(line)
        if place is None:
            yield line, current if line.strip() else NO_LINE
        else:
            current = int(place[2] or place[1]) - 1


def _tie(language: str, source: SourceText, lines: Iterable[tuple[str, int]]) -> SourceText:
    """Build a text from lines and their origins, with the node of each line."""
    made = list(lines)
    known = len(source.line_nodes)
    nodes = tuple(source.line_nodes[place] if 0 <= place < known else NO_NODE for _, place in made)
    return SourceText(
        "".join(f"{line}\n" for line, _ in made), language, nodes, source.name,
        tuple(place if 0 <= place < known else NO_LINE for _, place in made),
    )  # fmt: skip


# -- the loops over points of a processor's assembly ------------------------------------------------------------------


def hot_loops(source: SourceText, assembly: SourceText) -> list[list[int]]:
    """Return the instructions of the loops that run for every point, one for each pass, as lines of the assembly."""
    texts = source.text.splitlines()
    longest: dict[frozenset[tuple[int, str, int]], list[int]] = {}
    for loop in _innermost(assembly.text.splitlines()):
        does = _operations(texts, source, {assembly.origins[line] for line in loop})
        if does and len(loop) > len(longest.get(does, ())):
            longest[does] = loop
    return list(longest.values())


def _innermost(lines: Sequence[str]) -> list[list[int]]:
    """Return the instructions of each innermost loop: LLVM lays one out from a label to the last jump back to it."""
    labels: dict[str, int] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = number
        elif (jump := _JUMP.match(line)) and jump[1] in labels:
            ends[labels[jump[1]]] = number
    headers = [number for number, line in enumerate(lines) if _HEADER in line]
    return [
        [number for number in range(start, end + 1) if lines[number].startswith("\t")] for start, end in ends.items()
        if any(start <= header <= end for header in headers)
        and not any(start <= other and ends[other] <= end for other in ends if other != start)
    ]  # fmt: skip


def _operations(texts: Sequence[str], source: SourceText, lines: Iterable[int]) -> frozenset[tuple[int, str, int]]:
    """Return what lines of the text compute: node, operation and its count, divided by the common divisor of all counts,
    which makes a loop that takes several vectors at once equal to one that takes one."""
    counts: Counter[tuple[int, str]] = Counter()
    stores = 0
    for line in lines:
        found = _OPERATION.match(texts[line]) if line != NO_LINE else None
        stores |= line != NO_LINE and ("  store " in texts[line] or "@llvm.masked.store" in texts[line])
        if found and source.line_nodes[line] != NO_NODE and found[2] not in _MOVES:
            counts[source.line_nodes[line], found[1] or found[2]] += 1
    each = gcd(*counts.values())
    return frozenset((*((*what, count // each) for what, count in counts.items()), (0, "store", stores))) if counts else frozenset()


def register_names(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the vector registers and the general ones that instructions name, regardless of their width."""
    text = "\n".join(lines)
    vectors = {x86 or arm for _, x86, _, arm in _VECTOR.findall(text)}
    return vectors, {_family(x86) if x86 else arm for x86, arm in _GENERAL.findall(text)}


def vector_bits(lines: Iterable[str]) -> int:
    """Return the width of the widest vector register that instructions name; 0 for none."""
    return max((_BITS.get(kind, 128) for kind, *_ in _VECTOR.findall("\n".join(lines))), default=0)


def _family(name: str) -> str:
    """Return the register that a name belongs to, whatever its width: `rax`, `eax` and `al` are one register, `r8d` is `r8`."""
    if re.fullmatch(r"r\d+", name):
        return name[1:]
    bare = name.removeprefix("r").removeprefix("e") if len(name) == 3 else name
    return bare.rstrip("xlh") if bare[0] in "abcd" and len(bare) == 2 else bare.rstrip("l") if len(bare) > 2 else bare


# The record of a compiled kernel: what its spec and its text say, counted and not measured.
#
# For a processor these are bytes, operations, registers and spills, and what a copy of as many bytes takes, which is the limit
# where memory sets the pace. How a kernel compares with that limit is measured (`irs.compare`), not predicted.

COPY: Final = 10e9
"""Bytes per second that one core copies, reads and writes together: a reference figure, used where none was measured."""


@dataclass(frozen=True, slots=True, repr=False)
class KernelFacts:
    """Numbers of one kernel, counted in its text and its machine code, not measured."""

    name: str
    device: str
    """`cpu`, `cuda` or `numpy`."""
    target: str
    """What it was compiled for."""
    read_bytes: float
    """Bytes read from memory per point of the iteration space: an element of a pointwise kernel, or of what a reduction reduces."""
    written_bytes: float
    """Bytes written to memory per point."""
    operations: int
    """Operations of the program per point: each op on an element counts as one, an exponential too."""
    instructions: float = 0.0
    """Machine instructions per point of a GPU's kernel; 0 where they are not counted."""
    issue_share: float = 0.0
    """On a GPU: the share of the slots for instructions that is needed if memory moves as fast as in a copy."""
    lanes: int = 0
    """Elements of a GPU thread's widest access to a tensor; 0 where it is not known."""
    vector_bits: int = 0
    """The width of the widest vector register, or of the widest access of a GPU's thread; 0 where it is not known."""
    registers: tuple[tuple[str, int], ...] = ()
    """How many registers of each kind it uses: on a CPU in its hot loops, on a GPU in a thread."""
    spills: int = 0
    """Register spills: on a CPU, instructions of the hot loops that access the stack; on a GPU, bytes that a
    thread stores and loads."""
    local_bytes: int = 0
    """On a GPU: bytes of local memory of a thread, for values that are not in registers."""
    bound: str = ""
    """On a GPU: `memory` or `issue` (a unit is saturated); empty where it is not known."""
    because: str = ""
    """What limits its speed, as a sentence without a full stop, with the numbers that support it."""

    @property
    def bytes(self) -> float:
        """Bytes read and written per point."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Operations per byte; infinite where nothing moves."""
        return self.operations / self.bytes if self.bytes else float("inf")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """Label and value of each known number, for a table."""
        spilled = plural(self.spills, "instruction") if self.device == "cpu" else f"{self.spills} B"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.registers)
        found = [
            ("compiled for", self.target),
            ("memory a point", f"{self.read_bytes:g} B read, {self.written_bytes:g} B written"),
            ("operations a point", f"{self.operations}, {self.intensity:.2g} for a byte" if self.bytes else str(self.operations)),
            ("instructions a point", f"{self.instructions:.2g}" if self.instructions else ""),
            ("vectors", f"{plural(self.lanes, 'element')} at once, {self.vector_bits}-bit registers" if self.lanes
             else f"{self.vector_bits}-bit registers" if self.vector_bits else ""),
            ("registers", kinds),
            ("spills", (spilled if self.spills else "none") if self.registers else ""),
            ("local memory", f"{self.local_bytes} B a thread" if self.local_bytes else ""),
            ("pace", {"memory": "memory", "issue": "instructions"}.get(self.bound, "")),
        ]  # fmt: skip
        return tuple((label, value) for label, value in found if value)

    def __str__(self) -> str:
        wide = max(len(label) for label, _ in self.rows)
        lines = [f"{label:{wide}}  {value}" for label, value in self.rows]
        return "\n".join((self.name, *lines, self.because))

    def __repr__(self) -> str:
        bound = f"; bound by {self.bound}" if self.bound else ""
        moved = f"{self.read_bytes:g} B read, {self.written_bytes:g} B written"
        return f"<KernelFacts of {self.name}: {moved} and {plural(self.operations, 'operation')} a point{bound}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:left'>{escape(value)}"
                       "</td></tr>" for label, value in self.rows)  # fmt: skip
        return f"<table><caption><code>{escape(self.name)}</code></caption>{rows}</table><p>{escape(self.because)}</p>"


def cpu_facts(spec: KernelSpec, source: SourceText, assembly: SourceText, target: str, *, copy: float = COPY) -> KernelFacts:
    """Return the facts of a kernel for a processor; `copy` is the bytes per second that a copy moves."""
    lines = assembly.text.splitlines()
    hot = [lines[number] for loop in hot_loops(source, assembly) for number in loop]
    known = unknown_facts(spec, "cpu", target, "")
    because = (
        f"copying as many bytes takes {known.bytes / copy * 1e9:.2g} ns a point at {copy / 1e9:.3g} GB/s, "
        "the limit where memory sets the pace"
    )
    vectors, general = register_names(hot)
    return KernelFacts(
        spec.name, "cpu", target, known.read_bytes, known.written_bytes, known.operations, vector_bits=vector_bits(hot),
        registers=(("vector", len(vectors)), ("general", len(general))) if hot else (),
        spills=sum("Spill" in line or "Reload" in line for line in hot), because=because,
    )  # fmt: skip


def unknown_facts(spec: KernelSpec, device: str, target: str, because: str) -> KernelFacts:
    """Return the facts known from the spec alone, with the reason why there are no others."""
    held = bool(spec.row_limit) and not spec.by_columns  # rows so short that they stay in a cache until the last pass
    moved = traffic_of(spec, held=held)
    return KernelFacts(spec.name, device, target, moved.read, moved.written, operations_per_point(spec), because=because)


# Estimates what bounds a kernel on a GPU: memory, or the slots in which warps issue instructions.
#
# This is a count of the machine code, not a measurement. An instruction takes 16 bytes of a cubin, so the size of an
# entry's code gives the number of instructions for all elements that a thread computes. Rare branches are counted as taken,
# so the count is rather too high than too low. Memory sets the pace if moving an element takes longer than issuing its
# instructions. The assumed GPU is an H100: reference figures, at the bandwidth that copies reach.

_HERTZ: Final = 1.755e9
_BANDWIDTH: Final = 3.0e12
_ISSUES: Final = 4 * 32
"""Thread instructions that a multiprocessor issues per cycle."""
_SPECIALS: Final = 16
"""The same for exponentials, logarithms, roots and reciprocals, which the special function unit computes."""
_INSTRUCTION: Final = 16
_SYMBOLS: Final = 2
_SYMBOL: Final = 24
_NO_OPERATION: Final = 0x918
_SPECIAL: Final = 0x308
_CLOSE: Final = 0.7
"""The share of issue slots above which they may set the pace instead of memory."""


def code_sizes(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Return for each entry in a cubin the number of its instructions and how many of them use the special function unit.

    Empty for bytes that are not a 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02":
        return {}
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    width, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQI", cubin, table + i * width) for i in range(count)]
    names = headers[names_at][4]
    found = {}
    inner = _subroutines(cubin, headers)
    for number, (name_at, _, _, _, start, size, *_) in enumerate(headers):
        name = cubin[names + name_at : cubin.index(b"\0", names + name_at)].decode()
        if not name.startswith(".text."):
            continue
        end = start + min((at for owner, at in inner if owner == number), default=size)
        words = [struct.unpack_from("<Q", cubin, at)[0] & 0xFFF for at in range(start, end, _INSTRUCTION)]
        while words and words[-1] == _NO_OPERATION:
            words.pop()
        found[name.removeprefix(".text.")] = len(words), words.count(_SPECIAL)
    return found


def _subroutines(cubin: bytes, headers: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return section and offset of each routine for rare cases, which follow the entry that calls them."""
    found = []
    for header in headers:
        if header[1] != _SYMBOLS:
            continue
        names = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], _SYMBOL):
            name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", cubin, at)
            if cubin[names + name : names + name + 1] == b"$":
                found.append((section, value))
    return found


def cuda_facts(
    spec: KernelSpec, schedule: Schedule, target: str, size: tuple[int, int] | None, taken: tuple[int, int, int] | None = None
) -> KernelFacts:
    """Return the facts of a kernel for a GPU, from the `code_sizes` of its widest entry.

    `taken` is (registers, spilled bytes, local memory) of a thread of that entry. Both are None where NVRTC is missing.
    """
    moved, operations = traffic_of(spec, held=schedule.held), operations_per_point(spec)
    registers, spilled, local = taken or (0, 0, 0)
    widest = max((ITEM_SIZE[tensor.dtype] for tensor in spec.tensors if tensor.pattern), default=0)
    points = schedule.width * schedule.repeat
    instructions, specials = (count / points for count in size or (0, 0))
    bound, because, share = _pace(spec, schedule, sum(moved), instructions, specials)
    if size is None:
        because = f"moves {sum(moved):g} B for {operations} operations a point; without NVRTC the instructions are not known"
    return KernelFacts(
        spec.name, "cuda", target, moved.read, moved.written, operations, instructions=instructions, issue_share=share,
        lanes=schedule.width, vector_bits=8 * widest * schedule.width, spills=spilled, local_bytes=local,
        registers=(("of a thread", registers),) if taken is not None else (), bound=bound if size else "", because=because,
    )  # fmt: skip


def _pace(spec: KernelSpec, schedule: Schedule, moved: float, instructions: float, specials: float) -> tuple[str, str, float]:
    """Return what limits a kernel, the reason in one sentence, and the share of the issue slots that it needs at a copy's speed."""
    rate = _BANDWIDTH / max(moved, 1e-9)
    issue = instructions * rate / (MULTIPROCESSORS * _ISSUES * _HERTZ)
    special = specials * rate / (MULTIPROCESSORS * _SPECIALS * _HERTZ)
    share = max(issue, special)
    loops = spec.reduced and not schedule.held
    text = f"moves {moved:g} B and issues {'at most' if loops else 'about'} {instructions:.0f} instructions a point"
    slots = "issue slots" if issue >= special else "slots of the special function unit"
    if share > _CLOSE and loops:
        return "", f"{text}: memory or issue slots set the pace: what stands outside the loop is counted too", issue
    if share > 1:
        bound, verdict = "issue", f"{slots} set the pace: a copy would be {share:.1f} times as fast"
    else:
        narrowly = ", narrowly" if share > _CLOSE else ""
        bound, verdict = "memory", f"memory sets the pace{narrowly}: {share:.0%} of the {slots} are needed to keep up"
    if loops and held_values(spec)[1] > 1:
        verdict += ", and its rows are read again in each pass"
    return bound, f"{text}: {verdict}", issue
