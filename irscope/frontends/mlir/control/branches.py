"""Imports blocks with jumps (of `cf`, `llvm` and `vm`) as `prim::If` and `prim::Loop`, if they are structured.

A branch is structured if all its paths meet again in the block that post-dominates it (or all return), and nothing else
jumps to that block. A switch is a chain of such branches. A loop is structured if all back edges go to its header,
which dominates it, and it is left from one block only, to one block. An iteration is read in two parts, like that of
`scf.while`: from the header to the exiting block, before the loop and at the end of each iteration; and from there back
to the header. Values that the first part defines and others use are carried. Anything else is an error that names the
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from irscope._base.trampoline import Call
from irscope.errors import CaptureError
from irscope.frontends.mlir.control.flow_graph import FlowGraph
from irscope.frontends.mlir.control.structured import as_bool, emit_if, emit_while
from irscope.frontends.mlir.emit import dtype_of
from irscope.frontends.mlir.reader import BlockReader
from irscope.ir import Type, Value

__all__ = ["CHOICES", "JUMPS", "SWITCHES", "read_branches"]

JUMPS: Final = frozenset({"cf.br", "llvm.br", "vm.br"})
CHOICES: Final = frozenset({"cf.cond_br", "llvm.cond_br", "vm.cond_br"})
"""Two-way branches; the operands are the condition, and the arguments of the first and of the second block."""
SWITCHES: Final = frozenset({"cf.switch", "llvm.switch"})
"""Switches; the operands are a number, the arguments of the default block, and those of each case's block."""


def read_branches(reader: BlockReader, blocks: Sequence[Any]) -> Call:
    """Reads the blocks of one region into the open block; returns the region's results.

    Raises CaptureError for jumps that are not structured.
    """
    return (yield _Branches(reader, blocks).path(0, None))


class _Branches:
    """One region, whose blocks are numbered."""

    def __init__(self, reader: BlockReader, blocks: Sequence[Any]) -> None:
        self.reader = reader
        self.blocks = blocks
        self.ends = [self._end(block) for block in blocks]
        self.returns = sorted({end.name for end in self.ends if reader.is_end(end)})
        """The names of the ops that end the region."""
        number = {block: index for index, block in enumerate(blocks)}
        self.flow = FlowGraph([[number[s] for s in end.successors] for end in self.ends])
        self.open_loops: set[int] = set()

    def _end(self, block: Any) -> Any:
        operations = list(block.operations)
        if not operations:
            raise CaptureError("a block without ops", hint="each block ends in a jump or a return")
        return operations[-1].operation

    def path(self, start: int, stop: int | None) -> Call:
        """Reads from the beginning of `start`, whose arguments are bound, to a jump to `stop`; returns the arguments of
        the jump, or the region's results if `stop` is None."""
        at = start
        while True:
            if at in self.flow.loops and at not in self.open_loops:
                at = yield self.loop(at)
                continue
            yield self.ops(at)
            name = self.ends[at].name
            if name in JUMPS:
                (target,) = self.flow.successors[at]
                passed = self.passed(at, 0)
                if target == stop:
                    return passed
                at = self.enter(at, target, passed)
            elif name in CHOICES | SWITCHES:
                done, at = yield self.branch(at, stop)
                if at < 0:
                    return done
            elif self.reader.is_end(self.ends[at]):
                if stop is not None:
                    raise self.unstructured(at, "returns from inside of a branch or loop")
                if len(self.returns) > 1:
                    raise self.unstructured(at, f"is not the region's only end, and they differ: {', '.join(self.returns)}")
                return self.reader.operands(self.ends[at])
            else:
                raise self.unstructured(at, f"ends in {name}")

    def ops(self, at: int) -> Call:
        """Reads the ops of a block before its jump."""
        for op in list(self.blocks[at].operations)[:-1]:
            call = self.reader.op(op.operation)
            if call is not None:
                yield call

    def enter(self, source: int, target: int, passed: Sequence[Value]) -> int:
        """Binds a block's arguments; raises unless the block has one predecessor, apart from back edges of its own
        loop."""
        inside = self.flow.loops.get(target, frozenset())
        if {block for block in self.flow.predecessors[target] if block not in inside} - {source}:
            raise self.unstructured(target, "is jumped to from several places that are not the arms of one branch")
        if target in self.open_loops:
            raise self.unstructured(source, f"jumps back to ^bb{target} from inside of a branch")
        self.bind(target, passed)
        return target

    def bind(self, target: int, passed: Sequence[Value]) -> None:
        self.reader.values.update(zip(self.blocks[target].arguments, passed, strict=True))

    def branch(self, at: int, stop: int | None) -> Call:
        """Reads a multi-way jump; returns the path's results and -1, or nothing and the block at which it continues."""
        reader = self.reader
        reader.e.place = reader.reading.places(self.ends[at].location)
        meet = self.flow.meeting(at)
        if meet is None:
            if stop is not None:
                raise self.unstructured(at, "leads out of a branch or loop to a return")
            return (yield self.chosen(at, self.returned(at), None)), -1
        types = [reader.reading.types(argument.type) for argument in self.blocks[meet].arguments]
        made = yield self.chosen(at, types, meet)
        if meet == stop:
            return made, -1
        inside = {block for block in self.flow.predecessors[meet] if block == at or self.flow.dominates(at, block)}
        if len(inside) != len(self.flow.predecessors[meet]):
            raise self.unstructured(meet, "is jumped to from inside of a branch and from outside of it")
        self.bind(meet, made)
        return (), meet

    def chosen(self, at: int, types: Sequence[Type], meet: int | None) -> Call:
        """Emits the targets of a jump as a chain of ifs, the last one unconditional; returns their results."""
        place, ways = self.reader.e.place, self.ways(at, meet)

        def choose(number: int) -> Call:
            tests, way = ways[number]
            if not tests:
                return (yield self.arm(at, way, meet)())
            self.reader.e.place = place
            arms = [self.arm(at, way, meet), lambda: choose(number + 1)]
            return (yield emit_if(self.reader, self.condition(at, tests), types, arms))

        return (yield choose(0))

    def ways(self, at: int, meet: int | None) -> list[tuple[tuple[int | None, ...], int]]:
        """Returns, for each target of a jump, the numbers that lead there (None for a true condition) and the index of
        the successor; the last target has no numbers."""
        end = self.ends[at]
        if end.name in CHOICES:
            return [((None,), 0), ((), 1)]
        cases = self.reader.reading.attributes.read(end.attributes["case_values"]) if "case_values" in end.attributes else None
        found: dict[tuple[int, tuple[Value, ...]], tuple[list[int], int]] = {}
        if cases is not None:
            if getattr(cases, "array", None) is None or dtype_of(self.reader.operands(end)[0]) == "bool":
                raise self.unstructured(at, "branches on a number of unknown type")
            for number, case in enumerate(cases.array.reshape(-1).tolist(), 1):
                key = self.flow.successors[at][number], self.passed(at, number)
                found.setdefault(key, ([], number))[0].append(case)
        default = self.flow.successors[at][0], self.passed(at, 0)
        found.pop(default, None)
        read = [target for target, _ in (*found, default) if target != meet]
        if len(set(read)) != len(read):  # it would be read once for each, and so would its successors
            raise self.unstructured(at, "leads to one block twice, with different arguments")
        return [*((tuple(numbers), way) for numbers, way in found.values()), ((), 0)]

    def condition(self, at: int, tests: Sequence[int | None]) -> Value:
        """Emits a test whether the number that a jump chooses by is one of these."""
        reader, (chooser, *_) = self.reader, self.reader.operands(self.ends[at])
        if tests[0] is None:
            return as_bool(reader, chooser)
        hit: Value | None = None
        for test in tests:
            same = reader.e.like("eq", chooser, test, dtype="bool")
            hit = same if hit is None else reader.e.like("bitwise_or", hit, same)
        assert hit is not None  # there are tests
        return as_bool(reader, hit)

    def returned(self, at: int) -> list[Type]:
        """Returns the types of the region's results."""
        end = next((end for end in self.ends if self.reader.is_end(end)), None)
        if end is None:
            raise self.unstructured(at, "never reaches a return")
        return [self.reader.reading.types(operand.type) for operand in end.operands]

    def arm(self, at: int, way: int, meet: int | None) -> Any:
        def read() -> Call:
            target, passed = self.flow.successors[at][way], self.passed(at, way)
            if target == meet:
                return passed
            self.enter(at, target, passed)
            return (yield self.path(target, meet))

        return read

    def passed(self, at: int, way: int) -> tuple[Value, ...]:
        """Returns the values that a jump passes to the arguments of its target."""
        end = self.ends[at]
        operands = self.reader.operands(end)
        if end.name in JUMPS:
            return operands
        counts = [len(self.blocks[target].arguments) for target in self.flow.successors[at]]
        first = 1 + sum(counts[:way])
        return operands[first : first + counts[way]]

    def loop(self, header: int) -> Call:
        """Reads a loop whose header's arguments are bound; returns the block after it, whose arguments it binds."""
        flow, reader = self.flow, self.reader
        leaving = flow.exit_of(header)
        if leaving is None or self.ends[leaving[0]].name not in CHOICES:
            raise self.unstructured(header, "heads a loop that is left from several blocks, or from none")
        tail, way_out = leaving
        self.open_loops.add(header)
        kept = self.carried(header, tail)

        def first_part() -> Call:
            """Reads from the header to the exiting jump; returns the condition to continue, and the carried values."""
            yield self.until(header, tail)
            go = as_bool(reader, reader.operands(self.ends[tail])[0])
            if way_out == 0:
                go = reader.e.op("__not__", go, type=go.type)
            return go, tuple(reader.values[value] for value in kept)

        def around(carried: Sequence[Value]) -> Call:
            reader.values.update(zip(kept, carried, strict=True))
            passed = self.passed(tail, 1 - way_out)
            target = flow.successors[tail][1 - way_out]
            if target != header:
                self.bind(target, passed)
                passed = yield self.path(target, header)
            self.bind(header, passed)
            return (yield first_part())

        first = yield first_part()
        types = [value.type for value in first[1]]
        made = yield emit_while(reader, first, types, around)
        reader.values.update(zip(kept, made, strict=True))
        after = flow.successors[tail][way_out]
        self.bind(after, self.passed(tail, way_out))
        self.open_loops.discard(header)
        return after

    def until(self, start: int, end: int) -> Call:
        """Reads from the beginning of `start` to the end of block `end`, before its jump."""
        if start != end:
            self.bind(end, (yield self.path(start, end)))
        yield self.ops(end)

    def carried(self, header: int, tail: int) -> list[Any]:
        """Returns MLIR's values that the first part defines in blocks that always run, and that are used elsewhere."""
        always = [header] if header == tail else [b for b in self.flow.loops[header] if self.flow.dominates(b, tail)]
        defined: dict[Any, int] = {}
        for block in sorted(always):
            defined.update(dict.fromkeys(self.blocks[block].arguments, block))
            for op in self.blocks[block].operations:
                defined.update(dict.fromkeys(op.operation.results, block))
        read: dict[Any, None] = {}
        for number, block in enumerate(self.blocks):
            for op in block.operations:
                stack = [op.operation]
                while stack:
                    inner = stack.pop()
                    is_jump = number == tail and inner == self.ends[tail]
                    operands = list(inner.operands)
                    for operand in operands[1:] if is_jump else operands:
                        if operand in defined and (number not in always or is_jump):
                            read[operand] = None
                    stack.extend(o.operation for r in inner.regions for b in r.blocks for o in b.operations)
        return [value for value in defined if value in read]

    def unstructured(self, at: int, why: str) -> CaptureError:
        place = self.reader.reading.places(self.ends[at].location).location
        where = f"{place}: " if place is not None else ""
        return CaptureError(
            f"{where}block ^bb{at} {why}, which is neither an if nor a loop", rule="unstructured-branches",
            hint="structure the control flow (scf.if, scf.for, scf.while), or load the program before it was lowered to cf",
        )  # fmt: skip
