"""Torch's rules for strides: the layout of an op's result, from the strides of its operands.

Strides count elements. The rules are those of torch 2.13: `TensorIterator` for elementwise ops
(aten/src/ATen/TensorIterator.cpp), `computeStride` for views (TensorUtils.cpp), `is_channels_last_strides` for memory
formats (c10/core/MemoryFormat.h). For extents 0 and 1 they are odd, and are followed to the letter.
"""

from __future__ import annotations

from collections.abc import Sequence

Sizes = Sequence[int]


def contiguous_strides(shape: Sizes) -> tuple[int, ...]:
    """Return the strides of a row-major tensor; an empty extent counts as 1.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def channels_last_strides(shape: Sizes) -> tuple[int, ...]:
    """Return the strides of a batch of images, or volumes, whose channels are innermost in memory.

    >>> channels_last_strides((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    strides = [0] * len(shape)
    step = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_contiguous(shape: Sizes, strides: Sizes) -> bool:
    """Whether elements are in row-major order without gaps; extents of 1 may have any stride.

    >>> is_contiguous((2, 1, 3), (3, 7, 1)), is_contiguous((2, 3), (1, 2))
    (True, False)
    """
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def suggests_channels_last(shape: Sizes, strides: Sizes) -> bool:
    """Whether torch would suggest the channels-last format for such a tensor (rank 4 or 5).

    >>> suggests_channels_last((2, 3, 4, 5), (60, 1, 15, 3)), suggests_channels_last((2, 3, 1, 1), (3, 1, 1, 1))
    (True, False)
    """
    rank = len(shape)
    if rank not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(rank - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis]
        if shape[axis] > 1:
            least *= shape[axis]
    return True


def is_dense(shape: Sizes, strides: Sizes) -> bool:
    """Whether elements fill their span without gap or overlap, in some order of the dimensions; true for an empty tensor.

    >>> is_dense((2, 3), (1, 2)), is_dense((2, 3), (6, 1)), is_dense((2, 3), (0, 1))
    (True, False, False)
    """
    if 0 in shape:
        return True
    if len(shape) == 1:
        return shape[0] < 2 or strides[0] == 1
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (shape[axis] < 2, strides[axis])):
        if shape[axis] < 2:
            return True
        if strides[axis] != step:
            return False
        step *= shape[axis]
    return True


def like_strides(shape: Sizes, strides: Sizes) -> tuple[int, ...]:
    """Return the strides of `empty_like` and `clone`: kept when the tensor is dense, otherwise in the same order without gaps.

    >>> like_strides((2, 3), (1, 2)), like_strides((2, 3), (8, 1)), like_strides((2, 3), (0, 1))
    ((1, 2), (3, 1), (3, 1))
    """
    if is_dense(shape, strides):
        return tuple(strides)
    return iterator_strides(shape, [(shape, strides)])


def iterator_strides(shape: Sizes, operands: Sequence[tuple[Sizes, Sizes]]) -> tuple[int, ...]:
    """Return the strides of an elementwise op's fresh result of this shape, from the shape and strides of each operand.

    Numbers are operands too, of shape `()`.

    >>> iterator_strides((2, 3), [((2, 3), (1, 2)), ((), ())])
    (1, 2)
    >>> iterator_strides((2, 3), [((2, 3), (3, 1)), ((2, 3), (1, 2))])
    (3, 1)
    """
    if all(tuple(sizes) == tuple(shape) for sizes, _ in operands):
        if all(is_contiguous(sizes, strides) for sizes, strides in operands):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_channels_last(sizes, strides) for sizes, strides in operands):
            return channels_last_strides(shape)
        first = tuple(operands[0][1])
        if all(tuple(strides) == first for _, strides in operands) and is_dense(shape, first):
            return first
    columns = [_expanded(shape, sizes, strides) for sizes, strides in operands]
    order = _iterator_order(shape, columns)
    if order == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_channels_last(shape: Sizes, strides: Sizes) -> bool:
    """Whether channels are innermost in memory, then columns, rows and images, without gaps; extents of 1 may have any stride.

    >>> is_channels_last((2, 3, 4, 5), (60, 1, 15, 3)), is_channels_last((2, 3, 2, 5), (60, 1, 30, 3))
    (True, False)
    """
    expected = 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] != 1:
            if strides[axis] != expected:
                return False
            expected *= shape[axis]
    return True


def _expanded(shape: Sizes, sizes: Sizes, strides: Sizes) -> list[int]:
    """Return an operand's strides over the result's dimensions, 0 where it is repeated."""
    offset = len(shape) - len(sizes)
    column = [0] * len(shape)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True), offset):
        column[axis] = 0 if size == 1 and shape[axis] != 1 else stride
    return column


def _iterator_order(shape: Sizes, columns: Sequence[Sequence[int]]) -> list[int]:
    """Return the dimensions, fastest first, by insertion sort, because "undecided" is not transitive."""

    def compare(a: int, b: int) -> int:
        for column in columns:
            if column[a] == 0 or column[b] == 0:
                continue
            if column[a] != column[b]:
                return -1 if column[a] < column[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        here = start
        for there in range(start - 1, -1, -1):
            decided = compare(order[there], order[here])
            if decided > 0:
                order[there], order[here] = order[here], order[there]
                here = there
            elif decided < 0:
                break
    return order


def view_strides(shape: Sizes, strides: Sizes, new_shape: Sizes) -> tuple[int, ...] | None:
    """Return the strides of the same memory viewed with other extents, or None when that needs a copy.

    >>> view_strides((2, 3, 4), (12, 4, 1), (6, 4)), view_strides((2, 3), (1, 2), (6,))
    ((4, 1), None)
    """
    if 0 in shape:
        return tuple(strides) if tuple(shape) == tuple(new_shape) else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    result = [0] * len(new_shape)
    target = len(new_shape) - 1
    base, old_count, new_count = strides[-1], 1, 1
    for axis in range(len(shape) - 1, -1, -1):
        old_count *= shape[axis]
        if axis == 0 or (shape[axis - 1] != 1 and strides[axis - 1] != old_count * base):
            while target >= 0 and (new_count < old_count or new_shape[target] == 1):
                result[target] = new_count * base
                new_count *= new_shape[target]
                target -= 1
            if new_count != old_count:
                return None
            if axis > 0:
                base, old_count, new_count = strides[axis - 1], 1, 1
    return tuple(result) if target == -1 else None
