"""Loops whose turns are only kernels, as one loop in machine code (`irscope.runtime.cpu.native_loop`).

The turns call the same machine code with the same operands as they would from Python, so the numbers have the same bits. What
must hold, so that nothing is left for Python to do between two calls:

* A body has groups with kernels, views, joined tensors, sums and products of whole numbers, and rows that are written into what
  it carries; the loop's condition is always true, or a flag that a kernel writes. Everything else, an op of the library for one, is
  a reason to stay with Python, which a remark tells.
* From one turn to the next, each word that a kernel gets, an address or a number, moves by the same amount. Numbers do if they
  are linear in the number of the turn, addresses of views if they are cut at such numbers, which all turns keep inside of the
  tensor. What a kernel writes has as many buffers as turns may look back at it, plus one, and they take turns.
* A carried tensor into which rows are written is copied once, before the first turn, and then written in place: nothing reads
  what it was before the row, after the row is written (`irscope.runtime.program.loop_form`).
* Carried tensors keep their types, so that each turn has the same layouts.
* Buffers are small: with large ones the time goes to the kernels, and memory is better planned op by op.

The first turns read the initial values and are calls of their own; then a circle of turns is repeated, one for each buffer.

What a run needs is laid out once for operands like these: the words of the calls, each as a number and the tensor whose address is
added to it. A run allocates the tensors that its caller may get, and one block for the words and all other buffers, so that runs
of several threads, and one that a signal handler begins inside of another, share nothing.
"""

import ctypes
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from irscope.codegen.kernel import is_float
from irscope.ir import INT, Node, TensorType, Value
from irscope.ops.traits import MAY_COPY
from irscope.ops.type_rules import is_contiguous
from irscope.runtime.arrays import Allocate, Library, Memory, compiled_text, extents
from irscope.runtime.cpu import CpuDevice, LaunchCall, NativeLoop
from irscope.runtime.device import NO_MEMORY
from irscope.runtime.program.arena import span
from irscope.runtime.program.groups import GroupKernels, fits_text
from irscope.runtime.program.loop_form import JOINS, ROWS, LoopForm, is_tensor_of_number

_MOST_BYTES: Final = 1 << 20
"""Of all buffers of one turn. More take 30 µs at least, beside which Python's microsecond a kernel does not matter."""
_CUTS: Final = {"aten::select": (2,), "aten::slice": (2, 3), "aten::select_scatter": (3,), "aten::slice_scatter": (3, 4)}
"""Ops at a place that may move: the operands that say where, of which those of `slice` keep their distance."""
_MOST_LAYOUTS: Final = 256
_FEW_LAYOUTS: Final = 4
_FEW_TURNS: Final = 128
"""As many turns take Python as long as preparing the loop takes."""
_WORD: Final = 1 << 62
"""Numbers from here on might not fit a word."""
_WHOLE: Final = (int, np.integer, np.bool_)
_ENDLESS: Final = 1 << 50
"""Turns that no loop reaches: days, at a nanosecond each."""
_ZEROED: Final = 1 << 14
"""Bytes up to which a block of zeros from ctypes is made sooner than an array whose address must be asked for."""
_MOST_PIECES: Final = 32
"""Copies of a turn for one op that joins tensors, at 20 ns each."""
_LINE: Final = 64
"""Bytes to which buffers are aligned."""
_ERRORS: Final = (AttributeError, IndexError, MemoryError, OverflowError, RuntimeError, TypeError, ValueError, struct.error)
"""What ops and allocators raise."""


class _Piece(NamedTuple):
    """What is copied of a tensor that is joined to others: which one it is, the bytes to the place in the result and to that in it."""

    part: int
    to: int
    origin: int
    size: int


@dataclass(eq=False)
class _Turns:
    """What a loop runs on operands of certain layouts, and for certain whole numbers among them."""

    launches: dict[Node, Sequence[LaunchCall]] = field(default_factory=dict)
    makers: dict[Value, Allocate] = field(default_factory=dict)
    """The allocators of what kernels write, and of numbers as tensors."""
    copies: dict[Value, Allocate] = field(default_factory=dict)
    """The allocators of initial values that are copied: they are written in place, or laid out otherwise than the following ones."""
    row_bytes: dict[Node, int] = field(default_factory=dict)
    pieces: dict[Node, list[_Piece]] = field(default_factory=dict)
    """What an op copies that joins tensors."""
    per_turn: int = 0
    most: int = _WORD
    """The most turns in which every cut stays inside of its tensor, and every number inside of a word."""


class LoopCall:
    """A loop in a program for one library: `call` runs all of it, and returns true and its results; or false, and nothing has run.

    For each layout of the operands, and the whole numbers among them, there is one generated function; `call` is the one that was
    used last."""

    def __init__(self, form: LoopForm, groups: Mapping[Node, GroupKernels], memory: Memory, library: Library) -> None:
        self.form = form
        self.owner, self.captured = form.owner, form.captured
        self.groups = {node: groups[node] for node in form.groups}
        self.memory = memory
        body = form.body
        self.fixed = {node.output: library.constant(node) for node in body.nodes if node.op == "prim::Constant"}
        self.functions = {node: library.function(node) for node in form.steps if node not in self.groups}
        self.maker_of = {value: node for node in form.steps for value in node.outputs}
        self.place_of = {value: place for place, value in enumerate(body.params)}
        self.declined = (False, *(None,) * len(form.node.outputs))
        self.known: dict[Hashable, tuple[Callable[..., tuple[Any, ...]], int] | None] = {}
        """The functions, and the most turns that each may take."""
        self.call: Callable[..., tuple[Any, ...]] = self.look_up

    def look_up(self, limit: int, go: bool, *given: Any) -> tuple[Any, ...]:
        """Runs the function for operands like these, which it may have to generate."""
        if not go or limit < self.form.least:
            return self.declined
        found = self._found(given, limit)
        if found is None:
            return self.declined
        run, most = found
        if min(limit, _ENDLESS) > most:
            self.form.declined = "it may have more turns than its tensors have parts, or than a number has room for"
            return self.declined
        self.call = run
        return run(limit, go, *given)

    @cached_property
    def driver(self) -> NativeLoop:
        """The loop in machine code of the device of its kernels."""
        group = next(iter(self.groups.values()))
        device = group.kernels.device_of(group.group)
        assert isinstance(device, CpuDevice)
        return device.native_loop

    def _found(self, given: Sequence[Any], limit: int) -> tuple[Callable[..., tuple[Any, ...]], int] | None:
        key = self.memory.key(given), tuple([value for value in given if isinstance(value, _WHOLE)])  # by which views may be cut
        known = self.known  # which another thread may replace
        if key not in known:
            if limit < _FEW_TURNS and len(known) >= _FEW_LAYOUTS:
                return None  # a number that changes from call to call: preparing would take longer than Python does
            if len(known) >= _MOST_LAYOUTS:
                self.known = {}
            try:
                turns = self._turns(given)
                found, self.form.declined = (_Recipe(self, turns, given).written(key[0]), turns.most), ""
            except _ERRORS as error:
                found, self.form.declined = None, str(error)
            self.known[key] = found
            return found
        return known[key]

    def _turns(self, given: Sequence[Any]) -> _Turns:
        """Returns what runs on operands like these. Raises ValueError where a layout changes from turn to turn, or a kernel is
        missing, and what the ops of a turn that is wrong raise."""
        turns, changed = self._first_turn(given, {})
        if changed:
            turns, changed = self._first_turn(given, changed)
        if changed:
            raise ValueError("what it carries is laid out otherwise after each turn")
        return turns

    def _first_turn(self, given: Sequence[Any], copies: dict[Value, Allocate]) -> tuple[_Turns, dict[Value, Allocate]]:
        """Returns the layouts of a turn on these operands, and if carried values are laid out otherwise after it, the allocators of all
        that is to be copied."""
        form, memory, turns = self.form, self.memory, _Turns(copies=copies)
        values, size = dict(self.initial(given, {param: make() for param, make in copies.items()})), 0
        for node in form.steps:
            operands = [values[value] for value in node.inputs]
            if node not in self.groups:
                made = self.functions[node](*operands)
                values.update(zip(node.outputs, made if len(node.outputs) > 1 else [made], strict=True))
                if node.op in MAY_COPY and memory.address(values[node.output]) != memory.address(operands[0]):
                    raise ValueError(f"{node.op} of its body copies")
                if is_tensor_of_number(node):
                    turns.makers[node.output] = memory.maker(TensorType("int64", (), ()))
                    turns.per_turn += 1
                if node.op in ROWS:
                    turns.row_bytes[node] = self._row_bytes(node, values)
                    turns.per_turn += 1
                if node.op in JOINS:
                    type, turns.pieces[node] = self._joined(node, values)
                    turns.makers[node.output] = memory.maker(type)
                    turns.per_turn += len(turns.pieces[node])
                    size += type.nbytes or 0
                continue
            ready = self.groups[node].ready(operands, memory)
            if ready is None or ready.in_place or not ready.plan.serial:
                ops = [each.op for each in node.blocks[0].nodes if each.op != "prim::Constant"]
                raise ValueError(f"{ops[0] if len(ops) == 1 else 'a group'} of its body has no kernel here, or several threads run one")
            turns.launches[node] = ready.plan.serial
            turns.per_turn += len(ready.plan.serial)
            for value, make, type in zip(node.outputs, ready.makers, ready.plan.plan.outputs, strict=True):
                turns.makers[value], values[value] = make, make()
                size += type.nbytes or 0
        if size > _MOST_BYTES:
            raise ValueError(f"a turn writes {size >> 10} KiB, beside which the time of Python does not matter")
        if form.flag is not None and ((flag := self._type(values[form.flag])).dtype, flag.numel) != ("bool", 1):
            raise ValueError("its condition is not one bool in a tensor")
        return turns, self._changed(values, copies)

    def initial(self, given: Sequence[Any], copies: Mapping[Value, Any]) -> Iterator[tuple[Value, Any]]:
        """Yields what a loop starts with, with what it captures, and with initial values in their copies."""
        params, carried = self.form.body.params, len(self.form.node.outputs)
        yield params[0], 0
        for param, value in zip(params[1:], given[:carried], strict=True):
            if param in copies:
                copies[param][...] = value
            yield param, copies.get(param, value)
        yield from zip(self.form.captured, given[carried:], strict=True)
        yield from self.fixed.items()

    def _row_bytes(self, node: Node, values: Mapping[Value, Any]) -> int:
        """Returns the bytes of a row, which is one piece of memory. Raises ValueError for another one."""
        whole, row = self._type(values[node.output]), self._type(values[node.inputs[1]])
        part = self._type(self.row_of(node, values[node.output], [values[value] for value in node.inputs[2:]]))
        is_dense = all(is_contiguous(extents(each), each.strides or ()) for each in (row, part))
        if not is_dense or whole.dtype != row.dtype or row.nbytes != part.nbytes or not row.nbytes:
            raise ValueError("a row that it writes is not in one piece")
        return row.nbytes

    def _joined(self, node: Node, values: Mapping[Value, Any]) -> tuple[TensorType, list[_Piece]]:
        """Returns the type of the tensor that an op joins, and the pieces of memory that it copies. Raises ValueError for many."""
        whole, parts = self._type(values[node.output]), [self._type(part) for part in values[node.inputs[0]]]
        rows = prod(extents(whole)[: values[node.inputs[1]] % len(extents(whole))])
        is_dense = all(is_contiguous(extents(each), each.strides or ()) and each.dtype == whole.dtype for each in (whole, *parts))
        sizes = [(part.nbytes or 0) // max(rows, 1) for part in parts]
        if not is_dense or rows * sum(sizes) != whole.nbytes or rows * len(sizes) > _MOST_PIECES:
            raise ValueError("what it joins is in too many pieces")
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        places = [(row, place) for row in range(rows) for place in range(len(sizes))]
        pieces = [_Piece(place, row * sum(sizes) + starts[place], row * sizes[place], sizes[place]) for row, place in places]
        return whole, [piece for piece in pieces if piece.size]

    def row_of(self, node: Node, whole: Any, places: Sequence[Any]) -> Any:
        """Returns the part that an op replaces, as a view."""
        axis, *ends = places
        cut = ends[0] if node.op == "aten::select_scatter" else slice(*ends)
        return whole[(slice(None),) * (axis % whole.ndim) + (cut,)]

    def _type(self, tensor: Any) -> TensorType:
        types = self.memory.types([tensor])
        if types is None or not isinstance(types[0], TensorType):
            raise ValueError("it has a tensor that kernels do not read")
        return types[0]

    def _changed(self, values: Mapping[Value, Any], copies: dict[Value, Allocate]) -> dict[Value, Allocate]:
        """Returns the allocators of all copies, if not all are in `copies`. Raises ValueError for another type after a turn."""
        body, needed = self.form.body, dict(copies)
        for before, after in zip(body.params[1:], body.returns[1:], strict=True):
            if before is after or before.type == INT:
                continue
            first, then = self._type(values[before]), self._type(values[after])
            if (first.dtype, first.shape) != (then.dtype, then.shape) or (first != then and before in copies):
                raise ValueError("what it carries changes its type or its extents")
            if first != then or (before in self.form.owned.values() and before not in self.form.fresh):
                needed[before] = self.memory.maker(then)
        return needed if needed.keys() != copies.keys() else {}


class _Place(NamedTuple):
    """A word: what is added to a variable, and the number alone where there is none."""

    variable: str
    offset: int


_NOTHING: Final = _Place("", 0)
_Call = tuple[list[_Place], list[_Place], list[int]]
"""Kernel, extents and flag; words; and how they move."""


class _Recipe:
    """Generates the function that runs a loop on operands like these: it allocates, and machine code lays out the calls and makes them."""

    def __init__(self, loop: LoopCall, turns: _Turns, given: Sequence[Any]) -> None:
        self.loop, self.turns, self.given = loop, turns, given
        form = loop.form
        self.circle = form.delay + 1
        self.names: dict[str, Any] = {"address": loop.memory.address, "bits": _bits}
        self.bases: dict[str, tuple[str, int]] = {"": ("", 0), "here": ("here", 0)}
        """For each variable of a word, what a run adds to it, if anything, and what is known of it beforehand."""
        self.variables: dict[int, str] = {}
        """By the identity of the tensor that stands here for those of all runs."""
        self.lines: list[str] = []
        """How the tensors of a run are allocated."""
        self.scratch = 0
        """The bytes of all buffers that stay in the loop."""
        self.needed: set[str] = set()
        """What must not be 0 of what is added."""
        kept = self._kept()
        self.buffers = {
            value: [self._made("y", make, value in kept) for _ in range(self.circle if value in form.shared else 1)]
            for value, make in turns.makers.items()
        }  # fmt: skip
        """The buffers of each value: as many as turns may look back at it, plus one."""
        own = {}
        for param, make in turns.copies.items():
            own[param] = self._made("c", make, True)
            filled = "{}.copy_({})" if loop.memory.library == "torch" else "{}[...] = {}"
            self.lines.append(filled.format(self.variables[id(own[param])], f"x{loop.place_of[param] - 1}"))
        self.start = dict(loop.initial(given, {})) | own

    def _kept(self) -> set[Value]:
        """Returns the values of the body whose memory a result of the loop may be."""
        loop, form = self.loop, self.loop.form
        found = [param for param, result in zip(form.body.params[1:], form.node.outputs, strict=True) if result not in form.unused]
        for value in found:
            node, place = loop.maker_of.get(value), loop.place_of.get(value)
            is_made = value in self.turns.makers or value in form.owned
            more = () if is_made else node.inputs if node else [form.body.returns[place]] if place else ()
            found += [each for each in more if each not in found]
        return set(found)

    def _made(self, letter: str, make: Allocate, is_kept: bool) -> Any:
        """Returns a tensor that stands for one of each run, which is allocated for itself where it is kept."""
        tensor, name = make(), f"{letter}{len(self.variables)}"
        self.variables[id(tensor)] = name
        if is_kept:
            self.names[f"make_{name}"] = make
            self.lines.append(f"{name} = make_{name}()")
            self.bases[name] = self._address_text(name), 0
        else:
            self.bases[name] = "scratch", self.scratch
            self.scratch += -(-span(self.loop._type(tensor)) // _LINE) * _LINE
        return tensor

    def _address_text(self, variable: str) -> str:
        return self.loop.memory.address_text.format(variable)

    def at(self, value: Value, turn: int) -> Any:
        """Returns a value in a turn."""
        loop, form = self.loop, self.loop.form
        if value in self.buffers:
            ring = self.buffers[value]
            return ring[turn % len(ring)]
        if value in form.owned:
            return self.start[form.owned[value]]
        if value in loop.maker_of:
            node = loop.maker_of[value]
            made = loop.functions[node](*[self.at(operand, turn) for operand in node.inputs])
            return made[node.outputs.index(value)] if len(node.outputs) > 1 else made
        place = loop.place_of.get(value)
        if place == 0:
            return turn
        after = value if place is None or turn == 0 else form.body.returns[place]
        if after is value:
            return self.start[value]
        if value.type == INT:
            return self.start[value] + turn * self.start[self._step(value, after)]
        return self.at(after, turn - 1)

    def _step(self, param: Value, after: Value) -> Value:
        """Returns what a number that is carried grows by in each turn."""
        (by,) = [operand for operand in self.loop.maker_of[after].inputs if operand is not param]
        return by

    def written(self, key: Hashable) -> Callable[..., Any]:
        """Returns the function; `turns.most` is the bound of its turns. Raises one of `_ERRORS` where words do not move evenly."""
        loop, turns, settled = self.loop, self.turns, self.loop.form.delay
        for node in loop.functions:
            self._bound_cut(node)
        calls = [call for turn in range(settled) for call in self._turn(turn, 0)]
        first = len(calls)
        calls += [call for turn in range(settled, settled + self.circle) for call in self._turn(turn, self.circle)]
        width = max(len(places) for _, places, _ in calls)
        words = [_Place("", number) for number in (len(calls), first, width)]
        for head, places, steps in calls:
            start, empty = 8 * (len(words) + 4), [_NOTHING] * (width - len(places))
            own = [_Place(place.variable, place.offset + start) if place.variable == "here" else place for place in places]
            moving = len(places) if any(steps) else 0
            words += [*head, _Place("", moving), *own, *empty, *[_Place("", step) for step in steps], *empty]
        added = list(dict.fromkeys(["", "here", "scratch", *[self.bases[place.variable][0] for place in words]]))
        recipe = [(offset + self.bases[variable][1], added.index(self.bases[variable][0])) for variable, offset in words]
        drive = loop.driver.prepared(recipe, turns.per_turn, len(calls), first)
        return self._function(key, drive, -(-8 * len(words) // _LINE) * _LINE, added[3:])

    def _function(self, key: Hashable, drive: Callable[[int, bytes, int], int], size: int, added: Sequence[str]) -> Callable[..., Any]:
        loop, form, memory, names = self.loop, self.loop.form, self.loop.memory, self.names
        given = "".join([f", x{place}" for place in range(len(self.given))])
        fits = fits_text(key, (*form.node.inputs[2:], *form.captured), self.given, memory, names)
        wholes = [place for place, value in enumerate(self.given) if isinstance(value, _WHOLE)]
        names |= {f"whole{place}": self.given[place] for place in wholes}
        total = size + self.scratch + _LINE
        fits = " and ".join([f"({fits})", *[f"x{place} == whole{place}" for place in wholes]])
        names |= {
            "miss": loop.look_up, "drive": drive, "declined": loop.declined, "errors": _ERRORS,
            "most": self.turns.most if self.turns.most < _ENDLESS else 1 << 64, "pack": struct.Struct(f"{3 + len(added)}q").pack,
            "make_block": ctypes.c_char * total, "start_of": ctypes.addressof,
        }  # fmt: skip
        if total > _ZEROED:
            names |= {"make_block": memory.maker(TensorType("uint8", (total,), (1,))), "start_of": memory.address}
        taken = {text: f"p{place}" for place, text in enumerate(added) if text in self.needed}
        check = " and ".join([f"({name} := {text})" for text, name in taken.items()])
        results = [
            "None" if result in form.unused else self._result(param, 0)
            for param, result in zip(form.body.params[1:], form.node.outputs, strict=True)
        ]  # fmt: skip
        text = "\n".join([
            f"def run(limit, go{given}):",
            f"    if not (go and {form.least} <= limit <= most and {fits}): return miss(limit, go{given})",
            "    try:",
            *[f"        {line}" for line in self.lines],
            *([f"        if not ({check}): return declined"] if check else []),
            "        block = make_block()",
            f"        here = start_of(block) + {_LINE - 1} & {-_LINE}",
            f"        bases = pack({', '.join(['0', 'here', f'here + {size}', *[taken.get(text, text) for text in added]])})",
            "    except errors: return declined",  # which the first turn will raise again
            "    count = drive(here, bases, limit)",
            f"    return {', '.join(['True', *results])}",
        ])  # fmt: skip
        exec(compiled_text(text), names)  # only our own numbers
        made: Callable[..., Any] = names["run"]
        return made

    def _result(self, value: Value, ago: int) -> str:
        """Returns the text of a value so many turns before the turn after the last, whose number is `count`."""
        loop, form = self.loop, self.loop.form
        if value in self.buffers:
            ring = [self.variables[id(tensor)] for tensor in self.buffers[value]]
            return ring[0] if len(ring) == 1 else f"({', '.join(ring)})[(count - {ago}) % {len(ring)}]"
        if value in form.owned:
            return self._start_text(value)
        if value in loop.maker_of:
            node = loop.maker_of[value]
            name = f"function{node.id}"
            self.names[name] = loop.functions[node]
            made = f"{name}({', '.join([self._result(operand, ago) for operand in node.inputs])})"
            return f"{made}[{node.outputs.index(value)}]" if len(node.outputs) > 1 else made
        place = loop.place_of.get(value)
        if place == 0:
            return f"(count - {ago})"
        start, after = self._start_text(value), value if place is None else form.body.returns[place]
        if after is value:
            return start
        if value.type == INT:
            return f"({start} + (count - {ago}) * {self._start_text(self._step(value, after))})"
        text = self._result(after, ago + 1)
        return text if ago == 0 else f"({text} if count > {ago} else {start})"

    def _start_text(self, value: Value) -> str:
        """Returns the text of what a loop starts with, or reads from outside."""
        form = self.loop.form
        value = form.owned.get(value, value)
        if value in self.turns.copies:
            return self.variables[id(self.start[value])]
        if value in self.loop.place_of:
            return f"x{self.loop.place_of[value] - 1}"
        if value in form.captured:
            return f"x{len(form.node.outputs) + form.captured.index(value)}"
        self.names[f"fixed{value.id}"] = self.start[value]
        return f"fixed{value.id}"

    # -- the calls of a turn ------------------------------------------------------------------------------------------

    def _turn(self, turn: int, ahead: int) -> list[_Call]:
        """Returns the calls of a turn, whose words move until so many turns later."""
        form, found = self.loop.form, list[_Call]()
        for node in form.steps:
            now = list(self._calls(node, turn))
            later = list(self._calls(node, turn + ahead)) if ahead else now
            for (head, words), (_, then) in zip(now, later, strict=True):
                if [place.variable for place in words] != [place.variable for place in then]:
                    raise ValueError("it reads another tensor in each turn")
                found.append((head, words, [after.offset - before.offset for before, after in zip(words, then, strict=True)]))
        if form.flag is not None:
            found[-1][0][2] = self._address(form.flag, turn)
        return found

    def _calls(self, node: Node, turn: int) -> Iterator[tuple[list[_Place], list[_Place]]]:
        """Yields the calls of a step: kernel, extents and no flag, and the words."""
        if is_tensor_of_number(node):
            number = self._number(node.inputs[0], turn)
            yield _head(0, 8), [self._address(node.output, turn), _Place("here", 16), number]
        elif node.op in ROWS:
            row = self.loop.row_of(node, self.at(node.output, turn), [self.at(value, turn) for value in node.inputs[2:]])
            places = [self._address_of(row, *self._origin(node.output, turn)), self._address(node.inputs[1], turn)]
            yield _head(0, self.turns.row_bytes[node]), places
        elif node.op in JOINS:
            parts = [self._address(part, turn) for part in self.loop.maker_of[node.inputs[0]].inputs]
            whole, start = self._address(node.output, turn)
            for place, to, origin, size in self.turns.pieces[node]:
                yield _head(0, size), [_Place(whole, start + to), _Place(parts[place].variable, parts[place].offset + origin)]
        for launch in self.turns.launches.get(node, ()):
            reads = zip(launch.launch.reads, launch.launch.spec.inputs, strict=True)
            words = [self._address(node.outputs[place], turn) for place in launch.launch.writes]
            words += [
                _NOTHING if place < 0
                else self._scalar(node.inputs[place], operand.dtype, turn) if operand.kind == "scalar"
                else self._address(node.inputs[place], turn)
                for place, operand in reads
            ]  # fmt: skip
            self.needed.update(self.bases[words[place].variable][0] for place in launch.addresses)
            moved = [_Place(variable, offset + by) for (variable, offset), by in zip(words, launch.moved, strict=True)]
            yield _head(launch.address, launch.dims_address), moved

    def _address(self, value: Value, turn: int) -> _Place:
        """Returns the address of a tensor in a turn, from the start of the tensor that it is a view of."""
        return self._address_of(self.at(value, turn), *self._origin(value, turn))

    def _address_of(self, tensor: Any, variable: str, origin: Any) -> _Place:
        address, reach = self.loop.memory.address, span(self.loop._type(origin))
        offset = address(tensor) - address(origin)
        if not 0 <= offset <= offset + span(self.loop._type(tensor)) <= reach:
            raise ValueError("a view of its body copies")
        return _Place(variable, offset)

    def _origin(self, value: Value, turn: int) -> tuple[str, Any]:
        """Returns the tensor that a tensor is a view of, and the variable that holds it."""
        form, loop = self.loop.form, self.loop
        while True:
            node = loop.maker_of.get(value)
            if node is not None and value not in self.buffers and value not in form.owned:
                value = node.inputs[0]
                continue
            place = loop.place_of.get(value)
            if place is None or turn == 0 or form.body.returns[place] is value:
                break
            value, turn = form.body.returns[place], turn - 1
        tensor = self.at(value, turn)
        if id(tensor) in self.variables:
            return self.variables[id(tensor)], tensor
        name = self._start_text(value)
        self.bases[name] = (self._address_text(name), 0) if name.startswith("x") else ("", loop.memory.address(tensor))
        if self.bases[name] == ("", 0):
            raise ValueError(NO_MEMORY)
        return name, tensor

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _scalar(self, value: Value, dtype: str, turn: int) -> _Place:
        """Returns a number as a kernel reads it."""
        if not is_float(dtype):
            return self._number(value, turn)
        number = self.at(value, turn)
        if value in self.loop.form.captured:
            text = f"bits({self._start_text(value)})"
            self.bases[text] = text, 0
            return _Place(text, 0)
        if self.at(value, turn + 1) != number:
            raise ValueError("a kernel of its body reads the number of the turn as a float")
        return _Place("", _bits(number))

    def _number(self, value: Value, turn: int) -> _Place:
        number, step = self.at(value, turn), self.at(value, 1) - self.at(value, 0)
        if step:
            self.turns.most = min(self.turns.most, (_WORD - abs(self.at(value, 0))) // abs(step))
        if not -_WORD < number < _WORD:
            raise ValueError("a number does not fit a word")
        return _Place("", int(number))

    def _bound_cut(self, node: Node) -> None:
        """Bounds the turns by the extent of a dimension that is cut."""
        if is_tensor_of_number(node) or node.outputs[0].type == INT:
            return
        places = _CUTS.get(node.op, ())
        rest = [value for place, value in enumerate(node.inputs) if place not in places and value.type == INT]
        if any(self.at(value, 0) != self.at(value, 1) for value in rest):
            raise ValueError(f"{node.op} of its body changes from turn to turn")
        if not places:
            return
        axis = self.at(node.inputs[2 if node.op in ROWS else 1], 0)
        size = self.at(node.inputs[0], 0).shape[axis]
        first, then = ([self.at(node.inputs[place], turn) for place in _CUTS[node.op]] for turn in (0, 1))
        if first == then:
            return
        steps = [after - before for before, after in zip(first, then, strict=True)]
        if len(set(steps)) != 1 or first != sorted(first) or first[0] < 0:
            raise ValueError("it cuts parts of changing lengths")
        (step, *_), last = steps, size - (len(first) == 1)
        reach = (last - first[-1]) // step if step > 0 else first[0] // -step
        self.turns.most = min(self.turns.most, reach + 1)


def _head(kernel: int, extents: int) -> list[_Place]:
    return [_Place("", kernel), _Place("", extents), _NOTHING]


def _bits(number: float) -> int:
    (found,) = struct.unpack("<q", struct.pack("<d", number))
    return int(found)
