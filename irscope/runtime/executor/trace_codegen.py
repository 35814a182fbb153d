"""Stretches of a program compiled to Python functions, for a program that has run before.

An instruction of flat code is a closure over slots, called by a loop that also clears dead slots: half a microsecond of
overhead each. A group computes a key of its operands' types and layouts and looks its kernel up: three more, twice as
long as a small kernel runs. A program of small tensors spends most of its time on this overhead.

Here each stretch between jumps becomes one Python function, in which slots are local variables, dead ones are deleted,
and a group compares its operands with the layout it last ran on, allocates its results and jumps into its kernel. The
results of library ops are not predicted but checked, as before. When a group sees another layout, the function spills
its variables back into the slots and gives up; the instructions continue from there, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from irscope.runtime.executor.bytecode import FlatCode, Plain, Slots
from irscope.runtime.executor.guarded_call import launch_text
from irscope.runtime.executor.kernel_calls import GroupCall, Specialization

__all__ = ["Stamp", "TraceCompiler", "WrittenRun", "written_runs"]

Stamp = tuple[Callable[[int], object], Callable[[], int]]
"""The function that records a time, and the clock that it is read from."""

_LONGEST: Final = 2000
"""Instructions of one function: Python compiles several short ones in less memory than one long one."""
_SHORTEST: Final = 2
"""Instructions; a shorter stretch would gain nothing."""

_LITERALS: Final = {"prim::ListConstruct": "[{}]", "prim::TupleConstruct": "({},)"}
"""Ops that have a literal form in Python."""


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """One compiled stretch."""

    stop: int
    """The position after its last instruction."""
    function: Callable[[Slots], int]
    """Runs the stretch; returns `stop`, or the position of the group that saw another layout."""
    lines: tuple[int, ...]
    """The position of the instruction behind each line of the text, counted from 1; line 0 does not exist."""

    def position_of(self, error: Exception) -> int:
        """Returns the position of the instruction that raised an error; the first one if Dynamo ran another text instead."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self.function.__code__:
            trace = trace.tb_next
        return self.lines[0 if trace is None else trace.tb_lineno]


class TraceCompiler:
    """Decides when the stretches of a program are compiled: after its second run, and after each misfit twice as late."""

    def __init__(self, code: FlatCode, stamp: Stamp | None = None) -> None:
        self.code = code
        self.stamp = stamp
        self.patience = 2
        self.wait = 2
        """Runs left until the stretches are compiled; 0 when they are."""

    def after_run(self) -> None:
        """Called after each unobserved run; when threads compete, the text of the last one stays."""
        code = self.code
        if code.strayed:
            code.runs, code.strayed = {}, False
            self.patience *= 2
            self.wait = self.patience
        elif self.wait > 0:
            self.wait -= 1
            if self.wait <= 0:
                code.runs = written_runs(code, self.stamp)


def written_runs(code: FlatCode, stamp: Stamp | None = None) -> dict[int, WrittenRun]:
    """Compiles the stretches of a program, by their first positions; groups must have run once, so that their layouts are
    known. With a `stamp` each instruction ends in `mark(clock())`."""
    return {start: _Writer(code, start, stop, stamp).written() for start, stop in _basic_blocks(code)}


def _basic_blocks(code: FlatCode) -> Iterator[tuple[int, int]]:
    start = 0
    for position in range(len(code.instructions) + 1):
        fits = position < len(code.instructions) and _is_writable(code, position)
        if fits and position not in code.targets and position - start < _LONGEST:
            continue
        if position - start >= _SHORTEST:
            yield start, position
        start = position if fits else position + 1


def _is_writable(code: FlatCode, position: int) -> bool:
    if position in code.plain:
        return True
    step, _ = code.instructions[position]
    return isinstance(step, GroupCall) and step.last is not None and bool(step.memory.facts and step.writes)


class _Writer:
    """Compiles one stretch."""

    def __init__(self, code: FlatCode, start: int, stop: int, stamp: Stamp | None) -> None:
        self.code = code
        self.start = start
        self.stop = stop
        self.stamp = stamp
        self.names: dict[str, Any] = {"spill": _spill}
        if stamp is not None:
            self.names["mark"], self.names["clock"] = stamp
        self.text = ["def run(slots):"]
        self.lines = [start, start]
        self.local: set[int] = set()
        """Slots whose values are in variables."""
        self.kept: set[int] = set()
        """Slots that hold a value besides the variable, or will when the stretch ends."""
        self.constant = {slot for slot, value in enumerate(code.template) if value is not None}

    def written(self) -> WrittenRun:
        code = self.code
        dying = {slot for position in range(self.start, self.stop) for slot in code.instructions[position][1]}
        for position in range(self.start, self.stop):
            step, dead = code.instructions[position]
            if isinstance(step, GroupCall):
                assert step.last is not None, "only groups that have run on a layout are compiled"
                self.group(position, step, step.last)
            else:
                self.plain(position, code.plain[position])
            for slot in code.writes[position]:
                if slot not in dying:
                    self.line(position, f"slots[{slot}] = v{slot}")
            self.clear_dead(position, dead)
            if self.stamp is not None:
                self.line(position, "mark(clock())")
        self.line(self.stop - 1, f"return {self.stop}")
        exec(compile("\n".join(self.text), "<a stretch of a program>", "exec"), self.names)  # it has only slot numbers
        return WrittenRun(self.stop, self.names["run"], tuple(self.lines))

    def line(self, position: int, text: str, deeper: int = 0) -> None:
        self.text.append(f"{'    ' * (1 + deeper)}{text}")
        self.lines.append(position)

    def read(self, position: int, slot: int) -> str:
        """Returns the variable that has a slot's value; before the stretch writes it, the slot itself is read once."""
        if slot in self.constant:
            self.names[f"v{slot}"] = self.code.template[slot]
        elif slot not in self.local:
            self.line(position, f"v{slot} = slots[{slot}]")
            self.local.add(slot)
            self.kept.add(slot)
        return f"v{slot}"

    def plain(self, position: int, plain: Plain) -> None:
        operands = ", ".join([self.read(position, slot) for slot in plain.reads])
        node = self.code.nodes[position]
        shape = _LITERALS.get("" if node is None else node.op)
        if plain.function is None:
            text = operands
        elif shape is not None and operands:
            text = shape.format(operands)
        else:
            self.names[f"f{position}"] = plain.function
            text = f"f{position}({operands})"
        self.assign(position, plain.writes, text, unpacks=plain.function is not None)

    def assign(self, position: int, writes: tuple[int, ...], text: str, *, unpacks: bool) -> None:
        self.local.update(writes)
        left = ", ".join([f"v{slot}" for slot in writes])
        if unpacks and len(writes) > 1:
            left += ","
        if writes or unpacks:
            self.line(position, f"{left} = {text}" if writes else text)

    def group(self, position: int, call: GroupCall, layout: Specialization) -> None:
        memory, names, key, mark = call.memory, self.names, layout.key, f"_{position}"
        reads = [self.read(position, slot) for slot in call.reads]
        names[f"key{mark}"], names[f"same{mark}"], names["key_of"] = key, layout.same, memory.key
        given = "".join([f"{name}, " for name in reads])
        strange = f"key_of(({given})) != key{mark}"
        assert isinstance(key, tuple), "a key has one entry per operand"
        tensors = [name for name, kind in zip(reads, key, strict=True) if isinstance(kind, tuple)]
        numbers = [slot for slot, kind in zip(call.reads, key, strict=True) if not isinstance(kind, tuple)]
        if layout.same is not None and self.constant.issuperset(numbers):  # constant numbers need no check
            nested = "".join([f"{name}.is_nested or " for name in tensors])  # torch's comparison crashes the process on one
            strange = f"{nested}not same{mark}({', '.join(tensors)}) and {strange}"
        self.line(position, f"if {strange}:")
        self.line(position, f"return spill(slots, locals(), {position})", 1)
        taken = layout.ready.in_place
        for place, (slot, make) in enumerate(zip(call.writes, layout.ready.makers, strict=True)):
            if place in taken:
                self.line(position, f"v{slot} = {reads[taken[place]]}")
                continue
            names[f"make{mark}_{place}"] = make
            self.line(position, f"v{slot} = make{mark}_{place}()")
        self.local.update(call.writes)
        names["address"] = memory.address
        outputs = [memory.address_text.format(f"v{slot}") for slot in call.writes]
        inputs = [
            memory.address_text.format(name) if isinstance(kind, tuple) else name
            for name, kind in zip(reads, key, strict=True)
        ]
        for text in launch_text(layout.ready.plan, outputs, inputs, names, mark):
            self.line(position, text)

    def clear_dead(self, position: int, dead: tuple[int, ...]) -> None:
        held = [slot for slot in dead if slot in self.local]
        for slot in dead:
            if slot in self.kept or slot not in self.local:
                self.line(position, f"slots[{slot}] = None")
        if held:
            self.line(position, f"del {', '.join([f'v{slot}' for slot in held])}")
        self.local.difference_update(held)
        self.kept.difference_update(held)


def _spill(slots: Slots, variables: Mapping[str, Any], position: int) -> int:
    """Puts a function's variables back into their slots; returns the position to continue at."""
    for name, value in variables.items():
        if name[0] == "v":
            slots[int(name[1:])] = value
    return position
