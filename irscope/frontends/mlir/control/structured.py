"""Imports structured control flow of MLIR as `prim::If` and `prim::Loop`.

A `prim::Loop` tests its condition before the first iteration and at the end of each; MLIR's loops have a region that
computes it (`stablehlo.while`, `scf.while`), which is therefore read twice: before the loop and at the end of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope._base.trampoline import Call
from irscope.frontends.mlir.control.counting import known_rounds
from irscope.frontends.mlir.emit import dtype_of
from irscope.frontends.mlir.reader import BlockReader
from irscope.ir import BOOL, INT, Type, Value

__all__ = ["CONTROL", "FOREVER", "as_bool", "as_int", "emit_if", "emit_while"]

FOREVER: Final = (1 << 63) - 1
"""The trip count of a loop that only its condition ends, as TorchScript writes it."""

Arm = Callable[[], Call]
"""Reads one arm of a branch into the open block; returns its results."""


def as_bool(reader: BlockReader, value: Value) -> Value:
    """Returns a condition as `bool`."""
    return value if value.type == BOOL else reader.e.op("Bool", value, type=BOOL)


def as_int(reader: BlockReader, value: Value) -> Value:
    """Returns a number as `int`."""
    return value if value.type == INT else reader.e.op("Int", value, type=INT)


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
    around: Callable[[Sequence[Value]], Call], rounds: int = FOREVER,
) -> Call:  # fmt: skip
    """Emits a `prim::Loop` of at most `rounds` iterations that continues as long as its condition holds.

    `first` is the condition before the first iteration and the carried values; `around` reads one iteration with these
    values as carried, and returns the next condition and the next values.
    """
    place = reader.e.place
    limit, go = reader.e.constant(rounds), first[0]
    with reader.e.block([("", INT), *(("", type) for type in types)]) as body:
        condition, carried = yield around(body.params[1:])
        body.returns((condition, *carried))
    reader.e.place = place
    return reader.e.node("prim::Loop", (limit, go, *first[1]), types, blocks=(body,))


def _stablehlo_while(reader: BlockReader, operation: Any) -> Call:
    test, body = operation.regions
    place, initial = reader.e.place, reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]

    def asked(values: Sequence[Value]) -> Call:
        reader.values.update(zip(test.blocks[0].arguments, values, strict=True))
        (answer,) = yield reader.region(test)
        return as_bool(reader, answer)

    def around(carried: Sequence[Value]) -> Call:
        reader.values.update(zip(body.blocks[0].arguments, carried, strict=True))
        following = yield reader.region(body)
        return (yield asked(following)), following

    rounds = known_rounds(operation, lambda place: reader.e.known.get(initial[place]), reader.reading)
    if rounds is not None:
        always = reader.e.constant(True)

        def once_more(carried: Sequence[Value]) -> Call:
            reader.values.update(zip(body.blocks[0].arguments, carried, strict=True))
            return always, (yield reader.region(body))

        made = yield emit_while(reader, (always, initial), types, once_more, rounds)
    else:
        go = yield asked(initial)
        reader.e.place = place
        made = yield emit_while(reader, (go, initial), types, around)
    reader.bind(operation.results, made)


def _scf_while(reader: BlockReader, operation: Any) -> Call:
    before, after = operation.regions
    place, initial = reader.e.place, reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]

    def asked(values: Sequence[Value]) -> Call:
        reader.values.update(zip(before.blocks[0].arguments, values, strict=True))
        answer, *handed_on = yield reader.region(before)
        return as_bool(reader, answer), tuple(handed_on)

    def around(carried: Sequence[Value]) -> Call:
        reader.values.update(zip(after.blocks[0].arguments, carried, strict=True))
        return (yield asked((yield reader.region(after))))

    first = yield asked(initial)
    reader.e.place = place
    reader.bind(operation.results, (yield emit_while(reader, first, types, around)))


def _scf_for(reader: BlockReader, operation: Any) -> Call:
    if "unsignedCmp" in operation.attributes:  # the bounds are compared as unsigned numbers, and torch's int is signed
        return (yield reader.foreign_with_regions(operation))
    (region,) = operation.regions
    counter, *arguments = region.blocks[0].arguments
    e, place = reader.e, reader.e.place
    low, high, step, *initial = reader.operands(operation)
    types = [reader.reading.types(result.type) for result in operation.results]
    start, stop, by = (as_int(reader, bound) for bound in (low, high, step))
    span = e.op("sub", e.op("add", e.op("sub", stop, start, type=INT), by, type=INT), 1, type=INT)
    count = e.op("floordiv", span, by, type=INT)
    always = e.constant(True)
    with e.block([("", INT), *(("", type) for type in types)]) as body:
        offset = e.op("mul", body.params[0], by, type=INT)
        at = e.op("add", start, offset, type=INT)
        if low.type != INT:
            at = e.cast(e.tensor("prim::NumToTensor", at, dtype="int64", shape=()), dtype_of(low))
        reader.values.update(zip([counter, *arguments], [at, *body.params[1:]], strict=True))
        body.returns((always, *(yield reader.region(region))))
    e.place = place
    reader.bind(operation.results, e.node("prim::Loop", (count, always, *initial), types, blocks=(body,)))


def _branch(reader: BlockReader, operation: Any) -> Call:
    """Imports `scf.if`, whose second region may be empty, and `stablehlo.if`."""
    condition = as_bool(reader, reader.operands(operation)[0])
    types = [reader.reading.types(result.type) for result in operation.results]
    arms = [_arm(reader, region) for region in operation.regions]
    reader.bind(operation.results, (yield emit_if(reader, condition, types, arms)))


def _arm(reader: BlockReader, region: Any) -> Arm:
    return lambda: reader.region(region)


def _case(reader: BlockReader, operation: Any) -> Call:
    """Imports `stablehlo.case`, which runs the branch of a number, or the last branch if there is none."""
    index = reader.operands(operation)[0]
    types = [reader.reading.types(result.type) for result in operation.results]
    *regions, last = operation.regions

    def choose(number: int) -> Call:
        if number == len(regions):
            return (yield reader.region(last))
        hit = reader.e.like("eq", index, number, dtype="bool")
        arms = [_arm(reader, regions[number]), lambda: choose(number + 1)]
        return (yield emit_if(reader, as_bool(reader, hit), types, arms))

    reader.bind(operation.results, (yield choose(0)))


def _index_switch(reader: BlockReader, operation: Any) -> Call:
    """Imports `scf.index_switch`, whose first region is the default."""
    index = reader.operands(operation)[0]
    types = [reader.reading.types(result.type) for result in operation.results]
    default, *regions = operation.regions
    cases = list(operation.attributes["cases"])

    def choose(place: int) -> Call:
        if place == len(regions):
            return (yield reader.region(default))
        hit = reader.e.op("eq", index, int(cases[place]), type=BOOL)
        return (yield emit_if(reader, hit, types, [_arm(reader, regions[place]), lambda: choose(place + 1)]))

    reader.bind(operation.results, (yield choose(0)))


def _inline(reader: BlockReader, operation: Any) -> Call:
    """Imports `scf.execute_region` by inlining its ops."""
    reader.bind(operation.results, (yield reader.region(operation.regions[0])))


CONTROL: Final[Mapping[str, Callable[[BlockReader, Any], Call]]] = {
    "stablehlo.while": _stablehlo_while,
    "stablehlo.if": _branch,
    "stablehlo.case": _case,
    "scf.if": _branch,
    "scf.for": _scf_for,
    "scf.while": _scf_while,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _inline,
}
"""Readers of the ops that become `prim::If` and `prim::Loop`."""
