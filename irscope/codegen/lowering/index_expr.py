"""Affine indices: the element of a value that is read at each point of an iteration space.

The index along each dimension of a value is an `AffineIndex`, or form: an offset plus steps along axes of the space. Views
inside a group change only forms. Any view of a row-major tensor is an offset and a stride per dimension, so the forms of
the view determine the position in the row-major tensor, which is again a form. Its digits in the mixed radix of the extents
are the forms of the base. Where a digit would carry, an axis of the space must be cut in two (`AxisMustSplit`), and
planning starts again with the finer space: a flattened image is then traversed by rows and columns.

Where a range of a tensor was replaced, an index decides which of two values is read. It must be the same one at all
points; where it is not, the output is computed in two parts (`OutputMustPart`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from irscope.codegen.lowering.element_ops import Window
from irscope.errors import CodegenError
from irscope.ops.typing import contiguous_strides

__all__ = [
    "ZERO", "AxisMustSplit", "AffineIndex", "OutputMustPart", "Space", "linearize", "delinearize", "lies_within", "shifted", "windowed",
]  # fmt: skip

Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """An index as an affine form: an offset, and (axis, step) for each axis of the space along which it moves, ascending."""

    offset: int
    terms: Terms = ()

    @property
    def axes(self) -> set[int]:
        """The axes along which it moves."""
        return {axis for axis, _ in self.terms}


ZERO = AffineIndex(0)


class AxisMustSplit(Exception):
    """Raised when an axis of the space must be cut in two, the inner one of extent `inner`."""

    def __init__(self, axis: int, inner: int) -> None:
        super().__init__(axis, inner)
        self.axis = axis
        self.inner = inner


class OutputMustPart(CodegenError):
    """Raised when an output must be computed in two parts, the second of which starts at `at` along a dimension."""

    def __init__(self, dim: int, at: int) -> None:
        super().__init__("elements of one output are read from different values", rule="codegen-patch")
        self.dim = dim
        self.at = at


@dataclass(slots=True)
class Space:
    """The axes that a kernel iterates over: kept ones, then reduced ones, each cut into factors.

    >>> space = Space([6], [4])
    >>> space.kept_form(0), space.reduced_form()
    (AffineIndex(offset=0, terms=((0, 1),)), AffineIndex(offset=0, terms=((1, 1),)))
    >>> space.split(0, 3); space.kept_form(0)
    AffineIndex(offset=0, terms=((0, 3), (1, 1)))
    """

    kept: list[int]
    """Extents of the kept axes."""
    reduced: list[int]
    """Extents of the reduced axes, which together number the reduced elements in row-major order."""
    factors: list[list[int]] = field(init=False)
    """For each kept axis, then for all reduced ones together: the extents of its pieces, outermost first."""

    def __post_init__(self) -> None:
        self.factors = [*([size] for size in self.kept), list(self.reduced)]

    @property
    def extents(self) -> list[int]:
        """The extent of each axis after all cuts."""
        return [size for factors in self.factors for size in factors]

    @property
    def first_reduced(self) -> int:
        """The number of axes that are kept."""
        return sum(len(factors) for factors in self.factors[:-1])

    def kept_form(self, position: int) -> AffineIndex:
        """Return the index along one of the original kept axes, before any cut."""
        return self._form(position)

    def reduced_form(self) -> AffineIndex:
        """Return the position of a reduced element, in row-major order."""
        return self._form(len(self.kept))

    def _form(self, position: int) -> AffineIndex:
        first = sum(len(factors) for factors in self.factors[:position])
        factors = self.factors[position]
        steps = contiguous_strides(factors)
        return AffineIndex(0, tuple((first + i, steps[i]) for i, size in enumerate(factors) if size != 1))

    def owner(self, axis: int) -> int:
        """Return the kept axis that this one was cut from, or the number of kept axes if it is reduced."""
        for position, factors in enumerate(self.factors):
            if axis < len(factors):
                return position
            axis -= len(factors)
        raise IndexError(axis)

    def part(self, axis: int, at: int) -> OutputMustPart:
        """Return the exception for an axis whose points from `at` on read another value than those before."""
        dim = self.owner(axis)
        first = sum(len(factors) for factors in self.factors[:dim])
        outer, inner = self.extents[first:axis], self.factors[dim][axis - first + 1 :]
        if dim == len(self.kept) or prod(outer) > 1:
            raise CodegenError("a replaced range is read along axes that cannot be separated", rule="codegen-patch")
        return OutputMustPart(dim, at * prod(inner))

    def gather(self, extents: Sequence[int]) -> None:
        """Set the reduced axes, if there are none yet."""
        if not self.factors[-1]:
            self.factors[-1] = list(extents)

    def split(self, axis: int, inner: int) -> None:
        """Cut an axis in two."""
        for factors in self.factors:
            if axis < len(factors):
                factors[axis : axis + 1] = [factors[axis] // inner, inner]
                return
            axis -= len(factors)


def linearize(forms: Iterable[AffineIndex], strides: Iterable[int], offset: int = 0) -> AffineIndex:
    """Return the position of an element, from its index along each dimension and the position of the first element.

    >>> linearize([AffineIndex(1, ((0, 1),)), AffineIndex(0, ((1, 2),))], [10, 1])
    AffineIndex(offset=10, terms=((0, 10), (1, 2)))
    """
    steps = dict[int, int]()
    for form, stride in zip(forms, strides, strict=True):
        offset += form.offset * stride
        for axis, step in form.terms:
            steps[axis] = steps.get(axis, 0) + step * stride
    return AffineIndex(offset, tuple(sorted((axis, step) for axis, step in steps.items() if step)))


def shifted(form: AffineIndex, by: int) -> AffineIndex:
    """Return the index plus a constant."""
    return AffineIndex(form.offset + by, form.terms) if by else form


def windowed(form: AffineIndex, window: Window, extent: int, space: Space) -> list[AffineIndex]:
    """Return the indices of a window's elements along an axis of this extent, without those out of bounds.

    Raises OutputMustPart where some windows are cut off and others are not.

    >>> space = Space([3], [])
    >>> windowed(AffineIndex(0, ((0, 1),)), Window(2, 2, 0, 1), 6, space)
    [AffineIndex(offset=0, terms=((0, 2),)), AffineIndex(offset=1, terms=((0, 2),))]
    """
    terms = tuple((axis, step * window.step) for axis, step in form.terms)
    first = form.offset * window.step - window.margin
    found = [AffineIndex(first + place * window.gap, terms) for place in range(window.size)]
    return [index for index in found if lies_within(index, 0, extent, space)]


def lies_within(form: AffineIndex, start: int, stop: int, space: Space) -> bool:
    """Whether an index is in `start` to before `stop` at every point (True) or at none (False).

    Raises OutputMustPart when it is at some points only.

    >>> space = Space([4, 3], [])
    >>> lies_within(AffineIndex(2, ((0, 1),)), 2, 6, space), lies_within(AffineIndex(2, ((0, 1),)), 0, 2, space)
    (True, False)
    >>> try: lies_within(AffineIndex(0, ((0, 3), (1, 1))), 6, 12, space)
    ... except OutputMustPart as cut: cut.dim, cut.at
    (0, 2)
    """
    extents = space.extents
    if 0 in extents:
        return False
    low, high = form.offset, form.offset + sum(step * (extents[axis] - 1) for axis, step in form.terms)
    if start <= low and high < stop:
        return True
    if high < start or stop <= low:
        return False
    step, axis = max((step, axis) for axis, step in form.terms if extents[axis] > 1)
    border = start if low < start else stop
    raise space.part(axis, min(-((low - border) // step), extents[axis] - 1))


def delinearize(position: AffineIndex, shape: Sequence[int], extents: Sequence[int]) -> tuple[AffineIndex, ...]:
    """Return the index along each dimension of the element at this position of a row-major tensor.

    `extents` are those of the space's axes. Raises AxisMustSplit, or CodegenError if cutting does not help.

    >>> delinearize(AffineIndex(1, ((0, 4), (1, 1))), (5, 4), [5, 3])
    (AffineIndex(offset=0, terms=((0, 1),)), AffineIndex(offset=1, terms=((1, 1),)))
    """
    if prod(shape) == 0:
        return (ZERO,) * len(shape)
    offsets = _mixed_radix(position.offset, shape)
    terms: list[list[tuple[int, int]]] = [[] for _ in shape]
    for axis, step in position.terms:
        for dim, digit in enumerate(_mixed_radix(step, shape)):
            if digit:
                terms[dim].append((axis, digit))
    for dim in range(len(shape) - 1, 0, -1):
        reach = offsets[dim] + sum(step * (extents[axis] - 1) for axis, step in terms[dim])
        if reach >= shape[dim]:
            _cut(terms[dim], shape[dim], extents)
    return tuple(AffineIndex(offset, tuple(own)) for offset, own in zip(offsets, terms, strict=True))


def _mixed_radix(number: int, shape: Sequence[int]) -> list[int]:
    """Return the digits of a number in the mixed radix of a shape; the first digit is unbounded."""
    found = []
    for size in reversed(shape[1:]):
        number, digit = divmod(number, size)
        found.append(digit)
    return [number, *reversed(found)] if shape else []


def _cut(terms: Sequence[tuple[int, int]], size: int, extents: Sequence[int]) -> None:
    for axis, step in terms:
        inner, rest = divmod(size, step)
        if not rest and 1 < inner < extents[axis] and extents[axis] % inner == 0:
            raise AxisMustSplit(axis, inner)
    raise CodegenError(
        "a view inside the group mixes dimensions in a way that no strides describe", rule="codegen-view"
    )
