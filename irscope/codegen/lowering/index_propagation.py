"""From an element of an output to the elements of the inputs, as instructions.

A walk goes through the values of a group together with their index at each point of the space. Where a reduction
gathers, its operands are read at the reduced axes instead of those of the result, and it is noted which axes the
result depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Final

from irscope.codegen.lowering.element_ops import Compute, Joined, Patched, Pooled, Seen
from irscope.codegen.lowering.element_values import GroupValues
from irscope.codegen.lowering.index_expr import (
    ZERO,
    AffineIndex,
    AxisMustSplit,
    Space,
    delinearize,
    lies_within,
    linearize,
    shifted,
    windowed,
)
from irscope.codegen.lowering.linearize import InstructionList
from irscope.errors import CodegenError
from irscope.ir import TensorType, Value
from irscope.ops.expr import call, input_element
from irscope.ops.typing import is_contiguous

__all__ = ["REDUCED", "Axes", "Forms", "Piece", "Read", "Walk", "lowered"]

REDUCED: Final = -1
"""In place of an axis's number: a dimension that lies along reduced axes."""
_MOST_SPLITS: Final = 64

Forms = tuple[AffineIndex, ...]
Piece = tuple[int, int | None]
"""Some elements in a row, and the kept axis along which they lie; `REDUCED`; or None for an extent of 1."""
Axes = tuple[tuple[Piece, ...], ...]
"""For each dimension its pieces, outermost first: mostly one, but a group norm keeps the groups and walks past the rest."""


class Walk:
    """One kernel while its instructions are gathered, for a space as it is cut now."""

    def __init__(self, values: GroupValues, space: Space) -> None:
        self.values = values
        self.space = space
        self.code = InstructionList(exact=values.exact)
        self.operands: dict[Read, int] = {}
        """Each distinct way in which an input is read, to the operand's position."""
        self.gathered: tuple[int, ...] | None = None
        """The extents that reductions gather."""
        self.walked: set[int] = set()
        """The axes along which reductions' results differ."""
        self.first: tuple[tuple[int, ...], tuple[int, ...], Forms] | None = None
        """Of the first reduction: the shape it gathers from, its axes, and the index of its result."""
        self._done: dict[tuple[Value, Forms], int] = {}

    def lower(self, root: Value, forms: Forms) -> int:
        """The step that computes an element of a value."""
        wanted = (root, forms)
        stack = [wanted]
        below: dict[tuple[Value, Forms], list[tuple[Value, Forms]]] = {}
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

    def whole(self, axes: Axes) -> tuple[tuple[int, ...], Axes] | None:
        """The shape and axes of what the first reduction gathers from, if it lies along the axes as they are."""
        assert self.first is not None
        shape, reduced, forms = self.first
        names = {self.space.kept_form(dim): pieces for dim, pieces in enumerate(axes)}
        found: list[tuple[Piece, ...]] = []
        for dim, (size, form) in enumerate(zip(shape, forms, strict=True)):
            if size != 1 and dim not in reduced and form not in names:
                return None
            found.append(((1, None),) if size == 1 else ((size, REDUCED),) if dim in reduced else names[form])
        return shape, tuple(found)

    def _below(self, value: Value, forms: Forms) -> list[tuple[Value, Forms]]:
        step = self.values.steps.get(value)
        if step is None:
            return []
        if isinstance(step, Seen):
            if self._lies_row_by_row(step.operand):
                return []
            shape = self.values.shape(step.operand)
            return [(step.operand, delinearize(linearize(forms, step.strides, step.offset), shape, self.space.extents))]
        if isinstance(step, Joined):
            raise CodegenError("joined tensors are read again inside the group", rule="codegen-join")
        if isinstance(step, Patched):
            return [self._patched(step, forms)]
        if isinstance(step, Pooled):
            return self._in_window(step, forms)
        outside, inside = self._places(step, forms)
        return [
            (operand, _aligned(inside if gathered else outside, self.values.shape(operand), axis))
            for _, operand, axis, gathered in step.reads
        ]

    def _step(self, value: Value, forms: Forms, below: list[int]) -> int:
        step = self.values.steps.get(value)
        if step is None:
            return self._input(value, forms)
        if isinstance(step, Seen):
            return below[0] if below else self._read(step.operand, linearize(forms, step.strides, step.offset))
        if isinstance(step, Patched):
            return below[0]
        if isinstance(step, Pooled):
            return self._largest(step, below)
        assert isinstance(step, Compute)
        outside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if not gathered}
        inside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if gathered}
        index = self._index() if step.positions else None
        return self.code.splice(step.expr, outside, node=step.position, gathered=inside, index=index)

    def _patched(self, step: Patched, forms: Forms) -> tuple[Value, Forms]:
        """The tensor that an element is of, and where in it."""
        if not lies_within(forms[step.axis], step.start, step.stop, self.space):
            return step.whole, forms
        own = () if step.without_axis else (shifted(forms[step.axis], -step.start),)
        return step.part, (*forms[: step.axis], *own, *forms[step.axis + 1 :])

    def _in_window(self, step: Pooled, forms: Forms) -> list[tuple[Value, Forms]]:
        """The elements of a window, in the order in which torch looks at them."""
        shape, axes = self.values.shape(step.operand), len(step.windows)
        along = [
            windowed(form, window, extent, self.space)
            for form, window, extent in zip(forms[-axes:], step.windows, shape[-axes:], strict=True)
        ]
        return [(step.operand, (*forms[:-axes], *place)) for place in product(*along)]

    def _largest(self, step: Pooled, below: list[int]) -> int:
        if not below:
            raise CodegenError("a window has no elements", rule="codegen-empty")
        if self.values.exact:
            raise CodegenError("torch may give 0.0 or -0.0 as the maximum of a window that holds both", rule="inexact")
        dtype = self.values.dtype(step.operand)
        elements = [input_element(index, dtype) for index in range(len(below))]
        return self.code.splice(reduce(partial(call, "maximum"), elements), dict(enumerate(below)), node=step.position)

    def _places(self, step: Compute, forms: Forms) -> tuple[Forms, Forms]:
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
        for axis, form in zip(step.axes, delinearize(self.space.reduced_form(), extents, self.space.extents), strict=True):
            inside[axis] = form
        return tuple(outside), tuple(inside)

    def _gather(self, step: Compute, extents: tuple[int, ...], forms: Sequence[AffineIndex]) -> None:
        kept = [form for dim, form in enumerate(forms) if dim not in step.axes]
        if self.gathered is None:
            self.gathered = extents
            self.first = (step.shape, step.axes, tuple(forms))
            self.space.gather(extents)
        if prod(self.gathered) != prod(extents):
            raise CodegenError(
                f"one reduction reduces {prod(self.gathered)} elements, another {prod(extents)}",
                rule="codegen-reduction",
            )
        walked = {axis for form in kept for axis in form.axes}
        if any(axis >= self.space.first_reduced for axis in walked):
            raise CodegenError("a reduction of a reduction along other axes", rule="codegen-reduction")
        self.walked |= walked

    def _input(self, value: Value, forms: Forms) -> int:
        if value in self.values.known or value not in self.values.params:
            raise CodegenError(f"{value!r} cannot be read by a kernel", rule="codegen-constant")
        if not isinstance(self.values.types[value], TensorType):
            return self._read(value, None)
        return self._read(value, linearize(forms, self.values.layout(value)[1]))

    def _read(self, value: Value, place: AffineIndex | None) -> int:
        read = Read(self.values.params[value], place)
        return self.code.input(self.operands.setdefault(read, len(self.operands)), self.values.dtype(value))

    def _lies_row_by_row(self, value: Value) -> bool:
        """Whether a value is an input whose memory any view of it can be read from."""
        return value in self.values.params and is_contiguous(*self.values.layout(value))

    def _index(self) -> int:
        read = Read(-1, self.space.reduced_form())
        return self.code.input(self.operands.setdefault(read, len(self.operands)), "int64")


@dataclass(frozen=True, slots=True)
class Read:
    """An operand of a kernel: an input of the group, and where in it; -1 is the place itself."""

    input: int
    place: AffineIndex | None = None
    """None for a number."""


def _aligned(forms: Forms, shape: tuple[int, ...], axis: int | None) -> Forms:
    """The index of an operand, given that of the result that reads it: broadcast, or along one axis."""
    if axis is None or len(shape) != 1:
        if len(shape) > len(forms):
            raise CodegenError(f"an operand has {len(shape)} axes, and its user has {len(forms)}", rule="codegen-axis")
        own = forms[len(forms) - len(shape) :]
    elif axis < len(forms):
        own = (forms[axis],)
    else:
        raise CodegenError(f"an operand lies along axis {axis} of a result that has {len(forms)}", rule="codegen-axis")
    return tuple(ZERO if size == 1 else form for size, form in zip(shape, own, strict=True))


def lowered(
    values: GroupValues, space: Space, roots: Callable[[], Sequence[tuple[Value, Forms]]]
) -> tuple[Walk, list[int]]:
    """Instructions for these elements; the space is cut as the views need it, and then they are asked for again."""
    for _ in range(_MOST_SPLITS):
        walk = Walk(values, space)
        try:
            return walk, [walk.lower(value, forms) for value, forms in roots()]
        except AxisMustSplit as cut:
            space.split(cut.axis, cut.inner)
    raise CodegenError("the views inside the group cut its dimensions into too many parts", rule="codegen-view")
