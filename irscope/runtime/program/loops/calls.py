"""The function that runs a loop on operands like these: it allocates, and machine code lays out the calls of the turns and makes them."""

import ctypes
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from irscope.analysis.loop_rows import ROWS
from irscope.codegen.kernel import is_float
from irscope.ir import BOOL, INT, Block, Node, TensorType, Value
from irscope.runtime.arrays import Allocate, compiled_text, extents
from irscope.runtime.cpu import NOTHING, STATUS, Call, NativeLoop, Place, Work, words_of
from irscope.runtime.device import NO_MEMORY
from irscope.runtime.program.arena import span
from irscope.runtime.program.groups import fits_text
from irscope.runtime.program.loops.form import JOINS, PUT, TAKE, is_tensor_of_number
from irscope.runtime.program.loops.layouts import MOST_PIECES, WORD, Layouts, Turns

_CUTS: Final = {"aten::select": (2,), "aten::slice": (2, 3), "aten::select_scatter": (3,), "aten::slice_scatter": (3, 4)}
"""Ops at a place that may move: the operands that say where, of which those of `slice` keep their distance."""
WHOLE: Final = (int, np.integer, np.bool_)
ENDLESS: Final = 1 << 50
"""Turns that no loop reaches: days, at a nanosecond each."""
_ZEROED: Final = 1 << 14
"""Bytes up to which a block of zeros from ctypes is made sooner than an array whose address must be asked for."""
_MOST_CALLS: Final = 1 << 11
"""Calls of a circle: each takes 50 µs to be prepared, and 10 ns to be laid out in a run."""
_LINE: Final = 64
"""Bytes to which buffers are aligned."""
ERRORS: Final = (AttributeError, IndexError, MemoryError, OverflowError, RuntimeError, TypeError, ValueError, struct.error)
"""What ops and allocators raise."""


@dataclass(eq=False)
class _Made:
    """A call in one turn: what stands in the place of its kernel, its extents and its flag, and its words; of an inner loop also its
    calls in its first turn and in its second."""

    head: tuple[Place, Place, Place]
    words: list[Place]
    node: Node | None = None
    inner: "tuple[list[_Made], list[_Made]] | None" = None


class Recipe:
    """Generates the function that runs a loop on operands like these: it allocates, and machine code lays out the calls and makes them."""

    def __init__(self, loop: Layouts, turns: Turns, given: Sequence[Any]) -> None:
        self.loop, self.turns, self.given = loop, turns, given
        form = loop.form
        self.circle = form.circle
        self.names: dict[str, Any] = {"address": loop.memory.address, "bits": _bits}
        self.bases: dict[str, tuple[str, int]] = {
            "": ("", 0), "here": ("here", 0), "scratch": ("scratch", 0), "status": ("here", STATUS),
        }  # fmt: skip
        """For each variable of a word, what a run adds to it, if anything, and what is known of it beforehand."""
        self.variables: dict[int, str] = {}
        """By the identity of the tensor that stands here for those of all runs."""
        self.lines: list[str] = []
        """How the tensors of a run are allocated."""
        self.scratch = 0
        """The bytes of all buffers that stay in the loop."""
        self.needed: set[str] = set()
        """What must not be 0 of what is added."""
        self.times: dict[Node, int] = {}
        """The turns of inner loops that are looked at, where it is not the first."""
        self.places: dict[Hashable, int] = {}
        """The places of blocks of inner loops, and of copies, among the buffers."""
        self.numbers: dict[tuple[int, ...], Any] = {}
        """Constants that machine code reads, by their contents."""
        kept = self._kept()
        self.buffers = {
            value: [self._made("y", make, value in kept) for _ in range(form.delay + 1 if value in form.shared else 1)]
            for value, make in turns.makers.items() if value not in turns.same
        }  # fmt: skip
        self.buffers |= {value: self.buffers[output] for value, output in turns.same.items()}
        for param, node in loop.loop_of.items():
            place = node.blocks[0].params.index(param)
            if place and param.type != INT and param not in loop.alias:
                self.buffers[param] = self.buffers[node.outputs[place - 1]]
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
            self._reserve(span(self.loop.type_of(tensor)))
        return tensor

    def _reserve(self, size: int, key: Hashable = None) -> int:
        """Returns the place of so many bytes among the buffers; with a key, the same for all that have it."""
        if key is not None and key in self.places:
            return self.places[key]
        place = self.scratch
        self.scratch += -(-size // _LINE) * _LINE
        if key is not None:
            self.places[key] = place
        return place

    def _address_text(self, variable: str) -> str:
        return self.loop.memory.address_text.format(variable)

    def at(self, value: Value, turn: int) -> Any:
        loop, form = self.loop, self.loop.form
        if value in self.buffers:
            ring = self.buffers[value]
            return ring[turn % len(ring)]
        if value in form.owned:
            return self.at(form.owned[value], turn) if form.owned[value] in self.buffers else self.start[form.owned[value]]
        if value in loop.loop_of:
            return self._counted(value, loop.loop_of[value], turn)
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

    def _counted(self, param: Value, node: Node, turn: int) -> Any:
        """Returns a number that an inner loop counts."""
        (body,) = node.blocks
        place = body.params.index(param)
        if not place:
            return self.times.get(node, 0)
        start, after = self.at(node.inputs[place + 1], turn), body.returns[place]
        return start if after is param else start + self.times.get(node, 0) * self.start[self._step(param, after)]

    def _step(self, param: Value, after: Value) -> Value:
        """Returns what a number that is carried grows by in each turn."""
        (by,) = [operand for operand in self.loop.maker_of[after].inputs if operand is not param]
        return by

    def written(self, key: Hashable, driver: NativeLoop, names: Mapping[str, Any]) -> Callable[..., Any]:
        """Returns the function; `names` has where it goes for other operands, and what it returns where it cannot run. Raises one of
        `ERRORS` where words do not move evenly."""
        loop, form, settled = self.loop, self.loop.form, self.loop.form.delay
        self.names |= names
        for node in loop.functions:
            self._bound_cut(node)
        turns = [self._turn(turn, form.body, form.flag) for turn in range(settled + 2 * self.circle)]
        later = [*turns[:settled], *turns[settled + self.circle :]]
        calls = [call for now, then in zip(turns, later, strict=False) for call in self._moving(now, then)]
        if len(calls) > _MOST_CALLS:
            raise ValueError(f"its numbers repeat after {len(calls)} calls of kernels")
        words = words_of(calls, settled * len(turns[0]))
        added = list(dict.fromkeys(["", "here", "scratch", *[self.bases[place.variable][0] for place in words]]))
        recipe = [(offset + self.bases[variable][1], added.index(self.bases[variable][0])) for variable, offset in words]
        drive = driver.prepared(recipe, len(turns[0]), len(calls), settled * len(turns[0]))
        return self._function(key, drive, -(-8 * len(words) // _LINE) * _LINE, added[3:])

    def _function(self, key: Hashable, drive: Callable[[int, bytes, int], int], size: int, added: Sequence[str]) -> Callable[..., Any]:
        form, memory, names = self.loop.form, self.loop.memory, self.names
        given = "".join([f", x{place}" for place in range(len(self.given))])
        fits = fits_text(key, (*form.node.inputs[2:], *form.captured), self.given, memory, names)
        wholes = [place for place, value in enumerate(self.given) if isinstance(value, WHOLE)]
        names |= {f"whole{place}": self.given[place] for place in wholes}
        total = size + self.scratch + _LINE
        fits = " and ".join([f"({fits})", *[f"x{place} == whole{place}" for place in wholes]])
        names |= {
            "drive": drive, "ended": ctypes.c_byte.from_address, "errors": ERRORS,
            "most": most if (most := self.turns.most[form.node]) < ENDLESS else 1 << 64, "kept": self.numbers,
            "pack": struct.Struct(f"{3 + len(added)}q").pack,
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
            *([f"    if not ended(here + {STATUS}).value: return left()"] if form.may_fail else []),
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

    def _moving(self, now: Sequence[_Made], later: Sequence[_Made]) -> list[Call]:
        """Returns the calls of a turn, whose words move to those of another. Raises ValueError where something else changes."""
        found = list[Call]()
        for one, other in zip(now, later, strict=True):
            if one.inner is not None and other.inner is not None:
                one, other = self._entered(one, other)
            if one.head != other.head or [place.variable for place in one.words] != [place.variable for place in other.words]:
                raise ValueError("it reads another tensor in each turn")
            steps = [then.offset - place.offset for place, then in zip(one.words, other.words, strict=True)]
            found.append(Call(one.head, one.words, steps))
        return found

    def _entered(self, one: _Made, other: _Made) -> tuple[_Made, _Made]:
        """Returns a call of an inner loop in two turns of the loop around it, with the addresses from which its words count."""
        assert one.inner is not None and other.inner is not None and one.node is not None
        now, later = words_of(calls := self._moving(*one.inner), 0), words_of(self._moving(*other.inner), 0)
        if len(calls) > _MOST_CALLS:  # times turns, they must fit a word
            raise ValueError(f"a turn of an inner loop has {len(calls)} calls of kernels")
        place = self._reserve(8 * len(now), (one.node, len(now)))
        keys: dict[tuple[str, int], int] = {("", 0): 0}
        recipe = [len(now)]
        for (variable, offset), (same, then) in zip(now, later, strict=True):
            if variable != same:
                raise ValueError("it reads another tensor in each turn")
            recipe += [offset, keys.setdefault((variable, then - offset), len(keys))]
        most = min(self.turns.most[one.node], ENDLESS)
        dims = self._constant([self._constant(recipe), len(calls), most])
        head, block = (_work(Work.INNER)[0], Place("", dims), Place("status", 0)), Place("scratch", place)
        bases = [(block if variable == "here" else Place(variable, 0), step) for variable, step in keys]
        return (
            _Made(head, [block, *one.words, *[base for base, _ in bases]]),
            _Made(head, [block, *other.words, *[Place(base.variable, base.offset + step) for base, step in bases]]),
        )

    def _constant(self, numbers: Sequence[int]) -> int:
        """Returns the address of these numbers."""
        held = self.numbers.setdefault(tuple(numbers), (ctypes.c_int64 * len(numbers))(*numbers))
        return ctypes.addressof(held)

    def _turn(self, turn: int, block: Block, flag: Value | None) -> list[_Made]:
        """Returns the calls of a turn of a block, after the last of which a flag is looked at."""
        found = self._calls_of(block, turn)
        found += self._handed_on(block, turn)
        if not found or (flag is not None and found[-1].head[2] != NOTHING):
            found.append(_nothing())
        if flag is not None:
            found[-1].head = (*found[-1].head[:2], self._address(flag, turn))
        return found

    def _handed_on(self, block: Block, turn: int) -> list[_Made]:
        """Returns the copies of what an inner loop hands on to its next turn: through a third place, if it is memory of what it has."""
        params = [param for param in block.params[1:] if param in self.buffers]
        pairs = [(param, block.returns[block.params.index(param)]) for param in params]
        first, then = list[_Made](), list[_Made]()
        for param, after in pairs:
            if after is param or self.loop.form.owned.get(after) is param:
                continue
            variable, _ = self._address(after, turn)
            if any(variable == self._address(other, turn).variable for other in params):
                type = self.loop.type_of(self.at(param, turn))
                between = Place("scratch", self._reserve(span(type), param))
                first += self._copies(between, type, *self._located(after, turn))
                then += self._copies(self._address(param, turn), type, between, type)
            else:
                then += self._copies(*self._located(param, turn), *self._located(after, turn))
        return first + then

    def _located(self, value: Value, turn: int) -> tuple[Place, TensorType]:
        return self._address(value, turn), self.loop.type_of(self.at(value, turn))

    def _calls_of(self, block: Block, turn: int) -> list[_Made]:
        return [call for node in block.nodes for call in self._calls(node, turn)]

    def _calls(self, node: Node, turn: int) -> Iterator[_Made]:
        if node.op == "prim::If":
            yield from self._branches(node, turn)
        elif node.op == "prim::Loop":
            yield from self._inner(node, turn)
        elif node.op in (TAKE, PUT):
            yield self._indexed(node, turn)
        elif is_tensor_of_number(node):
            to, number = self._address(node.output, turn), self._number(node.inputs[0], turn)
            yield _Made(_work(Work.COPY, 8), [to, Place("here", 40), Place("", 1), NOTHING, NOTHING, number])
        elif node.op in ROWS and node.output in self.loop.form.owned:
            yield from self._written(node, turn)
        elif node.op in JOINS:
            parts = [self._address(part, turn) for part in self.loop.maker_of[node.inputs[0]].inputs]
            whole, start = self._address(node.output, turn)
            for piece in self.turns.pieces[node]:
                from_ = Place(parts[piece.part].variable, parts[piece.part].offset + piece.origin)
                yield _Made(_work(Work.COPY, piece.size), [Place(whole, start + piece.to), from_, Place("", 1)])
        for launch in self.turns.launches.get(node, ()):
            reads = zip(launch.launch.reads, launch.launch.spec.inputs, strict=True)
            words = [self._address(node.outputs[place], turn) for place in launch.launch.writes]
            words += [
                NOTHING if place < 0
                else self._scalar(node.inputs[place], operand.dtype, turn) if operand.kind == "scalar"
                else self._address(node.inputs[place], turn)
                for place, operand in reads
            ]  # fmt: skip
            self.needed.update(self.bases[words[place].variable][0] for place in launch.addresses)
            moved = [Place(variable, offset + by) for (variable, offset), by in zip(words, launch.moved, strict=True)]
            yield _Made((Place("", launch.address), Place("", launch.dims_address), NOTHING), moved)

    def _branches(self, node: Node, turn: int) -> Iterator[_Made]:
        found = list[list[_Made]]()
        for block in node.blocks:
            calls = self._calls_of(block, turn)
            for output, value in zip(node.outputs, block.returns, strict=True):
                if value not in self.turns.same:
                    calls += self._copies(*self._located(output, turn), *self._located(value, turn))
            found.append(calls)
        if node.inputs[0] not in self.loop.form.flags:  # which is known for each turn; all have as many calls
            most = max(map(len, found))
            taken = found[0 if self.at(node.inputs[0], turn) else 1]
            yield from [*taken, *[_nothing() for _ in range(most - len(taken))]]
            return
        flag = self._address(self.loop.form.flags[node.inputs[0]], turn)
        for wanted, calls in enumerate(found):
            if calls:
                yield _Made(_work(Work.SKIP, wanted), [flag, Place("", len(calls))])
                yield from calls

    def _inner(self, node: Node, turn: int) -> Iterator[_Made]:
        """Yields the calls of an inner loop: its initial values go into the memory that it carries them in."""
        (body,), form = node.blocks, self.loop.form
        for start, param in zip(node.inputs[2:], body.params[1:], strict=True):
            if param in self.buffers:
                yield from self._copies(*self._located(param, turn), *self._located(start, turn))
        limit, go = self._number(node.inputs[0], turn, most=ENDLESS), NOTHING
        if node.inputs[1] in form.flags:
            go = self._address(form.flags[node.inputs[1]], turn)
        elif not self.at(node.inputs[1], turn):
            limit = NOTHING
        flag = form.flags.get(body.returns[0])
        turns = list[list[_Made]]()
        for number in (0, 1):
            self.times[node] = number
            turns.append(self._turn(turn, body, flag))
        del self.times[node]
        head = (*_work(Work.INNER)[:2], Place("status", 0))
        yield _Made(head, [limit, go, Place("status", 0)], node, (turns[0], turns[1]))

    def _indexed(self, node: Node, turn: int) -> _Made:
        whole, row = self.loop.type_of(self.at(node.inputs[0], turn)), node.inputs[3] if node.op == PUT else node.output
        axis, shape = self.at(node.inputs[1], turn), extents(whole)
        axis %= len(shape)
        indices = self.loop.type_of(self.at(node.inputs[2], turn))
        item = (whole.nbytes or 0) // max(prod(shape), 1)
        dims = [prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]) * item, indices.numel or 0, 4 if indices.dtype == "int32" else 8]
        places = [self._address(row, turn), self._address(node.inputs[0], turn)]
        if node.op == PUT and places[1].variable in (places[0].variable, self._address(node.inputs[2], turn).variable):
            raise ValueError("it writes rows of a tensor by what it reads of the same one")
        if node.op == PUT:
            places.reverse()
        head = (*_work(Work.PUT if node.op == PUT else Work.TAKE, self._constant(dims))[:2], Place("status", 0))
        return _Made(head, [*places, self._address(node.inputs[2], turn), Place("status", 0)])

    def _written(self, node: Node, turn: int) -> list[_Made]:
        """Returns the copies of a row, or of a part of a part, into what a loop carries."""
        part, row = self.at(node.output, turn), node
        part = self.loop.row_of(row, part, [self.at(value, turn) for value in row.inputs[2:]])
        while row in self.loop.form.parts:
            row = self.loop.form.parts[row]
            part = self.loop.row_of(row, part, [self.at(value, turn) for value in row.inputs[2:]])
        to, type = self._address_of(part, *self._origin(node.output, turn)), self.loop.type_of(part)
        from_, given = self._located(row.inputs[1], turn)
        if (type.dtype, type.shape) != (given.dtype, given.shape):
            raise ValueError("a row that it writes has another type or other extents")
        copies = self._copies(to, type, from_, given)
        if to.variable == from_.variable and (len(copies) > 1 or any(call.words[2].offset > 1 for call in copies)):
            raise ValueError("it writes a part of a tensor from another part of the same one")
        return copies

    def _copies(self, to: Place, into: TensorType, from_: Place, of: TensorType) -> list[_Made]:
        """Returns the copies of one tensor into another of the same extents: each of evenly spaced pieces. Raises ValueError for many."""
        item = (into.nbytes or 0) // max(into.numel or 0, 1)
        axes: list[tuple[int, ...]] = [
            axis for axis in zip(extents(into), into.strides or (), of.strides or (), strict=True) if axis[0] != 1
        ]
        axes.sort(key=lambda axis: -axis[1])
        if any(size == 0 for size, _, _ in axes):
            return []
        size = 1
        while axes and axes[-1][1:] == (size, size):
            size *= axes.pop()[0]
        while len(axes) > 1 and all(axes[-2][side] == axes[-1][0] * axes[-1][side] for side in (1, 2)):
            (outer, *_), (inner, *steps) = axes[-2:]
            axes[-2:] = [(outer * inner, *steps)]
        count, *steps = axes.pop() if axes else (1, 0, 0)
        if prod([axis[0] for axis in axes]) > MOST_PIECES:
            raise ValueError("what it copies is in too many pieces")
        return [
            _Made(_work(Work.COPY, size * item), [
                Place(to.variable, to.offset + item * sum(at * axis[1] for at, axis in zip(place, axes, strict=True))),
                Place(from_.variable, from_.offset + item * sum(at * axis[2] for at, axis in zip(place, axes, strict=True))),
                Place("", count), *[Place("", step * item) for step in steps],
            ])
            for place in product(*[range(axis[0]) for axis in axes])
        ]  # fmt: skip

    def _address(self, value: Value, turn: int) -> Place:
        """Returns the address of a tensor in a turn, from the start of the tensor that it is a view of."""
        return self._address_of(self.at(value, turn), *self._origin(value, turn))

    def _address_of(self, tensor: Any, variable: str, origin: Any) -> Place:
        address, reach = self.loop.memory.address, span(self.loop.type_of(origin))
        offset = address(tensor) - address(origin)
        if not 0 <= offset <= offset + span(self.loop.type_of(tensor)) <= reach:
            raise ValueError("a view of its body copies")
        return Place(variable, offset)

    def _origin(self, value: Value, turn: int) -> tuple[str, Any]:
        """Returns the tensor that a tensor is a view of, and the variable that holds it."""
        form, loop = self.loop.form, self.loop
        while True:
            node = loop.maker_of.get(value)
            if node is not None and value not in self.buffers and value not in form.owned:
                value = node.inputs[0]
                continue
            if value in loop.alias:
                value = loop.alias[value]
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

    def _scalar(self, value: Value, dtype: str, turn: int) -> Place:
        """Returns a number as a kernel reads it."""
        if not is_float(dtype):
            return self._number(value, turn)
        number = self.at(value, turn)
        if value in self.loop.form.captured:
            text = f"bits({self._start_text(value)})"
            self.bases[text] = text, 0
            return Place(text, 0)
        if len({each for _, _, *pair in self._moves(value) for each in pair}) > 1:
            raise ValueError("a kernel of its body reads the number of the turn as a float")
        return Place("", _bits(number))

    def _number(self, value: Value, turn: int, most: int = 0) -> Place:
        """Returns a whole number as a word, at `most` this one if it is given."""
        number = self.at(value, turn)
        for loop, _, (now,), (then,) in self._moves(value):
            if now != then:
                self.turns.most[loop] = min(self.turns.most[loop], (WORD - abs(now)) // abs(then - now) >> len(self.times))
        number = min(number, most) if most else number
        if not -WORD < number < WORD:
            raise ValueError("a number does not fit a word")
        return Place("", int(number))

    def _moves(self, *values: Value) -> list[tuple[Node, int, tuple[Any, ...], tuple[Any, ...]]]:
        """Returns what values are in each turn of the circle of the loop, and after it, and of each inner loop that is looked at what
        they are in its first turn and in its second: loop, turn, and both."""
        kept, self.times = self.times, {}

        def all_of(turn: int) -> tuple[Any, ...]:
            return tuple([self.at(value, turn) for value in values])

        period = self.loop.form.period
        found = [(self.loop.form.node, turn, all_of(turn), all_of(turn + period)) for turn in range(period)]
        for loop in kept:
            for turn in range(period):
                before = all_of(turn)
                self.times = {loop: 1}
                found.append((loop, turn, before, all_of(turn)))
                self.times = {}
        self.times = kept
        return found

    def _bound_cut(self, node: Node) -> None:
        """Bounds the turns by the extent of a dimension that is cut."""
        if is_tensor_of_number(node) or node.outputs[0].type in (BOOL, INT):
            return
        places = _CUTS.get(node.op, ())
        rest = [value for place, value in enumerate(node.inputs) if place not in places and value.type == INT]
        around = self.loop.around[node]
        self.times = dict.fromkeys(around, 0)
        moves = [self._moves(value) for value in rest]
        cuts = self._moves(*[node.inputs[place] for place in places]) if places else []
        self.times = {}
        if any(len({each for _, _, *pair in move for each in pair}) > 1 for move in moves):
            raise ValueError(f"{node.op} of its body changes from turn to turn")
        moving = {loop for loop, _, first, then in cuts if first != then}
        if not moving and len({first for _, _, first, _ in cuts}) < 2:
            return
        if len(moving) > 1:
            raise ValueError("it cuts parts at the sum of two loops' numbers")
        size = self.at(node.inputs[0], 0).shape[self.at(node.inputs[2 if node.op in ROWS else 1], 0)]
        lengths = {end - start for _, _, (start, *ends), _ in cuts for end in ends}
        for loop, turn, first, then in cuts:
            steps = {after - before for before, after in zip(first, then, strict=True)}
            if len(steps) != 1 or len(lengths) > 1 or any(length < 0 for length in lengths) or first[0] < 0:
                raise ValueError("it cuts parts of changing lengths")
            (step,), left = steps, size - (len(first) == 1) - first[-1]
            if left < 0:
                raise ValueError("it cuts parts of changing lengths")
            if step:
                circles = left // step if step > 0 else first[0] // -step
                period = self.loop.form.period if loop is self.loop.form.node else 1
                self.turns.most[loop] = min(self.turns.most[loop], turn + (circles + 1) * period if period > 1 else circles + 1)


def _nothing() -> _Made:
    """Returns a call that does nothing."""
    return _Made(_work(Work.SKIP), [Place("status", 0), NOTHING])


def _work(work: Work, extents: int = 0) -> tuple[Place, Place, Place]:
    return Place("", work), Place("", extents), NOTHING


def _bits(number: float) -> int:
    (found,) = struct.unpack("<q", struct.pack("<d", number))
    return int(found)
