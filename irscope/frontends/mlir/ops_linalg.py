"""Imports `linalg` on tensors, a loop nest whose body computes one element, as ops on whole tensors.

Each operand is brought into the iteration space (`in_loops`). Then the body's ops become ops on whole tensors that broadcast; the index of
a loop (`linalg.index`) is a tensor that counts along it. If loops reduce and the body combines one value with the result so far (a sum, a
product, an extreme), that value is reduced; a summed product of two operands is a `convolution` or an `einsum`. Any other reduction is a
loop over the reduced iterations, each of which computes the body for all remaining points. Ops on memory (`memref`) are kept, and so are
ops inside executables, whose bodies must be compared as they are.
"""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, Final, NamedTuple

from irscope._base.nested import Call
from irscope.frontends.mlir.importer import BlockReader, ControlRule, Emitter, Operation, dtype_of, extents_of, shape_of
from irscope.frontends.mlir.ops_pointwise import ELEMENTS, FLOATS, KINDS
from irscope.frontends.mlir.ops_reductions import is_identity, is_reducible, padded_with, reduced
from irscope.frontends.mlir.ops_shaping import along, combined, iota, permuted, reshaped, sliced, spread
from irscope.ir import INT, TensorType, Value

_JOINS: Final = KINDS | {"arith.subf": "sub", "arith.subi": "sub"}
_NAMED: Final = (
    "generic", "matmul", "batch_matmul", "matvec", "vecmat", "dot", "add", "sub", "mul", "div", "exp", "log", "abs", "ceil",
    "floor", "negf", "tanh", "sqrt", "rsqrt", "square", "max", "min", "powf", "select", "reciprocal", "erf", "contract",
    "elementwise", "conv_1d_nwc_wcf", "conv_1d_ncw_fcw", "conv_2d_nhwc_hwcf", "conv_2d_nchw_fchw", "conv_2d_nhwc_fhwc",
    "conv_3d_ndhwc_dhwcf", "depthwise_conv_1d_nwc_wc", "depthwise_conv_2d_nhwc_hwc", "depthwise_conv_2d_nhwc_hwcm",
    "depthwise_conv_2d_nchw_chw", "pooling_nhwc_sum", "pooling_nhwc_max", "pooling_nhwc_min", "pooling_nchw_sum",
    "pooling_nchw_max",
)  # fmt: skip


class _LoopNest:
    """One op: its loops and how each operand maps to them."""

    def __init__(self, reader: BlockReader, operation: Any, maps: Sequence[Any]) -> None:
        self.reader = reader
        self.e = reader.e
        self.block = operation.regions[0].blocks[0]
        self.body = [op.operation for op in self.block.operations]
        self.operands = reader.operands(operation)
        self.outputs = len(operation.results)
        self.maps = [indices_of(str(attribute)) for attribute in maps]
        types = operation.attributes.get("iterator_types")
        named = None if types is None else [str(kind) for kind in types]
        self.reduces = [axis for axis, kind in enumerate(named or ()) if "parallel" not in kind]
        self.extents: list[int] = self._extents(named)
        self.results = [_loops(places or ()) for places in self.maps[len(self.maps) - self.outputs :]]
        if named is None:  # the loops that no result has
            dims = {axis for made in self.results for axis in made}
            self.reduces = [axis for axis in range(len(self.extents)) if axis not in dims]

    def _extents(self, named: Sequence[str] | None) -> list[int]:
        """Returns the extent of each loop; empty if an operand has another kind of map, or is not a tensor of known extents."""
        found: dict[int, int] = {}
        for number, (value, places) in enumerate(zip(self.operands, self.maps, strict=True)):
            shape = shape_of(value)
            if shape is None or places is None or not dtype_of(value):
                return []
            plain = [place.loop for place in places if place.loop is not None]
            if number >= len(self.operands) - self.outputs and (len(plain) != len(places) or len(set(plain)) != len(plain)):
                return []
            found.update((place.loop, extent) for place, extent in zip(places, shape, strict=True) if place.loop is not None)
        loops = {loop for places in self.maps for place in places or () for loop, _ in place.steps}
        count = len(found) if named is None else len(named)
        known = sorted(found) == list(range(count)) and loops <= set(found)
        return [found[axis] for axis in range(len(found))] if known else []

    def in_loops(self) -> list[Value]:
        """Returns the operands with the loops as their dimensions."""
        pairs = zip(self.operands, self.maps, strict=True)
        return [in_loops(self.e, value, places or (), self.extents) for value, places in pairs]

    def run(self) -> Sequence[Value] | None:
        """Returns the results; None if the body or the loops have no counterpart."""
        if (not self.extents and any(self.maps)) or 0 in self.extents or None in self.maps:
            return None
        if any(sorted((*dims, *self.reduces)) != list(range(len(self.extents))) for dims in self.results):
            return None  # each iteration of a loop that neither reduces nor is in a result would write the same elements
        if self.reduces:
            mark = self.e.mark()
            for way in (self._contraction, self._reduction, self._loop_over_reductions):
                made = way()
                if made is not None:
                    return made
                self.e.take_back(mark)
            return None
        *body, end = self.body
        made = self._elements(body, end.operands, self.in_loops())
        return None if made is None else [
            permuted(self.e, self._spread(value, self.extents), [sorted(dims).index(axis) for axis in dims])
            for value, dims in zip(made, self.results, strict=True)
        ]  # fmt: skip

    def _spread(self, value: Value, extents: Sequence[int]) -> Value:
        """Expands a value to extents of all loops, of which the last are its own."""
        shape = shape_of(value) or ()
        return spread(self.e, reshaped(self.e, value, [*([1] * (len(extents) - len(shape))), *shape]), extents)

    def _elements(
        self, body: Sequence[Any], returned: Sequence[Any], operands: Sequence[Value], numbers: Mapping[int, Value] | None = None
    ) -> list[Value] | None:
        """Emits the ops of a body on whole tensors; returns the values that it returns.

        `numbers` are the indices of those loops of which this is one iteration.
        """
        values: dict[Any, Value] = dict(zip(self.block.arguments, operands, strict=True))
        for op in body:
            if op.name == "linalg.index":
                axis = int(op.attributes["dim"].value)
                values[op.results[0]] = (numbers or {}).get(axis) or self._loop_index(axis)
                continue
            rule = self.reader.reading.meanings.get(op.name)
            given = [values.get(operand, self.reader.values.get(operand)) for operand in op.operands]
            known = [self._tensor(operand) for operand in given if operand is not None]
            if rule is None or len(known) != len(given) or len(op.regions):
                return None
            shaped = known[1:] if op.name == "tensor.extract" else known
            types = [self._type(result, shaped) for result in op.results]
            outside, own = self.e.place, self.reader.reading.places(op.location)
            self.e.place = outside if own.location is None else own._replace(scope=f"{self.reader.scope}.{own.scope}".strip("."))
            made = rule(Operation(op.name, op, known, types, self.e, self.reader.reading))
            self.e.place = outside
            if made is None:
                return None
            values.update(zip(op.results, (made,) if isinstance(made, Value) else made, strict=True))
        given = [values.get(operand, self.reader.values.get(operand)) for operand in returned]
        return None if any(value is None for value in given) else [self._tensor(value) for value in given if value is not None]

    def _loop_index(self, axis: int) -> Value:
        """Returns the indices of a loop as a tensor along it."""
        made = along(self.e, iota(self.e, self.extents[axis]), axis, len(self.extents))
        self.e.bounds[made] = (0, self.extents[axis] - 1)
        return made

    def _tensor(self, value: Value) -> Value:
        """Returns an `index` as a tensor of rank 0; a quotient by one that is known needs no care."""
        known = self.e.facts.get(value) if value.type == INT else None
        if isinstance(known, int):
            return self.e.scalar(known, "int64")
        return self.e.op("prim::NumToTensor", value) if value.type == INT else value

    def _type(self, result: Any, operands: Sequence[Value]) -> Any:
        """Returns the type of an elementwise op on the tensors that are its operands."""
        type = self.reader.reading.types(result.type)
        if type == INT:
            type = TensorType("int64", (), ())
        shapes = [shape_of(operand) or () for operand in operands]
        longest = max(map(len, shapes), default=0)
        if not isinstance(type, TensorType) or longest == 0:
            return type
        rows = [[1] * (longest - len(shape)) + list(shape) for shape in shapes]
        return TensorType(type.dtype, tuple(max(column) for column in zip(*rows, strict=True)))

    def _combination(self) -> tuple[str, int] | None:
        """Returns how the body's last op combines a value with the result so far, and the index of that value's operand."""
        operations = self.body
        if self.outputs != 1 or len(operations) < 2:
            return None
        *_, last, end = operations
        so_far = self.block.arguments[len(self.block.arguments) - 1]
        readings = sum(operand == so_far for op in operations for operand in op.operands)
        kind = _JOINS.get(last.name)
        if kind is None or readings != 1 or list(end.operands) != list(last.results):
            return None
        places = [place for place, operand in enumerate(last.operands) if operand == so_far]
        return (kind, 1 - places[0]) if places and (kind != "sub" or places == [0]) else None

    def _reduction(self) -> list[Value] | None:
        joined = self._combination()
        result = self.operands[-1]
        if joined is None:
            return None
        kind, place = joined
        sums = "add" if kind == "sub" else kind  # what is subtracted one by one is subtracted as a sum
        if not is_reducible(sums, dtype_of(result)):
            return None
        *body, last, _ = self.body
        made = self._elements(body, [last.operands[place]], self.in_loops())
        if made is None:
            return None
        return [self._with_result(kind, reduced(self.e, sums, self._spread(made[0], self.extents), self.reduces))]

    def _with_result(self, kind: str, made: Value) -> Value:
        """Combines a reduced value, over the remaining loops in order, with the result so far."""
        dims, result = self.results[-1], self.operands[-1]
        transposed = permuted(self.e, made, [sorted(dims).index(axis) for axis in dims])
        if kind == "sub":
            return self.e.op("sub", result, transposed)
        if is_identity(kind, dtype_of(result), self.e.known.get(result)):
            return transposed
        return combined(self.e, kind, result, transposed)

    def _loop_over_reductions(self) -> list[Value] | None:
        """Emits a loop over the reduced loops, in their order, each iteration of which computes the body for all points
        of the other loops."""
        e, inputs = self.e, len(self.operands) - self.outputs
        whole = self.in_loops()
        shape = [1 if axis in self.reduces else extent for axis, extent in enumerate(self.extents)]
        first = [spread(e, value, shape) for value in whole[inputs:]]
        always, count = e.constant(True), e.constant(prod(self.extents[axis] for axis in self.reduces))
        types = [value.type for value in first]
        with e.block([("", INT), *(("", type) for type in types)]) as body:
            at, rest = dict[int, Value](), body.params[0]  # the index of each reduced loop: the last one is the innermost
            for axis in reversed(self.reduces[1:]):
                at[axis] = e.op("remainder", rest, self.extents[axis], type=INT)
                rest = e.op("floordiv", rest, self.extents[axis], type=INT)
            at = {self.reduces[0]: rest, **at}
            numbers = {axis: e.op("prim::NumToTensor", number) for axis, number in at.items()}
            parts = []
            for value in whole[:inputs]:  # what one iteration reads of each operand
                for axis, number in at.items():
                    value = e.op("narrow", value, axis, number, 1) if extents_of(value)[axis] != 1 else value
                parts.append(value)
            given = [*parts, *body.params[1:]]
            *operations, end = self.body
            made = self._elements(operations, end.operands, given, numbers)
            if made is None:
                return None
            body.returns((always, *(self._spread(value, shape) for value in made)))
        found = e.node("prim::Loop", (count, always, *first), types, blocks=(body,))
        return [
            permuted(e, reshaped(e, value, [self.extents[axis] for axis in sorted(dims)]), [sorted(dims).index(axis) for axis in dims])
            for value, dims in zip(found, self.results, strict=True)
        ]

    def _contraction(self) -> list[Value] | None:
        """Emits a sum of products of two operands as a convolution, a matrix product or an `einsum`."""
        operations = self.body
        joined, result = self._combination(), self.operands[-1]
        if joined is None or joined[0] != "add" or len(self.operands) != 3 or len(self.extents) > 20 or len(operations) < 3:
            return None
        arguments = list(self.block.arguments)
        *casts, product, _, _ = operations
        is_product = product.name in ("arith.mulf", "arith.muli")
        sources = {op.results[0]: op.operands[0] for op in casts if op.name in ("arith.extf", "arith.extsi")}
        factors = [sources.get(operand, operand) for operand in product.operands]
        if not is_product or len(sources) != len(casts) or factors != arguments[:2]:
            return None
        dtype, dims = dtype_of(result), sorted(self.results[0])
        inputs = [self.e.cast(value, dtype) for value in self.operands[:2]]
        places = [self.maps[0] or [], self.maps[1] or []]
        if dtype in FLOATS:
            made = convolved(self.e, inputs, places, dims, self.extents)
            if made is not None:
                return [self._with_result("add", made)]
        words = []
        for side in (0, 1):
            loops = _loops(places[side])
            if len(loops) != len(places[side]) or len(set(loops)) != len(loops):
                loops = sorted({loop for place in places[side] for loop, _ in place.steps})
                full = in_loops(self.e, inputs[side], places[side], self.extents)
                inputs[side] = reshaped(self.e, full, [self.extents[loop] for loop in loops])
            words.append("".join(chr(97 + axis) for axis in loops))
        equation = f"{words[0]},{words[1]}->{''.join(chr(97 + axis) for axis in dims)}"
        product_op = _PRODUCTS.get(_in_order(equation))
        given = inputs if product_op else [equation, inputs, None]
        return [self._with_result("add", self.e.op(product_op or "einsum", *given))]


def _loops(places: "Sequence[Index]") -> list[int]:
    """Returns the loops of those dimensions that are exactly one loop each."""
    return [place.loop for place in places if place.loop is not None]


_PRODUCTS: Final = {"ab,bc->ac": "mm", "abc,acd->abd": "bmm", "ab,b->a": "mv"}
"""Sums of products that have an op of their own."""


def _in_order(equation: str) -> str:
    """Renames an equation's letters in order of appearance.

    >>> _in_order("ac,cb->ab")
    'ab,bc->ac'
    """
    names: dict[str, str] = {}
    for letter in equation:
        if letter.isalpha():
            names.setdefault(letter, chr(97 + len(names)))
    return "".join(names.get(letter, letter) for letter in equation)


_MAPS: Final = ("indexing_maps", "linalg.memoized_indexing_maps")
"""The attributes that may hold an op's indexing maps."""


def _loop_nest(reader: BlockReader, operation: Any) -> Call:
    is_tensors = len(operation.results) > 0 and not reader.reading.in_executable
    maps = next((name for name in _MAPS if name in operation.attributes), "") if is_tensors else ""
    if maps:
        mark = reader.e.mark()
        made = _LoopNest(reader, operation, operation.attributes[maps]).run()
        if made is not None:
            reader.bind(operation.results, made)
            return
        reader.e.take_back(mark)
    yield reader.keep_with_regions(operation)


def _fill(reader: BlockReader, operation: Any) -> Call:
    """Imports `linalg.fill`: one number in all elements."""
    number, result = reader.operands(operation)
    shape = shape_of(result)
    if not len(operation.results) or reader.reading.in_executable or shape is None or dtype_of(number) != dtype_of(result):
        yield reader.keep_with_regions(operation)
        return
    reader.bind(operation.results, [spread(reader.e, number, shape)])


def _pad(reader: BlockReader, operation: Any) -> Call:
    """Imports `tensor.pad` with one number, which its region returns for every element."""
    (region,), (x, *computed) = operation.regions, reader.operands(operation)
    *body, end = [op.operation for op in region.blocks[0].operations]
    given = end.operands[0]
    is_inside = len(body) == 1 and body[0].name == "arith.constant" and given == body[0].results[0]
    low, high = (list(operation.attributes[name]) for name in ("static_low", "static_high"))
    dtype, shape = dtype_of(x), shape_of(x)
    known = shape is not None and dtype in ELEMENTS and not computed and min((*low, *high), default=0) >= 0
    if known and not reader.reading.in_executable and (is_inside or not body):
        if is_inside:
            reader.read_op(body[0])
        fill = reader.values.get(given)
        if fill is not None and dtype_of(fill) == dtype:
            reader.bind(operation.results, [padded_with(reader.e, x, fill, low, high, [0] * len(low))])
            return
    yield reader.keep_with_regions(operation)


def _transpose(reader: BlockReader, operation: Any) -> Call:
    """Imports `linalg.transpose`, a permutation of dimensions."""
    value, order = reader.operands(operation)[0], list(operation.attributes["permutation"])
    if not len(operation.results) or reader.reading.in_executable or shape_of(value) is None or not dtype_of(value):
        yield reader.keep_with_regions(operation)
        return
    reader.bind(operation.results, [permuted(reader.e, value, order)])


LOOP_NESTS: Final[Mapping[str, ControlRule]] = {
    **{f"linalg.{name}": _loop_nest for name in _NAMED},
    "linalg.fill": _fill,
    "linalg.transpose": _transpose,
    "tensor.pad": _pad,
}
"""Readers of the ops that are loop nests over tensors."""


# Maps operands of a loop nest to its iteration space: each operand dimension is indexed by a sum of scaled loops and a constant.
#
# `(d0, d1 * 2 + d3)` reads the second dimension in windows of `d3` with a stride of two. An operand is brought into the
# iteration space with extent 1 for loops that do not index it: single loops permute dimensions, sums of two loops are
# windows (`unfold`, a view), and anything else is gathered by the indices that the sums compute.


class Index(NamedTuple):
    """The index expression of one dimension of an operand."""

    steps: tuple[tuple[int, int], ...]
    """Loops and their factors, each loop once."""
    start: int

    @property
    def loop(self) -> int | None:
        """The loop, if the expression is a single loop."""
        return self.steps[0][0] if len(self.steps) == 1 and self.steps[0][1] == 1 and not self.start else None


def indices_of(text: str) -> list[Index] | None:
    """Returns the index expression of each dimension in a map; None if it does more than add and multiply by positive numbers.

    >>> indices_of("affine_map<(d0, d1, d2) -> (d2, d0 * 2 + d1, 0)>")[1]
    Index(steps=((0, 2), (1, 1)), start=0)
    >>> indices_of("affine_map<(d0, d1) -> (d0 floordiv 2)>") is None
    True
    """
    found = re.fullmatch(r"affine_map<\([^)]*\) -> \((.*)\)>", text)
    words = [word.strip() for word in found.group(1).split(",") if word.strip()] if found is not None else ["?"]
    places = [_index(word) for word in words]
    known = [place for place in places if place is not None]
    return known if len(known) == len(places) else None


def _index(word: str) -> Index | None:
    steps: dict[int, int] = {}
    start = 0
    for term in word.split(" + "):
        found = re.fullmatch(r"d(\d+)(?: \* (\d+))?|(\d+)", term)
        if found is None:
            return None
        loop, step, number = found.groups()
        if number is not None:
            start += int(number)
        elif int(loop) in steps or step == "0":
            return None
        else:
            steps[int(loop)] = int(step or 1)
    return Index(tuple(sorted(steps.items(), key=lambda item: -item[1])), start)


def in_loops(e: Emitter, value: Value, places: Sequence[Index], extents: Sequence[int]) -> Value:
    """Returns an operand with the loops as its dimensions."""
    loops = [loop for place in places for loop, _ in place.steps]
    if len(set(loops)) != len(loops) or any(len(place.steps) > 2 for place in places):
        return _gathered(e, value, places, extents)
    dims: list[int | None] = []
    windows = []
    for axis, place in enumerate(places):
        if place.loop is None:
            # every n-th element, or the range that the windows cover
            last = place.start + sum((extents[loop] - 1) * step for loop, step in place.steps)
            value = sliced(e, value, axis, place.start, last + 1, place.steps[0][1] if len(place.steps) == 1 else 1)
        dims.append(place.steps[0][0] if place.steps else None)
        if len(place.steps) == 2:
            windows.append((axis, place))
    for axis, ((_, far), (narrow, near)) in [(axis, place.steps) for axis, place in windows]:
        reach = (extents[narrow] - 1) * near + 1
        value = sliced(e, e.op("unfold", value, axis, reach, far), len(dims), 0, reach, near)
        dims.append(narrow)
    order = sorted((axis for axis, loop in enumerate(dims) if loop is not None), key=lambda axis: dims[axis] or 0)
    fixed = [axis for axis, loop in enumerate(dims) if loop is None]
    shape = [extent if axis in loops else 1 for axis, extent in enumerate(extents)]
    return reshaped(e, permuted(e, value, [*order, *fixed]), shape)


def _gathered(e: Emitter, value: Value, places: Sequence[Index], extents: Sequence[int]) -> Value:
    """Gathers the operand's elements at the computed indices."""
    rank, at = len(extents), list[Value]()
    for place in places:
        terms = [e.scalar(place.start, "int64")] if place.start or not place.steps else []
        for loop, step in place.steps:
            row = along(e, iota(e, extents[loop]), loop, rank)
            terms.append(e.op("mul", row, step) if step != 1 else row)
        at.append(reduce(lambda made, other: e.op("add", other, made, 1), terms))
    return e.op("index", value, at)


# Recognises sums of products that are convolutions: one operand is read in windows, over whose positions the sum runs.
#
# The loops determine everything. Those of the windows are the spatial loops of the result and of the kernel; of the others, those of the
# image alone are its batch, those of the kernel alone its features, and shared ones are summed (channels) or kept (groups).


def convolved(
    e: Emitter, operands: Sequence[Value], maps: Sequence[Sequence[Index]], kept: Sequence[int], extents: Sequence[int]
) -> Value | None:
    """Emits the `aten::convolution` with the loops `kept`, in this order, as dimensions; None if there is none."""
    (image, kernel), (there, here) = operands, maps
    windows = [(axis, place) for axis, place in enumerate(there) if len(place.steps) == 2]
    plain = {place.loop: axis for axis, place in enumerate(there) if place.loop is not None}
    weights = {place.loop: axis for axis, place in enumerate(here) if place.loop is not None}
    if not 1 <= len(windows) <= 3 or len(plain) + len(windows) != len(there) or len(weights) != len(here):
        return None
    pairs = []
    for _, place in windows:
        (out, step), (inside, gap) = place.steps if place.steps[0][0] in kept else place.steps[::-1]
        if out not in kept or inside in kept or inside not in weights or {out, inside} & plain.keys() or out in weights:
            return None
        pairs.append((out, step, inside, gap))
    inner = [inside for _, _, inside, _ in pairs]
    batch = [loop for loop in plain if loop not in weights]
    groups = [loop for loop in plain if loop in weights and loop in kept]
    channels = [loop for loop in plain if loop in weights and loop not in kept]
    features = [loop for loop in weights if loop in kept and loop not in plain]
    outs = [out for out, *_ in pairs]
    loops = [*batch, *groups, *features, *outs]
    others = [loop for loop in weights if loop not in (*groups, *channels, *features, *inner)]
    if others or sorted(loops) != list(kept) or any(place.start for _, place in windows):
        return None

    def size(names: Sequence[int | None]) -> int:
        return prod(extents[name] for name in names if name is not None)

    spatial = [axis for axis, _ in windows]
    places = [extents_of(image)[axis] for axis in spatial]
    x = permuted(e, image, [*(plain[loop] for loop in (*batch, *groups, *channels)), *spatial])
    x = reshaped(e, x, [size(batch), size(groups) * size(channels), *places])
    w = permuted(e, kernel, [weights[loop] for loop in (*groups, *features, *channels, *inner)])
    w = reshaped(e, w, [size(groups) * size(features), size(channels), *(extents[loop] for loop in inner)])
    steps, gaps = [step for _, step, _, _ in pairs], [gap for *_, gap in pairs]
    zeros = [0] * len(pairs)
    made = e.op("convolution", x, w, None, steps, zeros, gaps, False, zeros, size(groups))
    for number, out in enumerate(outs):
        made = sliced(e, made, 2 + number, 0, extents[out])
    made = reshaped(e, made, [extents[loop] for loop in loops])
    return permuted(e, made, [loops.index(loop) for loop in kept])
