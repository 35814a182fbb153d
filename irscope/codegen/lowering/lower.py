"""Lowers a fusion group, given the types of its inputs, to the kernels that compute it.

Outputs with the same iteration space share a kernel. Each value inside the group is traced from the outputs back to the
inputs together with its index (`index_propagation`), because the same value can be read in several ways: a vector along the
last axis by an addition, along axis 1 by a batch norm, in part through a view. Values that are broadcast inside the
group are computed at every point where they are read, or outside the loops along which they are invariant.

Each joined tensor is written in its place of the output. An output in which ranges were replaced is written in parts, one per range.

The iteration space of an output that does not depend on a reduction is its own shape. For any other, the axes along which
the results of the reductions vary are kept. The axes along which a result is repeated (each row of a softmax has one sum)
must have as many elements as the reduction reduces, and are the reduced axes. Where there are none, the output is as small as
the reductions' results, and the reduced axes are added to its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import Final

from irscope.codegen.kernel import KernelSpec, Launch, LaunchPlan, Operand, Result, arrange_loops, canonical_launch, stride_classes, trimmed
from irscope.codegen.lowering.element_values import GroupValues, Joined
from irscope.codegen.lowering.index_propagation import (
    REDUCED,
    ZERO,
    Axes,
    Forms,
    OutputMustPart,
    Space,
    delinearize,
    linearize,
    lowered,
    shifted,
)
from irscope.errors import CodegenError
from irscope.ir import Node, Type, Value
from irscope.ops.registry import effect_of
from irscope.ops.type_rules import contiguous_strides

_MOST_PARTS: Final = 64
"""The most parts that an output is cut into; a kernel has a result for each."""


def spec_of_group(group: Node, types: Sequence[Type], *, exact: bool = False) -> LaunchPlan:
    """Return the kernels of a group for inputs of these types, and the types of its outputs.

    `types` has one entry per input of the group: for a tensor its element type, shape and strides (row-major when
    missing), for a number its type. With `exact`, results equal torch's bit for bit (`irscope.ops.accuracy`). Raises
    CodegenError, which names the node, for anything that no kernel computes.
    """
    (block,) = group.blocks
    if writing := next((node for node in block.nodes if node.op.endswith("_") and effect_of(node) == "in-place"), None):
        raise CodegenError(f"no kernel computes {writing.op}, which writes its operand", where=repr(writing), rule="codegen-op")
    values = GroupValues(block, types, exact=exact)
    outputs = tuple(values.tensor_type(value) for value in block.returns)
    targets = [target for position in range(len(outputs)) for target in _targets(values, position)]
    placed = [each for target in targets for each in _placed(values, target)]
    launches: dict[_Domain, list[tuple[_Target, Axes]]] = {}
    for target, domain, axes in placed:
        if 0 in domain.reduced and 0 not in domain.kept:
            # a value that is invariant along a row is read once before it, and here there is nothing to read
            raise CodegenError("a reduction over an empty axis reads nothing", rule="codegen-empty")
        if not domain.gathers:
            domain, axes = next(
                ((other, other.whole[1]) for _, other, _ in placed if other.whole and other.whole[0] == target.shape), (domain, axes)
            )
        launches.setdefault(domain, []).append((target, axes))
    made = tuple(_launch(values, domain, each) for domain, each in launches.items() if 0 not in domain.kept)
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
    start: tuple[int, ...]
    """The index in the value of its first element, along each dimension."""

    def parted(self, dim: int, at: int) -> "tuple[_Target, _Target]":
        """Return the part before `at` along a dimension, and the rest."""
        before, after = list(self.shape), list(self.shape)
        before[dim], after[dim] = at, self.shape[dim] - at
        start = (*self.start[:dim], self.start[dim] + at, *self.start[dim + 1 :])
        first = replace(self, shape=tuple(before))
        return first, replace(self, shape=tuple(after), offset=self.offset + at * self.strides[dim], start=start)


def _targets(values: GroupValues, position: int) -> Iterator[_Target]:
    """Yield an output, or for joined tensors, each part with its place in the output.

    An output has stride 0 only if it is one of the operands unchanged, say a `to` of an expanded tensor
    that has the type already: each element in memory is written once, however often it is repeated.
    """
    value = values.block.returns[position]
    shape, strides = values.layout(value)
    step = values.steps.get(value)
    if not isinstance(step, Joined):
        own = tuple(min(size, 1) if stride == 0 else size for size, stride in zip(shape, strides, strict=True))
        yield _Target(position, value, own, strides, 0, values.dtype(value), (0,) * len(shape))
        return
    start = 0
    for part in step.parts:
        own = values.shape(part)
        inner = strides
        if step.new_axis:
            inner = (*strides[: step.axis], *strides[step.axis + 1 :])
        at = start * strides[step.axis]
        yield _Target(position, part, own, inner, at, values.dtype(value), (0,) * len(own))
        start += 1 if step.new_axis else own[step.axis]


@dataclass(frozen=True, slots=True)
class _Domain:
    """An iteration space; equal for outputs that can share a kernel."""

    kept: tuple[int, ...]
    """Extents other than 1 of the kept axes, in the order of the outputs' dimensions."""
    reduced: tuple[int, ...] = ()
    """Extents other than 1 of the reduced axes: the elements of each reduction, in row-major order."""
    gathers: bool = False
    """Whether there are reductions, even of a single element each."""
    whole: tuple[tuple[int, ...], Axes] | None = field(default=None, compare=False)
    """For a space with reductions: the shape and the axes of a tensor that fills it."""


def _placed(values: GroupValues, target: _Target) -> list[tuple[_Target, _Domain, Axes]]:
    """Return a target, or the parts of it that are computed differently, each with its domain and axes."""
    found: list[tuple[_Target, _Domain, Axes]] = []
    waiting = [target]
    while waiting:
        target = waiting.pop()
        try:
            found.append((target, *_domain(values, target)))
        except OutputMustPart as cut:
            waiting += reversed(target.parted(cut.dim, cut.at))
            if len(found) + len(waiting) > _MOST_PARTS:
                raise
    return found


def _domain(values: GroupValues, target: _Target) -> tuple[_Domain, Axes]:
    """Return the iteration space of one output, and the axes of the space that each of its dimensions runs along."""
    space = Space(list(target.shape), [])
    walk = lowered(values, space, lambda: [_root(target, tuple(map(space.kept_form, range(len(target.shape)))))])[0]
    if walk.gathered is None:
        pieces = [[(size, True)] if size != 1 else [] for size in target.shape]
    else:
        pieces = [_walked_pieces(space, dim, walk.walked) for dim in range(len(target.shape))]
    kept = tuple(size for own in pieces for size, is_kept in own if is_kept)
    reduced = tuple(size for own in pieces for size, is_kept in own if not is_kept)
    numbers = count()  # of the kept pieces, in order
    axes = tuple(tuple((size, next(numbers) if is_kept else REDUCED) for size, is_kept in own) or ((1, None),) for own in pieces)
    if walk.gathered is None:
        return _Domain(kept), axes
    gathered = tuple(size for size in walk.gathered if size != 1)
    if not reduced:
        return _Domain(kept, gathered, True, walk.whole(axes)), axes
    if prod(reduced) != prod(gathered):
        raise CodegenError(
            f"an output of shape {list(target.shape)} repeats the results of a reduction over {prod(gathered)} elements",
            hint="a kernel can write a reduction's results once, or once for each element that was reduced",
            rule="codegen-reduction",
        )
    return _Domain(kept, reduced, True, (target.shape, axes)), axes


def _root(target: _Target, place: Forms) -> tuple[Value, Forms]:
    """Return the value that a target belongs to, and the index in it of an element of the target."""
    return target.value, tuple(map(shifted, place, target.start))


def _walked_pieces(space: Space, dim: int, walked: set[int]) -> list[tuple[int, bool]]:
    """Cut a dimension where the results of reductions start or stop varying along it; extents of 1 are left out."""
    pieces: list[tuple[int, bool]] = []
    for axis, size in enumerate(space.factors[dim], space.first(dim)):
        if size == 1:
            continue
        is_kept = axis in walked
        if pieces and pieces[-1][1] == is_kept:
            pieces[-1] = (pieces[-1][0] * size, is_kept)
        else:
            pieces.append((size, is_kept))
    return pieces


# -- launches ---------------------------------------------------------------------------------------------------------


def _launch(values: GroupValues, domain: _Domain, targets: Sequence[tuple[_Target, Axes]]) -> Launch:
    space = Space(list(domain.kept), list(domain.reduced))

    def places() -> list[Forms]:
        return [_place(space, axes) for _, axes in targets]

    walk, found = lowered(values, space, lambda: [_root(target, place) for (target, _), place in zip(targets, places(), strict=True)])
    results = [
        walk.code.cast(step, target.dtype, node=values.steps[target.value].position if target.value in values.steps else -1)
        for step, (target, _) in zip(found, targets, strict=True)
    ]
    written = [linearize(place, target.strides, target.offset) for place, (target, _) in zip(places(), targets, strict=True)]
    steps, at = trimmed(walk.code.steps, results)
    used = sorted({code.operand for code in steps if code.op == "input"})
    number = {old: new for new, old in enumerate(used)}
    steps = tuple(replace(code, value=number[code.operand]) if code.op == "input" else code for code in steps)
    every = list(walk.operands)
    reads = [every[position] for position in used]
    forms, extents = [*written, *(read.place for read in reads)], space.extents
    strides = [[dict(form.terms).get(axis, 0) for axis in range(len(extents))] for form in forms if form is not None]
    sizes, loops, reduced = arrange_loops(extents, space.first_reduced if domain.gathers else None, strides, len(written))
    rows = iter(loops)
    own = [next(rows) if form is not None else () for form in forms]
    dtypes = ["int64" if read.input < 0 else values.dtype(values.block.params[read.input]) for read in reads]
    inputs = tuple(
        Operand(dtype, "scalar") if read.place is None else Operand(dtype, "index" if read.input < 0 else "tensor", stride_classes(mine))
        for read, dtype, mine in zip(reads, dtypes, own[len(written) :], strict=True)
    )
    made = tuple(Result(steps[at[step]].dtype, stride_classes(mine), at[step]) for step, mine in zip(results, own, strict=False))
    spec = KernelSpec.over(sizes, inputs, steps, made, reduced=reduced, exact=values.exact)
    offsets = tuple(0 if form is None else form.offset for form in forms)
    outputs = tuple(target.output for target, _ in targets)
    launch = Launch(spec, sizes, tuple(read.input for read in reads), outputs, tuple(own), offsets if any(offsets) else ())
    return canonical_launch(launch)


def _place(space: Space, axes: Axes) -> Forms:
    """Return the index of an output at each point of the space."""
    free = [size for pieces in axes for size, axis in pieces if axis == REDUCED]
    inner = iter(delinearize(space.reduced_form(), free, space.extents))
    forms = [[next(inner) if axis == REDUCED else ZERO if axis is None else space.kept_form(axis) for _, axis in pieces] for pieces in axes]
    return tuple(linearize(own, contiguous_strides([size for size, _ in pieces])) for own, pieces in zip(forms, axes, strict=True))
