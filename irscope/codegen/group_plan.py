"""From a fusion group and the types of its inputs to the kernels that compute it.

Outputs of one iteration space share a kernel. Each value inside the group is followed from the outputs back to the
inputs together with its index (`index_map`), because the same value can be read in several ways: a vector along the
last axis by an addition, along axis 1 by a batch norm, in part through a view. Values that are broadcast inside the
group are computed at every point where they are read, or outside the loops along which they do not change.

An output that no reduction leads to has its own shape for an iteration space. For any other, the axes along which it
walks a reduction's results are kept; those along which it walks past them (each row of a softmax has one sum) must be
as long as what the reduction gathers, and are the reduced axes. Where there are none, the output is as small as the
reductions' results, and the reduced axes are added to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import Final

from irscope.codegen.flatten import InstructionList
from irscope.codegen.group_values import Compute, GroupValues, Joined, Seen
from irscope.codegen.index_map import ZERO, AxisMustSplit, Form, Space, combined, digits
from irscope.codegen.kernel_spec import (
    KernelSpec,
    Launch,
    LaunchPlan,
    Operand,
    Result,
    row_limit,
    stride_classes,
)
from irscope.codegen.loop_nest import arrange_loops
from irscope.errors import CodegenError
from irscope.ir.core import Node, Value
from irscope.ir.types import TensorType, Type
from irscope.ops.strides import contiguous_strides, is_contiguous

__all__ = ["spec_of_group"]

REDUCED: Final = -1
"""In place of an axis's number: a dimension that lies along reduced axes."""
_MOST_SPLITS: Final = 64

_Forms = tuple[Form, ...]
_Piece = tuple[int, int | None]
"""Some elements in a row, and the kept axis along which they lie; `REDUCED`; or None for an extent of 1."""
_Axes = tuple[tuple[_Piece, ...], ...]
"""For each dimension its pieces, outermost first: mostly one, but a group norm keeps the groups and walks past the rest."""


def spec_of_group(group: Node, types: Sequence[Type]) -> LaunchPlan:
    """The kernels of a group for inputs of these types, and the types of its outputs.

    `types` has one entry per input of the group: for a tensor its element type, shape and strides (row-major when
    missing), for a number its type. Raises CodegenError, which names the node, for what no kernel computes.
    """
    (block,) = group.blocks
    values = GroupValues(block, types)
    outputs = tuple(values.tensor_type(value) for value in block.returns)
    targets = [target for position in range(len(outputs)) for target in _targets(values, position)]
    placed = [(target, *_domain(values, target)) for target in targets]
    launches: dict[_Domain, list[tuple[_Target, _Axes]]] = {}
    for target, domain, axes in placed:
        if not domain.gathers:
            domain, axes = next(
                ((other, other.whole[1]) for _, other, _ in placed if other.whole and other.whole[0] == target.shape),
                (domain, axes),
            )
        launches.setdefault(domain, []).append((target, axes))
    made = tuple(_launch(values, domain, each) for domain, each in launches.items())
    return LaunchPlan(made, outputs, len(block.params))


@dataclass(frozen=True, eq=False)
class _Target:
    """A tensor that a launch writes: an output of the group, or a part of one."""

    output: int
    value: Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str


def _targets(values: GroupValues, position: int) -> Iterator[_Target]:
    """An output; of joined tensors, each part with its place in the output."""
    value = values.block.returns[position]
    shape, strides = values.layout(value)
    step = values.steps.get(value)
    if not isinstance(step, Joined):
        yield _Target(position, value, shape, strides, 0, values.dtype(value))
        return
    start = 0
    for part in step.parts:
        own = values.shape(part)
        inner = strides
        if step.new_axis:
            inner = (*strides[: step.axis], *strides[step.axis + 1 :])
        yield _Target(position, part, own, inner, start * strides[step.axis], values.dtype(value))
        start += 1 if step.new_axis else own[step.axis]


@dataclass(frozen=True, slots=True)
class _Domain:
    """An iteration space: equal for outputs that can share a kernel."""

    kept: tuple[int, ...]
    """Extents other than 1 of the kept axes, in the order of the outputs' dimensions."""
    reduced: tuple[int, ...] = ()
    """Extents other than 1 of the reduced axes: what each reduction gathers, row by row."""
    gathers: bool = False
    """Whether there are reductions: they may gather just one element."""
    whole: tuple[tuple[int, ...], _Axes] | None = field(default=None, compare=False)
    """Of a space with reductions: the shape and the axes of a tensor that fills it."""


def _domain(values: GroupValues, target: _Target) -> tuple[_Domain, _Axes]:
    """The iteration space of one output, and the axis of the space along which each of its dimensions lies."""
    space = Space(list(target.shape), [])
    walk = _lowered(values, space, lambda: [(target.value, tuple(map(space.kept_form, range(len(target.shape)))))])[0]
    if walk.gathered is None:
        pieces = [[(size, True)] if size != 1 else [] for size in target.shape]
    else:
        pieces = [_walked_pieces(space, dim, walk.walked) for dim in range(len(target.shape))]
    kept = tuple(size for own in pieces for size, is_kept in own if is_kept)
    reduced = tuple(size for own in pieces for size, is_kept in own if not is_kept)
    axes = _numbered(pieces)
    if walk.gathered is None:
        return _Domain(kept), axes
    gathered = tuple(size for size in walk.gathered if size != 1)
    if not reduced:
        return _Domain(kept, gathered, True, walk.whole(axes)), axes
    if prod(reduced) != prod(gathered):
        raise CodegenError(
            f"an output of shape {list(target.shape)} repeats the results of a reduction over {prod(gathered)} elements",
            hint="a kernel writes them once, or at each of the elements that they come from",
            rule="codegen-reduction",
        )
    return _Domain(kept, reduced, True, (target.shape, axes)), axes


def _walked_pieces(space: Space, dim: int, walked: set[int]) -> list[tuple[int, bool]]:
    """A dimension cut where the results of reductions begin or cease to differ along it; without extents of 1."""
    first = sum(len(factors) for factors in space.factors[:dim])
    pieces: list[tuple[int, bool]] = []
    for axis, size in enumerate(space.factors[dim], first):
        if size == 1:
            continue
        is_kept = axis in walked
        if pieces and pieces[-1][1] == is_kept:
            pieces[-1] = (pieces[-1][0] * size, is_kept)
        else:
            pieces.append((size, is_kept))
    return pieces


def _numbered(pieces: Sequence[Sequence[tuple[int, bool]]]) -> _Axes:
    """Kept pieces get the numbers of the axes in order."""
    numbers = count()
    return tuple(
        tuple((size, next(numbers) if is_kept else REDUCED) for size, is_kept in own) or ((1, None),) for own in pieces
    )


# -- from an output to its inputs -------------------------------------------------------------------------------------


class _Walk:
    """One kernel while its instructions are gathered, for a space as it is cut now."""

    def __init__(self, values: GroupValues, space: Space) -> None:
        self.values = values
        self.space = space
        self.code = InstructionList()
        self.operands: dict[_Read, int] = {}
        """Each distinct way in which an input is read, to the operand's position."""
        self.gathered: tuple[int, ...] | None = None
        """The extents that reductions gather."""
        self.walked: set[int] = set()
        """The axes along which reductions' results differ."""
        self.first: tuple[tuple[int, ...], tuple[int, ...], _Forms] | None = None
        """Of the first reduction: the shape it gathers from, its axes, and the index of its result."""
        self._done: dict[tuple[Value, _Forms], int] = {}

    def lower(self, root: Value, forms: _Forms) -> int:
        """The step that computes an element of a value."""
        wanted = (root, forms)
        stack = [wanted]
        below: dict[tuple[Value, _Forms], list[tuple[Value, _Forms]]] = {}
        while stack:
            need = stack[-1]
            if need in self._done:
                stack.pop()
                continue
            if need not in below:
                below[need] = self._below(*need)
            waiting = [other for other in below[need] if other not in self._done]
            if waiting:
                stack.extend(waiting)
            else:
                self._done[need] = self._step(*need, [self._done[other] for other in below[need]])
        return self._done[wanted]

    def whole(self, axes: _Axes) -> tuple[tuple[int, ...], _Axes] | None:
        """The shape and axes of what the first reduction gathers from, if it lies along the axes as they are."""
        assert self.first is not None
        shape, reduced, forms = self.first
        names = {self.space.kept_form(dim): pieces for dim, pieces in enumerate(axes)}
        found: list[tuple[_Piece, ...]] = []
        for dim, (size, form) in enumerate(zip(shape, forms, strict=True)):
            if size != 1 and dim not in reduced and form not in names:
                return None
            found.append(((1, None),) if size == 1 else ((size, REDUCED),) if dim in reduced else names[form])
        return shape, tuple(found)

    def _below(self, value: Value, forms: _Forms) -> list[tuple[Value, _Forms]]:
        step = self.values.steps.get(value)
        if step is None:
            return []
        if isinstance(step, Seen):
            if self._lies_row_by_row(step.operand):
                return []
            shape = self.values.shape(step.operand)
            return [(step.operand, digits(combined(forms, step.strides, step.offset), shape, self.space.extents))]
        if isinstance(step, Joined):
            raise CodegenError("joined tensors are read again inside the group", rule="codegen-join")
        outside, inside = self._places(step, forms)
        return [
            (operand, _aligned(inside if gathered else outside, self.values.shape(operand), axis))
            for _, operand, axis, gathered in step.reads
        ]

    def _step(self, value: Value, forms: _Forms, below: list[int]) -> int:
        step = self.values.steps.get(value)
        if step is None:
            return self._input(value, forms)
        if isinstance(step, Seen):
            return below[0] if below else self._read(step.operand, combined(forms, step.strides, step.offset))
        assert isinstance(step, Compute)
        outside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if not gathered}
        inside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if gathered}
        index = self._index() if step.positions else None
        return self.code.splice(step.expr, outside, node=step.position, gathered=inside, index=index)

    def _places(self, step: Compute, forms: _Forms) -> tuple[_Forms, _Forms]:
        """The index of what an expression reads outside its reductions, and inside."""
        if not step.axes:
            return forms, forms
        outside = list(forms)
        if len(forms) < len(step.shape):
            for axis in step.axes:
                outside.insert(axis, ZERO)
        extents = tuple(step.shape[axis] for axis in step.axes)
        self._gather(step, extents, outside)
        inside = list(outside)
        for axis, form in zip(step.axes, digits(self.space.reduced_form(), extents, self.space.extents), strict=True):
            inside[axis] = form
        return tuple(outside), tuple(inside)

    def _gather(self, step: Compute, extents: tuple[int, ...], forms: Sequence[Form]) -> None:
        kept = [form for dim, form in enumerate(forms) if dim not in step.axes]
        if self.gathered is None:
            self.gathered = extents
            self.first = (step.shape, step.axes, tuple(forms))
            self.space.gather(extents)
        if prod(self.gathered) != prod(extents):
            raise CodegenError(
                f"one reduction gathers {prod(self.gathered)} elements, another {prod(extents)}",
                rule="codegen-reduction",
            )
        walked = {axis for form in kept for axis in form.axes}
        if any(axis >= self.space.first_reduced for axis in walked):
            raise CodegenError("a reduction of a reduction along other axes", rule="codegen-reduction")
        self.walked |= walked

    def _input(self, value: Value, forms: _Forms) -> int:
        if value in self.values.known or value not in self.values.params:
            raise CodegenError(f"{value!r} is not something that a kernel reads", rule="codegen-constant")
        if not isinstance(self.values.types[value], TensorType):
            return self._read(value, None)
        return self._read(value, combined(forms, self.values.layout(value)[1]))

    def _read(self, value: Value, place: Form | None) -> int:
        read = _Read(self.values.params[value], place)
        return self.code.input(self.operands.setdefault(read, len(self.operands)), self.values.dtype(value))

    def _lies_row_by_row(self, value: Value) -> bool:
        """Whether a value is an input whose memory any view of it can be read from."""
        return value in self.values.params and is_contiguous(*self.values.layout(value))

    def _index(self) -> int:
        read = _Read(-1, self.space.reduced_form())
        return self.code.input(self.operands.setdefault(read, len(self.operands)), "int64")


@dataclass(frozen=True, slots=True)
class _Read:
    """An operand of a kernel: an input of the group, and where in it; -1 is the place itself."""

    input: int
    place: Form | None = None
    """None for a number."""


def _aligned(forms: _Forms, shape: tuple[int, ...], axis: int | None) -> _Forms:
    """The index of an operand, given that of the result that reads it: broadcast, or along one axis."""
    own = (forms[axis],) if axis is not None and len(shape) == 1 else forms[len(forms) - len(shape) :]
    return tuple(ZERO if size == 1 else form for size, form in zip(shape, own, strict=True))


def _lowered(
    values: GroupValues, space: Space, roots: Callable[[], Sequence[tuple[Value, _Forms]]]
) -> tuple[_Walk, list[int]]:
    """Instructions for these elements; the space is cut as the views need it, and then they are asked for again."""
    for _ in range(_MOST_SPLITS):
        walk = _Walk(values, space)
        try:
            return walk, [walk.lower(value, forms) for value, forms in roots()]
        except AxisMustSplit as cut:
            space.split(cut.axis, cut.inner)
    raise CodegenError("the views inside the group cut its dimensions into too many parts", rule="codegen-view")


# -- launches ---------------------------------------------------------------------------------------------------------


def _launch(values: GroupValues, domain: _Domain, targets: Sequence[tuple[_Target, _Axes]]) -> Launch:
    space = Space(list(domain.kept), list(domain.reduced))

    def places() -> list[_Forms]:
        return [_place(space, axes) for _, axes in targets]

    walk, found = _lowered(
        values, space, lambda: [(target.value, place) for (target, _), place in zip(targets, places(), strict=True)]
    )
    results = [
        walk.code.cast(
            step, target.dtype, node=values.steps[target.value].position if target.value in values.steps else -1
        )
        for step, (target, _) in zip(found, targets, strict=True)
    ]
    written = [
        combined(place, target.strides, target.offset) for place, (target, _) in zip(places(), targets, strict=True)
    ]
    return _assembled(values, domain, walk, results, written, [target.output for target, _ in targets])


def _place(space: Space, axes: _Axes) -> _Forms:
    """The index of an output at each point of the space."""
    free = [size for pieces in axes for size, axis in pieces if axis == REDUCED]
    inner = iter(digits(space.reduced_form(), free, space.extents))
    forms = [
        [next(inner) if axis == REDUCED else ZERO if axis is None else space.kept_form(axis) for _, axis in pieces]
        for pieces in axes
    ]
    return tuple(
        combined(own, contiguous_strides([size for size, _ in pieces])) for own, pieces in zip(forms, axes, strict=True)
    )


def _assembled(
    values: GroupValues,
    domain: _Domain,
    walk: _Walk,
    results: Sequence[int],
    written: Sequence[Form],
    outputs: Sequence[int],
) -> Launch:
    steps, results_at = walk.code.trimmed(results)
    params, extents = values.block.params, walk.space.extents
    every = list(walk.operands)
    used = sorted({code.value for code in steps if code.op == "input" and code.value is not None})
    number: dict[int | None, int] = {old: new for new, old in enumerate(used)}
    steps = tuple(replace(code, value=number[code.value]) if code.op == "input" else code for code in steps)
    reads = [every[position] for position in used]
    forms = [*written, *(read.place for read in reads)]
    tensors = [form for form in forms if form is not None]
    strides = [[dict(form.terms).get(axis, 0) for axis in range(len(extents))] for form in tensors]
    sizes, loops, reduced = arrange_loops(
        extents, walk.space.first_reduced if domain.gathers else None, strides, len(written)
    )
    rows = iter(loops)
    own = [next(rows) if form is not None else () for form in forms]
    dtypes = ["int64" if read.input < 0 else values.dtype(params[read.input]) for read in reads]
    spec = KernelSpec(
        tuple(
            Operand(dtype, "scalar")
            if read.place is None
            else Operand(dtype, "index" if read.input < 0 else "tensor", stride_classes(mine))
            for read, dtype, mine in zip(reads, dtypes, own[len(written) :], strict=True)
        ),
        steps,
        tuple(Result(steps[at].dtype, stride_classes(own[slot]), at) for slot, at in enumerate(results_at)),
        len(sizes),
        row_limit=row_limit(sizes, rows=len(sizes) - 1 in reduced),
        reduced=reduced,
    )
    offsets = tuple(0 if form is None else form.offset for form in forms)
    return Launch(
        spec, sizes, tuple(read.input for read in reads), tuple(outputs), tuple(own), offsets if any(offsets) else ()
    )
