"""Applies each step of a view to a layout, exactly as torch 2.13 does, and decides when the step needs a copy.

A step of known numbers has one of two outcomes, the layout of the view or a copy. With symbolic numbers there is a
third: it depends on the run (`Undecided`). A view is claimed only if the sums of products that must be equal *are* the same
sum, so that it is a view for all sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from irscope.ir import STORED_SIZE
from irscope.ops.type_rules import (
    channels_last_strides,
    contiguous_strides,
    is_channels_last,
    is_contiguous,
    lies_in_order,
    suggests_channels_last,
    view_strides,
)
from irscope.ops.view_steps.extents import Extent, Num, is_at_least, product, quotient
from irscope.ops.view_steps.layout import Layout, make_layout
from irscope.ops.view_steps.steps import (
    Cut,
    Dense,
    Diagonal,
    Drop,
    Expand,
    Insert,
    Joined,
    Paired,
    Permute,
    Pick,
    Place,
    Regroup,
    Retyped,
    Step,
    Window,
)

ANY_STRIDE: Final = Extent.of("~any")
"""The stride of an axis of one index if torch's rule for it depends on unknown numbers."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The step copies into memory of its own, with this layout."""

    layout: Layout


@dataclass(frozen=True, slots=True)
class Undecided:
    """Whether the step copies depends on numbers that are known only at run time."""

    layout: Layout
    """The layout that the result has either way, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The step is invalid for the layout."""

    because: str


Outcome = Layout | Copied | Undecided | Failed


def apply(step: Step, layout: Layout, base: Num | None) -> Outcome:
    """The layout after one step; `base` is the offset of the root's first element in its storage, in bytes.

    >>> apply(Regroup((6,), True), Layout((2, 3), (1, 2), 0, "float32"), 0)
    Copied(layout=Layout(shape=(6,), strides=(1,), offset=0, dtype='float32'))
    """
    return _APPLY[step.__class__](step, layout, base)


def row_major(shape: Sequence[Num]) -> tuple[Num, ...]:
    """The strides of a tensor laid out row by row; its extents may be symbolic.

    >>> row_major((Extent.of("n"), 3, Extent.of("m")))
    (3*m, m, 1)
    """
    if all(isinstance(size, int) for size in shape):
        return contiguous_strides(shape)  # type: ignore[arg-type]
    strides: list[Num] = []
    step: Num = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (max(size, 1) if isinstance(size, int) else size)
    return tuple(reversed(strides))


def _is_whole(*numbers: Num | None) -> bool:
    return all([number.__class__ is int for number in numbers])  # noqa: C419 a list is faster


def _further(layout: Layout, elements: Num | None) -> Num | None:
    """The offset after a number of elements."""
    if elements is None or layout.offset is None or layout.item_size is None:
        return layout.offset if elements == 0 else None
    return layout.offset + elements * layout.item_size


def _permute(step: Permute, layout: Layout, base: Num | None) -> Outcome:
    shape, strides = layout.shape, layout.strides
    moved = None if strides is None else tuple([strides[axis] for axis in step.axes])
    return make_layout(tuple([shape[axis] for axis in step.axes]), moved, layout.offset, layout.dtype)


def _insert(step: Insert, layout: Layout, base: Num | None) -> Outcome:
    shape, strides, axis = layout.shape, layout.strides, step.axis
    if strides is not None:
        new = shape[axis] * strides[axis] if axis < len(shape) else 1
        strides = (*strides[:axis], new, *strides[axis:])
    return make_layout((*shape[:axis], 1, *shape[axis:]), strides, layout.offset, layout.dtype)


def _drop(step: Drop, layout: Layout, base: Num | None) -> Outcome:
    kept = [axis for axis in range(len(layout.shape)) if axis not in step.axes]
    strides = layout.strides
    left = None if strides is None else tuple([strides[axis] for axis in kept])
    return make_layout(tuple([layout.shape[axis] for axis in kept]), left, layout.offset, layout.dtype)


def _pick(step: Pick, layout: Layout, base: Num | None) -> Outcome:
    shape, strides, axis = layout.shape, layout.strides, step.axis
    if _is_whole(shape[axis], step.place) and not 0 <= step.place < shape[axis]:  # type: ignore[operator]
        return Failed(f"index {step.place} is outside axis {axis} of extent {shape[axis]}")
    by = None if strides is None or step.place is None else step.place * strides[axis]
    by = 0 if strides is not None and strides[axis] == 0 else by
    rest = None if strides is None else strides[:axis] + strides[axis + 1 :]
    return make_layout(shape[:axis] + shape[axis + 1 :], rest, _further(layout, by), layout.dtype)


def _cut(step: Cut, layout: Layout, base: Num | None) -> Outcome:
    shape, strides, axis = layout.shape, layout.strides, step.axis
    if _is_whole(shape[axis], step.length, step.start) and not _is_within(step, shape[axis]):
        return Failed(f"{step.length} indices from {step.start} are not within axis {axis} of extent {shape[axis]}")
    by: Num | None = 0
    if strides is None:
        by = 0 if step.start == 0 else None
    else:
        if strides[axis] != 0:
            by = None if step.start is None else step.start * strides[axis]
        if step.step != 1:
            strides = (*strides[:axis], strides[axis] * step.step, *strides[axis + 1 :])
    if strides is not None and step.length in (0, 1) and not _is_whole(shape[axis]):  # the axis may have any stride
        strides = (*strides[:axis], ANY_STRIDE, *strides[axis + 1 :])
    cut = (*shape[:axis], step.length, *shape[axis + 1 :])
    return make_layout(cut, strides, _further(layout, by), layout.dtype)


def _is_within(step: Any, extent: Any) -> bool:
    within: bool = step.start + (step.length - 1) * step.step < extent if step.length else step.start <= extent
    return within and step.start >= 0 and step.length >= 0


def _expand(step: Expand, layout: Layout, base: Num | None) -> Outcome:
    shape, target = layout.shape, step.shape
    new = len(target) - len(shape)
    if not all(old == 1 or old == size or not _is_whole(old, size) for old, size in zip(shape, target[new:], strict=True)):
        return Failed("only an axis of extent 1 can grow")
    if layout.strides is None:
        return make_layout(target, None, layout.offset, layout.dtype)
    if not shape:
        return make_layout(target, (0,) * new, layout.offset, layout.dtype)
    strides: list[Num] = [0] * len(target)
    for axis in range(len(target) - 1, -1, -1):
        old = axis - new
        before = shape[old] if old >= 0 else 1
        step_here = layout.strides[old] if old >= 0 else target[axis + 1] * strides[axis + 1]
        if before == target[axis]:
            strides[axis] = step_here
        elif before != 1:  # an extent known only at run time: it may be 1, and repeat
            return make_layout(target, None, layout.offset, layout.dtype)
    return make_layout(target, tuple(strides), layout.offset, layout.dtype)


def _regroup(step: Regroup, layout: Layout, base: Num | None) -> Outcome:
    shape, strides, target = layout.shape, layout.strides, step.shape
    if _is_whole(*shape, *target) and product(shape) != product(target):
        return Failed(f"{product(shape)} elements cannot be seen as {'×'.join(map(str, target))}")
    if strides is not None and _is_whole(*shape, *target, *strides):
        found: tuple[Num, ...] | None = view_strides(shape, strides, target)  # type: ignore[arg-type]
        if found is not None:
            return make_layout(target, found, layout.offset, layout.dtype)
        if not step.may_copy:
            return Failed("its strides do not allow the view")
        return Copied(Layout(target, row_major(target), 0, layout.dtype))
    if shape == target:
        return make_layout(shape, None if strides is None else loose(shape, strides), layout.offset, layout.dtype)
    if 0 in shape or 0 in target:  # a tensor without elements keeps its strides if it keeps its shape
        lies = row_major(target) if _is_whole(*shape, *target) else (ANY_STRIDE,) * len(target)
        return make_layout(target, lies, layout.offset, layout.dtype)
    found = None if strides is None else regrouped(shape, strides, target)
    if found is not None or not step.may_copy:  # a view that runs at all is one
        return make_layout(target, found, layout.offset, layout.dtype)
    return Undecided(Layout(target, None, None, layout.dtype))


def regrouped(shape: Sequence[Num], strides: Sequence[Num], target: Sequence[Num]) -> tuple[Num, ...] | None:
    """The strides of the same elements under other extents if that is a view for all values of the names; None otherwise.

    Old and new axes are divided into groups with equal numbers of elements (`groups_of`). The old axes of a group must follow
    each other without a gap, which they do if each stride is the extent times the stride of the next.

    >>> n = Extent.of("n")
    >>> regrouped((n, 12, 64), (768, 64, 1), (n, 768)), regrouped((n, 64, 12), (768, 1, 64), (n, 768))
    ((768, 1), None)
    >>> regrouped((n * 6, 5), (5, 1), (n, 3, 2, 5)), regrouped((n,), (1,), (n, 1))
    ((30, 10, 5, 1), (1, ~any))
    """
    result: list[Num] = [0] * len(target)
    for old, new in groups_of(shape, target):
        if any(gap_between(shape, strides, outer, inner) for outer, inner in pairwise(old)):
            return None
        past = strides[old[-1]] if old else 1
        for axis in reversed(new):
            result[axis] = past
            past = past * target[axis]
    return loose(target, result)


def loose(shape: Sequence[Num], strides: Sequence[Num]) -> tuple[Num, ...]:
    """These strides, except for axes of extent 1, which may have any."""
    return tuple([ANY_STRIDE if size == 1 else stride for size, stride in zip(shape, strides, strict=True)])


def gap_between(shape: Sequence[Num], strides: Sequence[Num], outer: int, inner: int) -> bool:
    """Whether the stride of the outer axis may differ from the span of the inner one."""
    return strides[outer] != strides[inner] * shape[inner]


def groups_of(shape: Sequence[Num], target: Sequence[Num]) -> list[tuple[list[int], list[int]]]:
    """Groups of old and new axes with the same elements, as small as can be determined; axes of extent 1 are in none.

    Both shapes are assumed to have the same number of elements, since regrouping fails otherwise. So the axes that remain
    between those matched from the front and from the back match too.

    >>> groups_of((6, 4, 5), (3, 8, 5)), groups_of((2, 1, 3), (1, 6))
    ([([0, 1], [0, 1]), ([2], [2])], [([0, 2], [1])])
    """
    old = [axis for axis in range(len(shape)) if shape[axis] != 1]
    new = [axis for axis in range(len(target)) if target[axis] != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while old and new and shape[old[0]] == target[new[0]]:
        groups.append(([old.pop(0)], [new.pop(0)]))
    back: list[tuple[list[int], list[int]]] = []
    while old or new:
        size = _group_size(shape, target, old, new)
        if size is None:
            back.append((old, new))
            break
        back.append((old[-size[0] :], new[-size[1] :]))
        del old[-size[0] :], new[-size[1] :]
    return groups + back[::-1]


def _group_size(shape: Sequence[Num], target: Sequence[Num], old: list[int], new: list[int]) -> tuple[int, int] | None:
    """The numbers of last old and new axes that form the smallest group; None if the sizes cannot be compared."""
    if not old or not new:
        return None
    have, want, a, b = shape[old[-1]], target[new[-1]], 1, 1
    while have != want:
        if b < len(new) and quotient(have, want * target[new[-b - 1]]) is not None:
            b += 1
            want = want * target[new[-b]]
        elif a < len(old) and (is_at_least(want, have) or quotient(have, want) is None or b == len(new)):
            a += 1
            have = have * shape[old[-a]]
        elif b < len(new):
            b += 1
            want = want * target[new[-b]]
        else:
            return None
    return a, b


def _diagonal(step: Diagonal, layout: Layout, base: Num | None) -> Outcome:
    shape, strides = layout.shape, layout.strides
    kept = [axis for axis in range(len(shape)) if axis not in (step.rows, step.columns)]
    sizes = (*[shape[axis] for axis in kept], step.length)
    if strides is None:
        return make_layout(sizes, None, layout.offset if step.offset == 0 else None, layout.dtype)
    along = strides[step.rows] + strides[step.columns]
    by = step.offset * strides[step.columns] if step.offset >= 0 else -step.offset * strides[step.rows]
    by = 0 if step.length == 0 else by
    return make_layout(sizes, (*[strides[axis] for axis in kept], along), _further(layout, by), layout.dtype)


def _window(step: Window, layout: Layout, base: Num | None) -> Outcome:
    shape, strides, axis = layout.shape, layout.strides, step.axis
    if isinstance(step.windows, int) and step.windows < 1:
        return Failed(f"windows of {step.size} do not fit axis {axis} of extent {shape[axis]}")
    sizes = (*shape[:axis], step.windows, *shape[axis + 1 :], step.size)
    if strides is not None:
        strides = (*strides[:axis], strides[axis] * step.step, *strides[axis + 1 :], strides[axis])
    return make_layout(sizes, strides, layout.offset, layout.dtype)


def _place(step: Place, layout: Layout, base: Num | None) -> Outcome:
    offset = layout.offset
    if step.offset is not None:
        item = layout.item_size
        offset = None if item is None or base is None else step.offset * item - base
    return make_layout(step.shape, step.strides, offset, layout.dtype)


def _retyped(step: Retyped, layout: Layout, base: Num | None) -> Outcome:
    """`view` with an element type (aten/src/ATen/native/TensorConversions.cpp)."""
    old, new = layout.item_size, STORED_SIZE.get(step.dtype)
    shape, strides = layout.shape, layout.strides
    if old is None or new is None:
        return Failed(f"elements of type {layout.dtype} cannot be seen as {step.dtype}: one of them has no size in bytes")
    if old == new:
        return make_layout(shape, strides, layout.offset, step.dtype)
    if not shape:
        return Failed("a tensor without axes can only be seen as a type of the same size")
    if strides is not None and strides[-1] != 1 and _is_whole(strides[-1]):
        return Failed("the last axis has a stride other than 1")
    if old > new:
        ratio = old // new
        wider = None if strides is None else (*[stride * ratio for stride in strides[:-1]], 1)
        return make_layout((*shape[:-1], shape[-1] * ratio), wider, layout.offset, step.dtype)
    return _of_larger_elements(layout, step.dtype, new // old)


def _of_larger_elements(layout: Layout, dtype: str, ratio: int) -> Outcome:
    last = quotient(layout.shape[-1], ratio)
    if last is None:
        if _is_whole(layout.shape[-1]):
            return Failed(f"the last extent is not a multiple of {ratio}")
        last = Extent.of(f"({layout.shape[-1]})/({ratio})")
    shape = (*layout.shape[:-1], last)
    if layout.strides is None:
        return make_layout(shape, None, layout.offset, dtype)
    outer = _divided(shape[:-1], layout.strides[:-1], ratio)
    if outer is None:
        if _is_whole(*layout.strides):
            return Failed(f"a stride is not a multiple of {ratio}")
        return make_layout(shape, None, layout.offset, dtype)
    return make_layout(shape, (*outer, 1), layout.offset, dtype)


def _divided(shape: Sequence[Num], strides: Sequence[Num], by: int) -> tuple[Num, ...] | None:
    """The strides counted in elements `by` times larger; None if one is not known to be a multiple."""
    result: list[Num] = []
    for size, stride in zip(shape, strides, strict=True):
        whole = ANY_STRIDE if size == 1 and not _is_whole(stride) else quotient(stride, by)
        if whole is None:
            return None
        result.append(whole)
    return tuple(result)


def _paired(step: Paired, layout: Layout, base: Num | None) -> Outcome:
    strides = None if layout.strides is None else tuple([stride * 2 for stride in layout.strides])
    if step.part is None:
        return make_layout((*layout.shape, 2), None if strides is None else (*strides, 1), layout.offset, step.dtype)
    seen = make_layout(layout.shape, strides, layout.offset, step.dtype)
    return make_layout(layout.shape, strides, _further(seen, step.part), step.dtype)


def _joined(step: Joined, layout: Layout, base: Num | None) -> Outcome:
    shape, strides = layout.shape, layout.strides
    if not shape or (shape[-1] != 2 and _is_whole(shape[-1])):
        return Failed("the last axis must have extent 2 to form complex numbers")
    if strides is None:
        return make_layout(shape[:-1], None, layout.offset, step.dtype)
    if _is_whole(*shape, *strides):
        if strides[-1] != 1 or any(size != 1 and stride % 2 for size, stride in zip(shape, strides[:-1], strict=False)):  # type: ignore[operator]
            return Failed("pairs must lie side by side, at even places")
        return make_layout(shape[:-1], tuple([stride // 2 for stride in strides[:-1]]), layout.offset, step.dtype)  # type: ignore[operator]
    return make_layout(shape[:-1], _divided(shape[:-1], strides[:-1], 2), layout.offset, step.dtype)


def _dense(step: Dense, layout: Layout, base: Num | None) -> Outcome:
    shape, strides = layout.shape, layout.strides
    is_last = step.memory_format in (2, 3)
    if is_last and len(shape) != step.memory_format + 2:
        return Failed(f"memory format {step.memory_format} is for tensors of {step.memory_format + 2} axes")
    if strides is None or not _is_whole(*shape, *strides):
        return _dense_by_names(step, layout)
    if step.suggested:
        lies_so = suggests_channels_last(shape, strides) == is_last  # type: ignore[arg-type]
    else:
        lies_so = (is_channels_last if is_last else is_contiguous)(shape, strides)  # type: ignore[arg-type]
    if lies_so:
        return layout
    wanted = channels_last_strides(shape) if is_last else contiguous_strides(shape)  # type: ignore[arg-type]
    return Copied(Layout(shape, wanted, 0, layout.dtype))


def memory_order(memory_format: int, rank: int) -> tuple[int, ...]:
    """The axes of a tensor of this memory format, the slowest first.

    >>> memory_order(0, 4), memory_order(2, 4)
    ((0, 1, 2, 3), (0, 2, 3, 1))
    """
    return (0, *range(2, rank), 1) if memory_format in (2, 3) else tuple(range(rank))


def _dense_by_names(step: Dense, layout: Layout) -> Outcome:
    shape, strides = layout.shape, layout.strides
    order = memory_order(step.memory_format, len(shape))
    if 0 in shape:  # a tensor without elements is row by row whatever its strides
        return layout if step.memory_format == 0 and not step.suggested else Undecided(Layout(shape, None, None, layout.dtype))
    if strides is not None and not step.suggested and lies_in_order(shape, strides, order):
        return layout
    wanted = row_major([shape[axis] for axis in order])
    result = loose(shape, [wanted[order.index(axis)] for axis in range(len(shape))])
    return Undecided(Layout(shape, None if step.suggested else result, None, layout.dtype))


_APPLY: Final[dict[type, Callable[[Any, Layout, Num | None], Outcome]]] = {
    Permute: _permute, Insert: _insert, Drop: _drop, Pick: _pick, Cut: _cut, Expand: _expand, Regroup: _regroup,
    Diagonal: _diagonal, Window: _window, Place: _place, Retyped: _retyped, Paired: _paired, Joined: _joined, Dense: _dense,
}  # fmt: skip
