"""Imports structured control flow of MLIR as `prim::If` and `prim::Loop`.

A `prim::Loop` tests its condition before the first iteration and at the end of each; MLIR's loops have a region that
computes it (`stablehlo.while`, `scf.while`), which is therefore read twice: before the loop and at the end of its body.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from irscope._base.nested import Call
from irscope.errors import CaptureError
from irscope.frontends.mlir.importer import BlockReader, ControlRule, Emitter, called_function, dtype_of, operations_in, producer
from irscope.ir import BOOL, INT, TensorData, TensorType, Type, Value

FOREVER: Final = (1 << 63) - 1
"""The trip count of a loop that only its condition ends, as TorchScript writes it."""

_COUNTING: Final = frozenset({"aten::add", "aten::sub", "aten::mul", "prim::NumToTensor", "prims::convert_element_type", "prim::Constant"})

Arm = Callable[[], Call]
"""Reads one arm of a branch into the open block; returns its results."""


def as_bool(reader: BlockReader, value: Value) -> Value:
    return value if value.type == BOOL else reader.e.op("Bool", value, type=BOOL)


def emit_if(reader: BlockReader, condition: Value, types: Sequence[Type], arms: Sequence[Arm]) -> Call:
    """Emits a `prim::If`; returns its results."""
    place, blocks = reader.e.place, []
    for arm in arms:
        with reader.e.block() as inner:
            inner.returns((yield arm()))
        blocks.append(inner)
    reader.e.place = place
    return reader.e.node("prim::If", (condition,), types, blocks=blocks)


def emit_while(
    reader: BlockReader, first: tuple[Value, Sequence[Value]], types: Sequence[Type],
    around: Callable[[Value, Sequence[Value]], Call], rounds: int = FOREVER,
) -> Call:  # fmt: skip
    """Emits a `prim::Loop` of at most `rounds` iterations that continues as long as its condition holds.

    `first` is the condition before the first iteration and the carried values; `around` reads one iteration with its number and these
    values as carried, and returns the next condition and the next values. What only counts and is not read is left out.
    """
    place = reader.e.place
    limit, go = reader.e.constant(rounds), first[0]
    with reader.e.block([("", INT), *(("", type) for type in types)]) as body:
        condition, carried = yield around(body.params[0], body.params[1:])
        body.returns((condition, *carried))
        reader.e.build.drop_unread(body, _COUNTING)
    reader.e.place = place
    return reader.e.node("prim::Loop", (limit, go, *first[1]), types, blocks=(body,))


def _stablehlo_while(reader: BlockReader, operation: Any) -> Call:
    test, body = operation.regions
    place, initial = reader.e.place, reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]
    known = [reader.e.known.get(value) for value in initial]
    rounds = known_rounds(operation, known, reader.reading)
    counters = {} if rounds is None else known_counters(operation, known, reader.reading, rounds)
    carried = [at for at in range(len(initial)) if at not in counters]

    def asked(values: Sequence[Value]) -> Call:
        reader.values.update(zip(test.blocks[0].arguments, values, strict=True))
        (answer,) = yield reader.read_region(test)
        return as_bool(reader, answer)

    def around(index: Value, values: Sequence[Value]) -> Call:
        arguments = body.blocks[0].arguments
        reader.values.update(zip([arguments[at] for at in carried], values, strict=True))
        for at, (start, step) in counters.items():
            reader.values[arguments[at]] = _counted(reader.e, index, start, step, rounds or 0, types[at])
        following = yield reader.read_region(body)
        return (go if rounds is not None else (yield asked(following))), [following[at] for at in carried]

    go = reader.e.constant(True) if rounds is not None else (yield asked(initial))
    reader.e.place = place
    first = go, [initial[at] for at in carried]
    made = yield emit_while(reader, first, [types[at] for at in carried], around, FOREVER if rounds is None else rounds)
    results = dict(zip(carried, made, strict=True))
    for at, (start, step) in counters.items():
        results[at] = reader.e.scalar(start + step * (rounds or 0), dtype_of(initial[at]))
    reader.bind(operation.results, [results[at] for at in range(len(initial))])


def _counted(e: Emitter, index: Value, start: int, step: int, rounds: int, type: Type) -> Value:
    """Emits the tensor of a counter from the number of the turn; rules that need a number take it from `numbers`."""
    number = index if step == 1 else e.op("mul", index, step, type=INT)
    number = number if start == 0 else e.op("add", number, start, type=INT)
    assert isinstance(type, TensorType)
    made = e.cast(e.op("prim::NumToTensor", number), type.dtype or "int64")
    last = start + step * max(rounds - 1, 0)
    e.numbers[made] = number, min(start, last), max(start, last)
    return made


def _scf_while(reader: BlockReader, operation: Any) -> Call:
    before, after = operation.regions
    place, initial = reader.e.place, reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]

    def asked(values: Sequence[Value]) -> Call:
        reader.values.update(zip(before.blocks[0].arguments, values, strict=True))
        answer, *handed_on = yield reader.read_region(before)
        return as_bool(reader, answer), tuple(handed_on)

    def around(index: Value, carried: Sequence[Value]) -> Call:
        reader.values.update(zip(after.blocks[0].arguments, carried, strict=True))
        return (yield asked((yield reader.read_region(after))))

    first = yield asked(initial)
    reader.e.place = place
    reader.bind(operation.results, (yield emit_while(reader, first, types, around)))


def _scf_for(reader: BlockReader, operation: Any) -> Call:
    if "unsignedCmp" in operation.attributes:  # the bounds are compared as unsigned numbers, and torch's int is signed
        return (yield reader.keep_with_regions(operation))
    (region,) = operation.regions
    counter, *arguments = region.blocks[0].arguments
    e, place = reader.e, reader.e.place
    low, high, step, *initial = reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]
    start, stop, by = (bound if bound.type == INT else e.op("Int", bound, type=INT) for bound in (low, high, step))
    span = e.op("sub", e.op("add", e.op("sub", stop, start, type=INT), by, type=INT), 1, type=INT)
    count = e.op("floordiv", span, by, type=INT)
    always = e.constant(True)
    with e.block([("", INT), *(("", type) for type in types)]) as body:
        offset = e.op("mul", body.params[0], by, type=INT)
        at = e.op("add", start, offset, type=INT)
        if low.type != INT:
            at = e.cast(e.op("prim::NumToTensor", at), dtype_of(low))
        reader.values.update(zip([counter, *arguments], [at, *body.params[1:]], strict=True))
        body.returns((always, *(yield reader.read_region(region))))
    e.place = place
    reader.bind(operation.results, e.node("prim::Loop", (count, always, *initial), types, blocks=(body,)))


def _branch(reader: BlockReader, operation: Any) -> Call:
    """Imports `scf.if`, whose second region may be empty, and `stablehlo.if`."""
    condition = as_bool(reader, reader.operands(operation)[0])
    types = [reader.reading.types(result.type) for result in operation.results]
    arms = [partial(reader.read_region, region) for region in operation.regions]
    reader.bind(operation.results, (yield emit_if(reader, condition, types, arms)))


def _case(reader: BlockReader, operation: Any) -> Call:
    """Imports `stablehlo.case`, which runs the branch of a number, or the last branch if there is none, and `scf.index_switch`, whose
    first region is the default."""
    index, where = reader.operands(operation)[0], reader.e.place
    types = [reader.reading.types(result.type) for result in operation.results]
    *regions, default = operation.regions
    numbers: Sequence[int] = range(len(regions))
    if operation.name == "scf.index_switch":
        default, *regions = operation.regions
        numbers = [int(number) for number in operation.attributes["cases"]]

    def choose(place: int) -> Call:
        if place == len(regions):
            return (yield reader.read_region(default))
        reader.e.place = where
        if index.type == INT:
            hit = reader.e.op("eq", index, numbers[place], type=BOOL)
        else:
            hit = as_bool(reader, reader.e.op("eq", index, numbers[place]))
        return (yield emit_if(reader, hit, types, [partial(reader.read_region, regions[place]), partial(choose, place + 1)]))

    reader.bind(operation.results, (yield choose(0)))


def _inline(reader: BlockReader, operation: Any) -> Call:
    """Imports `scf.execute_region` by inlining its ops."""
    reader.bind(operation.results, (yield reader.read_region(operation.regions[0])))


CONTROL: Final[Mapping[str, ControlRule]] = {
    "stablehlo.while": _stablehlo_while,
    "stablehlo.if": _branch,
    "stablehlo.case": _case,
    "scf.if": _branch,
    "scf.for": _scf_for,
    "scf.while": _scf_while,
    "scf.index_switch": _case,
    "scf.execute_region": _inline,
}
"""Readers of the ops that become `prim::If` and `prim::Loop`."""


# Determines how often a `stablehlo.while` runs, if its counter goes from one constant to another by ones.
#
# JAX emits this for `scan` and `fori_loop`. The condition must be just `counter < bound`, and the body must return the
# counter plus one in its place.


def known_rounds(operation: Any, initial: Sequence[Any], reading: Any) -> int | None:
    """Returns the trip count; None if it is not certain. `initial` has the elements of each initial value, None where unknown."""
    test = operation.regions[0].blocks[0]
    *_, end = test.operations
    compare = producer(end.operation.operands[0], "stablehlo.compare")
    if compare is None or "LT" not in str(compare.attributes["comparison_direction"]):
        return None
    if any(op.operation.name not in ("stablehlo.constant", "stablehlo.compare", "stablehlo.return") for op in test.operations):
        return None
    counter, bound = compare.operands
    places = [place for place, argument in enumerate(test.arguments) if argument == counter]
    limit = _number(bound, reading)
    if len(places) != 1 or limit is None:
        return None
    (place,) = places
    start = _whole_number(initial[place])
    if start is None or _step(operation, place, reading) != 1:
        return None
    return max(0, limit - start)


def known_counters(operation: Any, initial: Sequence[Any], reading: Any, rounds: int) -> dict[int, tuple[int, int]]:
    """Returns start and step of each carried number that goes on from a constant by a constant, by its place, if it never leaves
    its type."""
    found = {}
    for place, elements in enumerate(initial):
        start, step = _whole_number(elements), _step(operation, place, reading)
        if start is not None and step is not None and elements.shape == ():
            kind = np.iinfo(elements.dtype)
            if kind.min <= start + step * rounds <= min(kind.max, FOREVER):
                found[place] = start, step
    return found


def _step(operation: Any, place: int, reading: Any) -> int | None:
    """Returns the constant that an iteration adds to a carried number; None if it does anything else."""
    body = operation.regions[1].blocks[0]
    *_, end = body.operations
    made, argument = end.operation.operands[place], body.arguments[place]
    call = producer(made, "func.call")
    if call is not None:
        function = called_function(call)
        places = [index for index, operand in enumerate(call.operands) if operand == argument]
        if function is None or len(places) != 1 or len(function.regions[0].blocks) != 1:
            return None
        inside = function.regions[0].blocks[0]
        *_, end = inside.operations
        made, argument = end.operation.operands[list(call.results).index(made)], inside.arguments[places[0]]
    step = producer(made, "stablehlo.add")
    operands = [] if step is None else list(step.operands)
    if argument not in operands:
        return None
    operands.remove(argument)
    return _number(operands[0], reading)


def _whole_number(elements: Any) -> int | None:
    """Returns the only element of an array of integers; None for anything else."""
    return int(elements.reshape(-1)[0]) if elements is not None and elements.size == 1 and elements.dtype.kind in "iu" else None


def _number(value: Any, reading: Any) -> int | None:
    """Returns the value of an integer constant of rank 0; None for anything else."""
    made = producer(value, "stablehlo.constant")
    data = reading.attributes.read(made.attributes["value"]) if made is not None else None
    if not isinstance(data, TensorData) or data.array is None or data.shape or data.array.dtype.kind not in "iu":
        return None
    return int(data.array)


# Imports blocks with jumps (of `cf`, `llvm` and `vm`) as `prim::If` and `prim::Loop`, if they are structured.
#
# A branch is structured if all its paths meet again in the block that post-dominates it (or all return), and nothing else jumps to that
# block. A switch is a chain of such branches. A loop is structured if all back edges go to its header, which dominates it, and it is left
# from one block only, to one block. An iteration is read in two parts, like that of `scf.while`: from the header to the exiting block,
# before the loop and at the end of each iteration; and from there back to the header. Values that the first part defines and others use are
# carried. Anything else is an error that names the block.

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
        if not all(len(block.operations) for block in blocks):
            raise CaptureError("a block without ops", hint="each block ends in a jump or a return")
        self.ends = [list(block.operations)[-1].operation for block in blocks]
        self.returns = sorted({end.name for end in self.ends if reader.is_end(end)})
        """The names of the ops that end the region."""
        number = {block: index for index, block in enumerate(blocks)}
        self.flow = FlowGraph([[number[s] for s in end.successors] for end in self.ends])
        self.open_loops: set[int] = set()

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
                passed = self.jump_operands(at, 0)
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
            call = self.reader.read_op(op.operation)
            if call is not None:
                yield call

    def enter(self, source: int, target: int, passed: Sequence[Value]) -> int:
        """Binds a block's arguments; raises unless the block has one predecessor, apart from back edges of its own loop."""
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
        meet = self.flow.meetings.get(at)
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
        place, ways = self.reader.e.place, self.targets(at, meet)

        def choose(number: int) -> Call:
            tests, way = ways[number]
            if not tests:
                return (yield self.read_arm(at, way, meet))
            self.reader.e.place = place
            arms = [partial(self.read_arm, at, way, meet), partial(choose, number + 1)]
            return (yield emit_if(self.reader, self.condition(at, tests), types, arms))

        return (yield choose(0))

    def targets(self, at: int, meet: int | None) -> list[tuple[tuple[int | None, ...], int]]:
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
                key = self.flow.successors[at][number], self.jump_operands(at, number)
                found.setdefault(key, ([], number))[0].append(case)
        default = self.flow.successors[at][0], self.jump_operands(at, 0)
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
            same = reader.e.op("eq", chooser, test)
            hit = same if hit is None else reader.e.op("bitwise_or", hit, same)
        assert hit is not None  # there are tests
        return as_bool(reader, hit)

    def returned(self, at: int) -> list[Type]:
        """Returns the types of the region's results."""
        end = next((end for end in self.ends if self.reader.is_end(end)), None)
        if end is None:
            raise self.unstructured(at, "never reaches a return")
        return [self.reader.reading.types(operand.type) for operand in end.operands]

    def read_arm(self, at: int, way: int, meet: int | None) -> Call:
        target, passed = self.flow.successors[at][way], self.jump_operands(at, way)
        if target == meet:
            return passed
        self.enter(at, target, passed)
        return (yield self.path(target, meet))

    def jump_operands(self, at: int, way: int) -> tuple[Value, ...]:
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
        kept = self.loop_carried_values(header, tail)

        def first_part() -> Call:
            """Reads from the header to the exiting jump; returns the condition to continue, and the carried values."""
            if header != tail:
                self.bind(tail, (yield self.path(header, tail)))
            yield self.ops(tail)
            go = as_bool(reader, reader.operands(self.ends[tail])[0])
            if way_out == 0:
                go = reader.e.op("__not__", go, type=go.type)
            return go, tuple(reader.values[value] for value in kept)

        def read_back_edge(index: Value, carried: Sequence[Value]) -> Call:
            reader.values.update(zip(kept, carried, strict=True))
            passed = self.jump_operands(tail, 1 - way_out)
            target = flow.successors[tail][1 - way_out]
            if target != header:
                self.bind(target, passed)
                passed = yield self.path(target, header)
            self.bind(header, passed)
            return (yield first_part())

        first = yield first_part()
        types = [value.type for value in first[1]]
        made = yield emit_while(reader, first, types, read_back_edge)
        reader.values.update(zip(kept, made, strict=True))
        after = flow.successors[tail][way_out]
        self.bind(after, self.jump_operands(tail, way_out))
        self.open_loops.discard(header)
        return after

    def loop_carried_values(self, header: int, tail: int) -> list[Any]:
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
                    stack.extend(operations_in(inner))
        return [value for value in defined if value in read]

    def unstructured(self, at: int, why: str) -> CaptureError:
        place = self.reader.reading.places(self.ends[at].location).location
        where = f"{place}: " if place is not None else ""
        return CaptureError(
            f"{where}block ^bb{at} {why}, which is neither an if nor a loop", rule="unstructured-branches",
            hint="structure the control flow (scf.if, scf.for, scf.while), or load the program before it was lowered to cf",
        )  # fmt: skip


# Control-flow analysis on numbered blocks: dominators, post-dominators and loops, near-linear.
#
# Dominators are computed by Cooper, Harvey and Kennedy's iteration over blocks in reverse post-order. A loop is the set
# of blocks from which a back edge to its header is reached without passing the header.


class FlowGraph:
    """The jumps between numbered blocks; block 0 is the entry.

    >>> flow = FlowGraph([[1], [2, 3], [1], []])
    >>> flow.loops, flow.exit_of(1), flow.dominates(1, 3)
    ({1: frozenset({1, 2})}, (1, 1), True)
    """

    def __init__(self, successors: Sequence[Sequence[int]]) -> None:
        self.successors = successors
        self.predecessors: list[list[int]] = [[] for _ in successors]
        for source, targets in enumerate(successors):
            for target in targets:
                self.predecessors[target].append(source)
        self._parent = _dominators(successors, 0)

    def dominates(self, above: int, below: int) -> bool:
        """Checks whether every path to `below` passes `above`."""
        at: int | None = below
        while at is not None and at != above:
            at = self._parent.get(at)
        return at == above

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        """The blocks of each loop, by its header."""
        found: dict[int, set[int]] = {}
        for source, targets in enumerate(self.successors):
            for target in targets:
                if source in self._parent and self.dominates(target, source):
                    inside = found.setdefault(target, {target})
                    todo = [source]
                    while todo:
                        block = todo.pop()
                        if block not in inside:
                            inside.add(block)
                            todo.extend(self.predecessors[block])
        return {header: frozenset(inside) for header, inside in found.items()}

    def exit_of(self, header: int) -> tuple[int, int] | None:
        """Returns the one block that leaves a loop, and the index of its successor; None if there are several or none."""
        inside = self.loops[header]
        ways = [(block, way) for block in sorted(inside) for way, target in enumerate(self.successors[block]) if target not in inside]
        return ways[0] if len(ways) == 1 else None

    @cached_property
    def meetings(self) -> dict[int, int | None]:
        """Where all paths from a block meet again, its immediate post-dominator; None if only after the returns."""
        end = len(self.successors)  # an exit after all blocks without jumps
        backwards: list[list[int]] = [list(sources) for sources in self.predecessors]
        backwards.append([block for block, targets in enumerate(self.successors) if not targets])
        parent = _dominators(backwards, end)
        return {block: (None if above == end else above) for block, above in parent.items()}


def _dominators(successors: Sequence[Sequence[int]], root: int) -> dict[int, int | None]:
    """Returns the immediate dominator of each block that is reachable from the root; the root's is None."""
    order = _post_order(successors, root)
    rank = {block: index for index, block in enumerate(order)}
    sources: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for target in successors[block]:
            sources[target].append(block)
    parent: dict[int, int] = {root: root}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [source for source in sources[block] if source in parent]
            above = known[0]
            for other in known[1:]:
                while above != other:
                    if rank[above] < rank[other]:
                        above = parent[above]
                    else:
                        other = parent[other]
            if parent.get(block) != above:
                parent[block] = above
                changed = True
    return {block: (None if block == root else above) for block, above in parent.items()}


def _post_order(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    order, seen = [], {root}
    stack = [(root, iter(successors[root]))]
    while stack:
        block, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(block)
            stack.pop()
    return order
