"""Imports `If`, `Loop` and `Scan` as `prim::If` and `prim::Loop`, with their bodies as blocks that see the names around them.

Scan outputs are appended each iteration to a list that is empty at the start of the loop, and stacked at the end: one
copy in all, whereas a growing tensor would be copied at each iteration.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES, Refused, refuse_if
from irscope.frontends.onnx.call import Call, Held, Result
from irscope.frontends.onnx.importer import Frame, Importer
from irscope.frontends.onnx.types import type_of
from irscope.ir import BOOL, INT, TENSOR, ListType, TensorType, Type, Value

_FOREVER: Final = 2**63 - 1
_LIST: Final = ListType(TENSOR)
_MOST_TRIES: Final = 3
"""Loops inside each other up to which one is imported twice where it is not steady."""


def _if(importer: Importer, call: Call, frame: Frame) -> Sequence[Result]:
    """Imports both branches; if the condition is known while the model is read, only the branch that is taken."""
    known = call.held(0).known()
    if known is not None and known.size == 1:
        return importer.body(call.attr("then_branch" if known.reshape(())[()] else "else_branch"), frame, {})
    condition = _number(call, 0, "Bool", BOOL)
    blocks, results = [], []
    for name in ("then_branch", "else_branch"):
        with importer.emit.block() as block:
            results.append(importer.results(call.attr(name), frame, {}))
            block.returns(results[-1])
        blocks.append(block)
    refuse_if(len({len(found) for found in results}) != 1, "its branches return different numbers of results")
    types = [_joined(a.type, b.type) for a, b in zip(*results, strict=True)]
    return call.emit.node("prim::If", (importer.emit.value(condition),), types, blocks=blocks, names=list(call.node.output))


def _number(call: Call, index: int, op: str, type: Type) -> Any:
    """Returns the one element of an operand whose type the specification fixes, though the model may not say it."""
    held = call.held(index)
    if held.known() is not None or held.items is not None:
        return call.number(index)
    value = call.any(index)
    alone = value if isinstance(value.type, TensorType) and value.type.shape == () else call.op("reshape", value, [])
    return call.emit.op(op, alone, type=type)


def _joined(a: Type, b: Type) -> Type:
    """Returns the type of a value that has one of two types."""
    if not (isinstance(a, TensorType) and isinstance(b, TensorType)):
        return a
    dtype = a.dtype if a.dtype == b.dtype else None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(dtype)
    return TensorType(dtype, tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)))


class _Unsteady(Exception):
    """What a loop carries has another type after a turn than before it."""


def _loop(importer: Importer, call: Call, frame: Frame) -> Sequence[Result]:
    """Imports a loop. What its body declares no rank of is taken to have the initial value's extents: if a turn keeps them, all do."""
    mark, told = call.emit.mark(), len(importer.refusals)
    if frame.depth < _MOST_TRIES:
        try:
            return _loop_as(importer, call, frame, is_steady=True)
        except _Unsteady:
            call.emit.take_back(mark)
            del importer.refusals[told:]
    return _loop_as(importer, call, frame, is_steady=False)


def _loop_as(importer: Importer, call: Call, frame: Frame, *, is_steady: bool) -> Sequence[Result]:
    emit, body = call.emit, call.attr("body")
    limit = emit.value(_number(call, 0, "Int", INT) if call.has(0) else _FOREVER)
    goes_in = _number(call, 1, "Bool", BOOL) if call.has(1) else True
    condition = emit.value(goes_in if isinstance(goes_in, Value) else bool(goes_in))
    starts = [call.any(index) for index in range(2, len(call.inputs))]
    carried = [_carried(info, start, is_steady=is_steady) for info, start in zip(body.input[2:], starts, strict=False)]
    if len(body.input) != len(starts) + 2 or len(body.output) <= len(starts):
        raise Refused("the inputs and outputs of its body do not match the values that it carries")
    gathered = [_empty_list(call) for _ in body.output[1 + len(starts) :]]
    with emit.block([("i", INT), *carried]) as block:
        names = {
            body.input[0].name: Held(items=(block.params[0],), is_scalar=True),
            body.input[1].name: Held(array=np.array(True)),
            **{info.name: Held(value) for info, value in zip(body.input[2:], block.params[1:], strict=True)},
        }
        found = importer.body(body, frame, names)
        goes_on = found[0].known()
        results = [importer.emit.value_of(held) for held in found[1:]]
        given = [_carried(info, start, is_steady=False) for info, start in zip(body.input[2:], starts, strict=False)]
        if any(
            tried != plain and not _is_alike(tried, made.type)
            for (_, tried), (_, plain), made in zip(carried, given, results, strict=False)
        ):
            raise _Unsteady
        for held, item in zip(gathered, results[len(starts) :], strict=True):
            emit.ops("append", 1, held, item, types=(_LIST,))
        again = emit.value(bool(goes_on)) if goes_on is not None else emit.op("Bool", importer.emit.value_of(found[0]), type=BOOL)
        block.returns([again, *results[: len(starts)]])
    types = [_joined(start.type, result.type) for start, result in zip(starts, results, strict=False)]
    made = call.emit.node("prim::Loop", (limit, condition, *starts), types, blocks=(block,), names=list(call.node.output))
    elements = [item.type for item in results[len(starts) :]]
    runs = not isinstance(goes_in, Value) and bool(goes_in) and goes_on is not None and bool(goes_on)
    turns = int(call.number(0)) if runs and call.has(0) and call.held(0).known() is not None else 0
    return [*made, *(_stacked(call, held, type, 0, False, turns) for held, type in zip(gathered, elements, strict=True))]


def _empty_list(call: Call) -> Value:
    """Returns a new list each time: a constant would be one shared list."""
    return call.emit.ops("prim::ListConstruct", 1, types=(_LIST,))[0]


def _carried(info: Any, start: Value, *, is_steady: bool = False) -> tuple[str, Type]:
    """Returns a parameter's name and type: the body declares rank and extents, which may change between iterations unless it is steady."""
    declared = type_of(info.type)
    if isinstance(start.type, TensorType):
        known = declared if isinstance(declared, TensorType) else TENSOR
        return info.name, TensorType(
            start.type.dtype or known.dtype, start.type.shape if is_steady and known.shape is None else known.shape
        )
    return info.name, start.type


def _is_alike(a: Type, b: Type) -> bool:
    return isinstance(a, TensorType) and isinstance(b, TensorType) and (a.dtype, a.shape) == (b.dtype, b.shape)


def _stacked(call: Call, held: Value, element: Type, axis: int, backwards: bool, turns: int) -> Value:
    """Stacks the tensors of a list along a new axis, as many as turns, if that is known and not 0; of no tensors, returns an empty
    tensor if the shape is known."""
    emit, type = call.emit, _stacked_type(element, axis)
    shape, dtype = (element.shape, element.dtype) if isinstance(element, TensorType) else (None, None)
    if turns > 0 or shape is None or dtype is None or not all(isinstance(extent, int) for extent in shape):
        return _flipped(call, emit.op("stack", held, axis, type=type), axis, backwards)
    some = emit.op("ne", emit.op("len", held, type=INT), 0, type=BOOL)
    with emit.block() as full:
        full.returns([_flipped(call, emit.op("stack", held, axis, type=type), axis, backwards)])
    with emit.block() as empty:
        sizes = [*shape[:axis], 0, *shape[axis:]]
        empty.returns([emit.op("zeros", sizes, CODES[dtype], None, None, None)])
    return call.emit.node("prim::If", (some,), (type,), blocks=(full, empty), names=[""])[0]


def _stacked_type(element: Type, axis: int) -> TensorType:
    shape, dtype = (element.shape, element.dtype) if isinstance(element, TensorType) else (None, None)
    return TensorType(dtype, None if shape is None else (*shape[:axis], None, *shape[axis:]))


def _flipped(call: Call, x: Value, axis: int, backwards: bool) -> Value:
    return call.op("flip", x, [axis], type=x.type) if backwards else x


def _scan(importer: Importer, call: Call, frame: Frame) -> Sequence[Result]:
    count, body = call.integer("num_scan_inputs"), call.attr("body")
    is_batched = call.opset < 9  # and its first input is the lengths of the sequences
    operands = range(1 if is_batched else 0, len(call.inputs))
    states, inputs = operands[: len(operands) - count], operands[len(operands) - count :]
    outputs = len(body.output) - len(states)
    if count < 1 or len(inputs) != count or outputs < 0 or len(body.input) != len(operands):
        raise Refused("the inputs and outputs of its body do not match the values that it scans")
    refuse_if(is_batched and call.has(0), "its sequences differ in length")
    starts, scanned = [call.any(index) for index in states], [call.any(index) for index in inputs]
    if is_batched:
        return _scan_each(importer, call, frame, body, starts, scanned)
    axes = [_axis(axis, call.type(i)) for axis, i in zip(call.integers("scan_input_axes", [0] * count), inputs, strict=True)]
    backwards = call.integers("scan_input_directions", [0] * count)
    made, gathered, elements = _scan_steps(
        importer, call, frame, body, starts, list(zip(scanned, axes, backwards, strict=True)), list(call.node.output)
    )
    rounds = call.size(scanned[0], axes[0])
    turns = rounds if isinstance(rounds, int) else 0
    directions = call.integers("scan_output_directions", [0] * outputs)
    places = call.integers("scan_output_axes", [0] * outputs)
    stacked = [
        _stacked(call, held, type, _axis(place, type, extra=1), bool(back), turns)
        for held, type, place, back in zip(gathered, elements, places, directions, strict=True)
    ]
    return [*made, *stacked]


def _scan_each(
    importer: Importer, call: Call, frame: Frame, body: Any, starts: Sequence[Value], scanned: Sequence[Value]
) -> Sequence[Result]:
    """Imports a Scan of opset 8, which scans each element of a batch along the next axis."""
    emit = call.emit
    directions = call.integers("directions", [0] * len(scanned))
    results = [_empty_list(call) for _ in body.output]
    with emit.block([("b", INT)]) as block:
        own, rows = ([emit.op("select", x, 0, block.params[0]) for x in held] for held in (starts, scanned))
        steps = [(x, 0, back) for x, back in zip(rows, directions, strict=True)]
        made, gathered, elements = _scan_steps(importer, call, frame, body, own, steps, [""] * len(own))
        found = [*made, *(emit.op("stack", held, 0, type=_stacked_type(type, 0)) for held, type in zip(gathered, elements, strict=True))]
        for held, item in zip(results, found, strict=True):
            emit.ops("append", 1, held, item, types=(_LIST,))
        block.returns([emit.constant(True)])
    call.emit.node("prim::Loop", (emit.value(call.size(scanned[0], 0)), emit.value(True)), (), blocks=(block,), names=())
    return [emit.op("stack", held, 0, type=_stacked_type(item.type, 0)) for held, item in zip(results, found, strict=True)]


def _scan_steps(
    importer: Importer, call: Call, frame: Frame, body: Any, starts: Sequence[Value], scanned: Sequence[tuple[Value, int, int]],
    outputs: Sequence[str],
) -> tuple[Sequence[Value], Sequence[Value], Sequence[Type]]:  # fmt: skip
    """Appends the loop over the steps; returns the last states, and for each scan output the list of its tensors and their type."""
    emit = call.emit
    rounds = emit.value(call.size(scanned[0][0], scanned[0][1]))
    gathered = [_empty_list(call) for _ in body.output[len(starts) :]]
    carried = [_carried(info, start) for info, start in zip(body.input[: len(starts)], starts, strict=True)]
    with emit.block([("i", INT), *carried]) as block:
        names = {info.name: Held(value) for info, value in zip(body.input, block.params[1:], strict=False)}
        for info, (x, axis, back) in zip(body.input[len(starts) :], scanned, strict=True):
            index = emit.op("sub", emit.op("sub", rounds, 1, type=INT), block.params[0], type=INT) if back else block.params[0]
            names[info.name] = Held(emit.op("select", x, axis, index))
        results = importer.results(body, frame, names)
        for held, item in zip(gathered, results[len(starts) :], strict=True):
            emit.ops("append", 1, held, item, types=(_LIST,))
        block.returns([emit.constant(True), *results[: len(starts)]])
    types = [_joined(start.type, result.type) for start, result in zip(starts, results, strict=False)]
    made = call.emit.node("prim::Loop", (rounds, emit.value(True), *starts), types, blocks=(block,), names=outputs)
    return made, gathered, [item.type for item in results[len(starts) :]]


def _axis(axis: int, type: Type, extra: int = 0) -> int:
    """Returns an axis counted from the front, if the rank is known; raises IndexError if there is no such axis."""
    rank = type.rank if isinstance(type, TensorType) else None
    return axis if rank is None else range(rank + extra)[axis]


STRUCTURED: Final[Mapping[str, Callable[[Importer, Call, Frame], Sequence[Result]]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""The importers of ONNX's control flow, by op."""
