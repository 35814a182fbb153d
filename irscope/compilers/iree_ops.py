"""What IREE's own ops mean: those around its dispatches, and the sorts, scans, scatters and FFTs inside of them (`iree_linalg_ext`).

A comparison is known by its text, as those of StableHLO are. IREE writes the total order of floats as one of whole numbers, of the same
bits but for those of negative numbers, which are turned round. Its `topk` merges the elements, one after the other, into the results that
it is given: one comes before another if the comparison of both is true.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope._base.nested import Call
from irscope.frontends.mlir.importer import BlockReader, Operation, dtype_of, extents_of, shape_of
from irscope.frontends.mlir.ops_arith import sign_flipped
from irscope.frontends.mlir.ops_pointwise import FLOATS, INTEGERS, NANS, expressions, reducer
from irscope.frontends.mlir.ops_reductions import is_identity, ordered, running
from irscope.frontends.mlir.ops_shaping import Part, combined, cut, inserted, iota, reshaped, scattered, sliced, spread
from irscope.ir import Value


def segments(operation: Any) -> list[int]:
    """Returns how many operands of each kind an op has."""
    return [int(each) for each in re.findall(r"\d+", str(operation.attributes["operandSegmentSizes"]).partition(":")[2])]


# Ops around the dispatches


def passed_on(reader: BlockReader, operation: Any) -> Call:
    """Inputs and results stay tensors here; the runtime's buffers around them have other types."""
    count = len(operation.results)
    reader.bind(operation.results, [reader.values[value] for value in list(operation.operands)[:count]])
    yield from ()


def _same(op: Operation) -> Value | None:
    return op.operands[0]


def _reshape(op: Operation) -> Value | None:
    return reshaped(op.e, op.operands[0], op.shape) if op.is_static or shape_of(op.operands[0]) is not None else None


def _starts(op: Operation, values: Sequence[Value]) -> list[int | Value]:
    """Returns the numbers that are known, and else the values, which the program has inside of the tensor."""
    known = [op.e.facts.get(value) for value in values]
    return [number if isinstance(number, int) else value for number, value in zip(known, values, strict=True)]


def _slice(op: Operation) -> Value | None:
    counts = segments(op.handle)
    x, first = op.operands[0], counts[0] + counts[1]
    starts = _starts(op, op.operands[first : first + counts[2]])
    if shape_of(x) is None or len(starts) != len(op.shape):
        return None
    *_, made = cut(op.e, x, _parts(x, starts, op.shape))
    return made


def _parts(whole: Value, starts: Sequence[int | Value], sizes: Sequence[int]) -> list[Part]:
    """Returns the dimensions that are not taken whole."""
    places = enumerate(zip(starts, sizes, extents_of(whole), strict=True))
    return [(axis, start, size, 1) for axis, (start, size, extent) in places if (start, size) != (0, extent)]


def _update(op: Operation) -> Value | None:
    """A slice of a tensor that is replaced by another tensor."""
    counts = segments(op.handle)
    whole, first = op.operands[0], counts[0] + counts[1]
    starts, part = _starts(op, op.operands[first : first + counts[2]]), op.operands[first + counts[2]]
    sizes = shape_of(part)
    if sizes is None or shape_of(whole) is None or len(starts) != len(sizes):
        return None
    return inserted(op.e, whole, part, _parts(whole, starts, sizes))


def _splat(op: Operation) -> Value | None:
    return spread(op.e, op.operands[0], op.shape) if op.is_static else None


def _empty(op: Operation) -> Value | None:
    return spread(op.e, op.e.scalar(0, op.dtype), op.shape) if op.is_static and op.dtype else None


def _softmax(op: Operation) -> Value | None:
    return op.e.op("softmax", op.operands[0], op.number("dimension"), None, type=op.type)


# Ops of `iree_linalg_ext`


_LESS, _GREATER, _UNSIGNED_LESS, _UNSIGNED_GREATER = 2, 4, 6, 8
"""The numbers of comparisons of integers; their equality is 0."""


def _sort(op: Operation) -> Sequence[Value] | None:
    texts, values, e = expressions(op.regions[0]), list(op.operands), op.e
    if not op.is_static or texts is None or any(dtype_of(value) not in FLOATS | INTEGERS for value in values):
        return None
    types = [str(argument.type) for argument in op.regions[0].blocks[0].arguments][::2]
    for keys in range(1, len(values) + 1):
        for sign in (_LESS, _GREATER, _UNSIGNED_LESS, _UNSIGNED_GREATER):
            if texts == [_order(types[:keys], sign)]:
                without_signs = keys if sign in (_UNSIGNED_LESS, _UNSIGNED_GREATER) else 0
                given = [*(sign_flipped(e, value) for value in values[:without_signs]), *values[without_signs:]]
                made = ordered(e, given, keys, op.number("dimension"), descending=sign in (_GREATER, _UNSIGNED_GREATER))
                return [*(sign_flipped(e, value) for value in made[:without_signs]), *made[without_signs:]]
    return None


def _order(types: Sequence[str], sign: int) -> str:
    """Returns the text of a lexicographic comparison of keys of these types."""
    made = ""
    for key, type in reversed(list(enumerate(types))):
        a, b = (f"a{2 * key + side}" if type[0] == "i" else _bits(f"a{2 * key + side}", type) for side in (0, 1))
        less = f"arith.cmpi[predicate={sign} : i64]({a},{b})"
        made = f"arith.ori({less},arith.andi(arith.cmpi[predicate=0 : i64]({a},{b}),{made}))" if made else less
    return made


def _bits(a: str, type: str) -> str:
    """Returns the text of a float as a whole number of the same order, with one zero and one NaN."""
    whole = f"i{''.join(filter(str.isdigit, type))}"
    zero, nan = (f"arith.constant[value={number} : {type}]()" for number in ("0.000000e+00", NANS.get(type, "?")))
    one = f"arith.select(arith.cmpf[predicate=1 : i64]({a},{zero}),{zero},{a})"
    bits = f"arith.bitcast(arith.select(arith.cmpf[predicate=13 : i64]({a},{a}),{nan},{one}))"
    most, none = (f"arith.constant[value={number} : {whole}]()" for number in (2 ** (int(whole[1:]) - 1) - 1, 0))
    return f"arith.select(arith.cmpi[predicate=2 : i64]({bits},{none}),arith.subi({most},{bits}),{bits})"


_BETTER: Final = {
    "arith.cmpf[predicate=2 : i64](a0,a1)": (True, True), "arith.cmpf[predicate=4 : i64](a0,a1)": (False, True),
    "arith.cmpi[predicate=4 : i64](a0,a1)": (True, True), "arith.cmpi[predicate=2 : i64](a0,a1)": (False, True),
    "arith.cmpi[predicate=5 : i64](a0,a1)": (True, False), "arith.cmpi[predicate=3 : i64](a0,a1)": (False, False),
}  # fmt: skip
"""For the comparisons of a `topk`, whether the largest come first, and whether of equal elements the first does."""


def _topk(op: Operation) -> Sequence[Value] | None:
    """The results that are given come before equal elements, or after all of them; a NaN, for which each comparison is false, in none."""
    texts, e = expressions(op.regions[0]), op.e
    known = _BETTER.get(texts[0]) if texts is not None and len(texts) == 1 else None
    if known is None or len(op.operands) != 3 or not op.is_static or dtype_of(op.operands[0]) not in FLOATS | INTEGERS:
        return None
    descending, is_first = known
    (x, *given), axis = op.operands, op.number("dimension")
    extent, count = extents_of(x)[axis], op.shape[axis]
    along = [extent if place == axis else 1 for place in range(len(op.shape))]
    places = spread(e, reshaped(e, e.cast(iota(e, extent), dtype_of(given[1])), along), extents_of(x))
    if dtype_of(x) in FLOATS:
        x = e.op("where", e.op("eq", x, x), x, -np.inf if descending else np.inf)
    if not is_first:
        x, places = (e.op("flip", value, [axis]) for value in (x, places))
    pairs = [(made, part) if is_first else (part, made) for made, part in zip(given, (x, places), strict=True)]
    joined = [e.op("cat", list(pair), axis) for pair in pairs]
    return [sliced(e, value, axis, 0, count) for value in ordered(e, joined, 1, axis, descending=descending)]


def _scan(op: Operation) -> Sequence[Value] | None:
    """The results up to each element, and the last of them; both begin with an initial value."""
    (kind, e), (x, _, initial) = (reducer(op.regions[0]), op.e), op.operands
    is_plain = op.is_static and str(op.attr("inclusive")) == "true" and dtype_of(x) == dtype_of(initial) == op.dtype
    if not is_plain or kind not in ("add", "mul", "max", "min") or op.dtype not in FLOATS | INTEGERS or 0 in op.shape:
        return None
    axis, shape = op.number("dimension"), op.shape
    made = running(e, kind, x, axis)
    if not is_identity(kind, op.dtype, e.known.get(initial)):
        made = combined(e, kind, reshaped(e, initial, [1 if place == axis else n for place, n in enumerate(shape)]), made)
    last = sliced(e, made, axis, shape[axis] - 1, shape[axis])
    return made, reshaped(e, last, [n for place, n in enumerate(shape) if place != axis])


def _scatter(op: Operation) -> Sequence[Value] | None:
    """Slices of the last dimensions, each at the places of some dimensions; those outside of the tensor, which IREE does not ask about,
    are dropped here."""
    if len(op.operands) != 3:
        return None
    (updates, indices, x), mapped = op.operands, op.ints("dimension_map")
    shape, moved, listed = (shape_of(value) for value in (x, updates, indices))
    if None in (shape, moved, listed, mapped):
        return None
    assert shape is not None and moved is not None and listed is not None and mapped is not None
    batches = [len(listed)] if len(mapped) == 1 else []  # a dimension for the numbers of one place may be there, or not
    batches += [len(listed) - 1] if listed and listed[-1] == len(mapped) else []
    batches = [n for n in batches if moved[:n] == listed[:n] and len(moved) - n + len(mapped) == len(shape)]
    if len(batches) != 1 or not {*mapped} <= {*range(len(shape))}:
        return None
    (batch,) = batches
    window = range(batch, len(moved))
    kind = "set" if expressions(op.regions[0]) == ["a0"] else reducer(op.regions[0])
    return scattered(op.on((x, indices, updates)), kind, window, range(len(shape) - len(window)), mapped, batch)


def _fft(op: Operation) -> Sequence[Value] | None:
    """One stage: of two parts at a distance the second is turned, and they become their sum and difference."""
    e, stage = op.e, op.e.facts.get(op.operands[0])
    shapes = [shape_of(value) for value in op.operands[1:]]
    if not isinstance(stage, int) or not 0 < stage < 64 or len(shapes) != 4 or op.dtype not in FLOATS:
        return None
    half, shape = 1 << (stage - 1), shapes[2]
    if not shape or shapes != [(half,), (half,), shape, shape] or shape[-1] % (2 * half):
        return None
    _, cosine, sine, *given = op.operands
    pairs, axis = [reshaped(e, value, [*shape[:-1], shape[-1] // (2 * half), 2, half]) for value in given], len(shape)
    first, (real, other) = ([sliced(e, value, axis, side, side + 1) for value in pairs] for side in (0, 1))
    turned = [
        e.op("sub", e.op("mul", cosine, real), e.op("mul", sine, other), 1),
        e.op("add", e.op("mul", cosine, other), e.op("mul", sine, real), 1),
    ]
    made = [e.op("cat", [e.op("add", a, b, 1), e.op("sub", a, b, 1)], axis) for a, b in zip(first, turned, strict=True)]
    return [reshaped(e, value, shape) for value in made]


MEANINGS: Final[Mapping[str, Any]] = {
    "iree_tensor_ext.dispatch.workload.ordinal": _same, "flow.tensor.transfer": _same, "flow.tensor.clone": _same,
    "flow.tensor.reshape": _reshape,
    "flow.tensor.slice": _slice, "flow.tensor.update": _update, "flow.tensor.splat": _splat, "flow.tensor.empty": _empty,
    "linalg.softmax": _softmax,
    "iree_linalg_ext.sort": _sort, "iree_linalg_ext.topk": _topk, "iree_linalg_ext.scan": _scan, "iree_linalg_ext.scatter": _scatter,
    "iree_linalg_ext.fft": _fft,
}  # fmt: skip
