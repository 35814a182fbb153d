"""The layout of a tensor in its buffer: its offset, its strides, and the memory order of its axes.

Strides count elements, the offset counts bytes from the first element of the root. Any of these numbers may be an
`Extent`: a name, or a sum of products of names, for numbers known only at run time. The order of the axes and one flag for
each follow from the strides; flags stay true when the sizes change.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Final, Literal

from irscope._base.frozen import fast_constructor
from irscope.ir import STORED_SIZE
from irscope.ops.view_steps.extents import Num, is_at_least, quotient

# Sets of bytes of one buffer: runs of equal width at evenly spaced places, along any number of directions.
#
# A set is `{start + i1*step1 + … + ik*stepk + b}` over `0 <= ij < countj` and `0 <= b < width`: the bytes of a strided tensor. It is
# kept in a normal form: steps positive and decreasing, no direction with one place, directions that fill each other's gaps
# joined. Equal sets whose directions do not overlap have the same form.
#
# **Whether two sets share a byte** is decided exactly in nearly all cases. They do if some integers solve
# `-width_a < start_b - start_a + Σ cj*sj < width_b`, where the sj are the distinct steps of both sets and each cj, the difference
# of the two places along that step, ranges over all integers between bounds. The search takes the largest step first; only those few
# of its multiples matter that the smaller steps can compensate, and none if the greatest common divisor of the
# smaller steps rules it out. These are all candidates, so "none found" is a proof that the sets are disjoint. Steps
# that are multiples of each other, as those of tensors without overlap are, leave two or three candidates each; the search gives
# up after `_MOST_TRIES`, and then nothing is claimed.
#
# **Symbolic numbers** (`SymbolicBytes`) are compared by what holds for all values of their names. Let G divide the steps of some
# directions of both sets, and let the reach of a set be the number of bytes that it spans with its other directions. If the starts are
# apart by at least the reach of the first set, and by no more than G less the reach of the second, no byte is in both: for a common byte,
# the starts plus the positions within the reaches would have to differ by a multiple of G, but this difference is more than 0 and less
# than G. Each step of the two sets is tried as G.

_MOST_TRIES: Final = 20_000


@dataclass(frozen=True, slots=True)
class ByteSet:
    """A set of bytes of a buffer, counted from its first; created by `byte_set`.

    >>> b = byte_set(16, 4, (3, 2), (20, 8))
    >>> print(b)
    4 bytes every 8, 2 times, every 20, 3 times, from byte 16
    >>> b.start, b.stop, b.size, 24 in b, 28 in b
    (16, 68, 24, True, False)
    """

    start: int
    """The first byte; 0 for an empty set."""
    width: int
    """The number of adjacent bytes at each place; 0 for an empty set."""
    counts: tuple[int, ...] = ()
    """The number of places along each direction, the direction of the largest step first; each at least 2."""
    steps: tuple[int, ...] = ()
    """The distance in bytes between places along each direction."""

    @property
    def stop(self) -> int:
        """One past the last byte."""
        return self.start + self.width + sum((n - 1) * s for n, s in zip(self.counts, self.steps, strict=True))

    @property
    def is_interval(self) -> bool:
        """Whether the bytes are adjacent without a gap; true for the empty set."""
        return not self.counts

    @property
    def is_empty(self) -> bool:
        return not self.width

    @property
    def size(self) -> int | None:
        """The number of bytes; None if places overlap, since that is not worth counting."""
        reach = self.width
        for count, step in zip(reversed(self.counts), reversed(self.steps), strict=True):
            if step < reach:
                return None
            reach += (count - 1) * step
        return self.width * prod(self.counts)

    def runs(self) -> Iterator[tuple[int, int]]:
        """The first byte of each run and one past its last; runs overlap if places do."""
        places = [self.start] if self.width else []
        for count, step in zip(self.counts, self.steps, strict=True):
            places = [place + index * step for place in places for index in range(count)]
        return ((place, place + self.width) for place in places)

    def moved(self, by: int) -> "ByteSet":
        """The same set, shifted by a number of bytes."""
        return self if not self.width else ByteSet(self.start + by, self.width, self.counts, self.steps)

    def __contains__(self, byte: object) -> bool:
        return isinstance(byte, int) and are_disjoint(self, ByteSet(byte, 1)) is False

    def __str__(self) -> str:
        if not self.width:
            return "no byte"
        if self.is_interval:
            return f"bytes {self.start}–{self.stop - 1}" if self.width > 1 else f"byte {self.start}"
        places = [f"every {s:,}, {n:,} times" for n, s in zip(reversed(self.counts), reversed(self.steps), strict=True)]
        return f"{self.width:,} bytes {', '.join(places)}, from byte {self.start:,}"


NOTHING: Final = ByteSet(0, 0)


def byte_set(start: int, width: int, counts: Iterable[int], steps: Iterable[int]) -> ByteSet:
    """The bytes of elements of this width, given their count and distance in bytes along each axis, in normal form."""
    axes: list[tuple[int, int]] = []
    for count, step in zip(counts, steps, strict=True):
        if count == 0:
            return NOTHING
        if step < 0:
            start += (count - 1) * step
            step = -step
        if count > 1 and step:
            axes.append((step, count))
    return _normal(start, width, axes) if width else NOTHING


def _normal(start: int, width: int, axes: list[tuple[int, int]]) -> ByteSet:
    axes.sort()
    joined: list[tuple[int, int]] = []
    for step, count in axes:
        if not joined and step <= width:  # runs that touch or overlap are one run
            width += (count - 1) * step
        elif joined and step % joined[-1][0] == 0 and step <= joined[-1][0] * joined[-1][1]:
            below, places = joined[-1]  # the places of the larger step continue those of the smaller one
            joined[-1] = below, places + (count - 1) * (step // below)
        else:
            joined.append((step, count))
    return ByteSet(start, width, tuple(n for _, n in reversed(joined)), tuple(s for s, _ in reversed(joined)))


def are_disjoint(a: ByteSet, b: ByteSet) -> bool | None:
    """Whether two sets of bytes of one buffer are disjoint; None if the search would take too long.

    >>> left, right = byte_set(0, 4, (5, 3), (40, 4)), byte_set(12, 4, (5, 7), (40, 4))
    >>> are_disjoint(left, right), are_disjoint(left, right.moved(-4)), are_disjoint(left, NOTHING)
    (True, False, True)
    """
    if not a.width or not b.width or a.stop <= b.start or b.stop <= a.start:
        return True
    if a.is_interval and b.is_interval:
        return False
    bounds: dict[int, tuple[int, int]] = {}
    for count, step in zip(a.counts, a.steps, strict=True):
        low, high = bounds.get(step, (0, 0))
        bounds[step] = low - (count - 1), high
    for count, step in zip(b.counts, b.steps, strict=True):
        low, high = bounds.get(step, (0, 0))
        bounds[step] = low, high + count - 1
    steps = sorted(bounds, reverse=True)
    return _has_no_solution(b.start - a.start, a.width, b.width, steps, [bounds[step] for step in steps])


def bytes_covered(sets: Iterable[ByteSet]) -> int | None:
    """The number of bytes that are in at least one of several sets; None if there are too many runs to count.

    >>> bytes_covered([byte_set(0, 4, (5, 3), (40, 4)), byte_set(8, 4, (5, 3), (40, 4))])
    100
    """
    kept, times = [each for each in sets if each.width], 1
    while kept and kept[0].counts and len({(each.counts[:1], each.steps[:1]) for each in kept}) == 1:
        inner = [ByteSet(each.start, each.width, each.counts[1:], each.steps[1:]) for each in kept]
        if max(each.stop for each in inner) - min(each.start for each in inner) > kept[0].steps[0]:
            break
        kept, times = inner, times * kept[0].counts[0]  # the same in each place of the largest step
    if sum(prod(each.counts) for each in kept) > _MOST_TRIES:
        return None
    total, end = 0, min((each.start for each in kept), default=0)
    for start, stop in sorted(run for each in kept for run in each.runs()):
        total, end = total + max(stop - max(start, end), 0), max(stop, end)
    return times * total


def _has_no_solution(distance: int, width_a: int, width_b: int, steps: Sequence[int], bounds: Sequence[tuple[int, int]]) -> bool | None:
    """Whether no `distance + Σ c*step` lies strictly between `-width_b` and `width_a`."""
    depth = len(steps)
    low, high, common = [0] * (depth + 1), [0] * (depth + 1), [0] * (depth + 1)
    for index in range(depth - 1, -1, -1):  # the range of sums of the steps from here on
        low[index] = low[index + 1] + bounds[index][0] * steps[index]
        high[index] = high[index + 1] + bounds[index][1] * steps[index]
        common[index] = gcd(common[index + 1], steps[index])
    least, most = 1 - width_b, width_a - 1
    tries, stack = 0, [(0, distance)]
    while stack:
        index, here = stack.pop()
        if index == depth:
            if least <= here <= most:
                return False
            continue
        if (most - here) // common[index] < -((here - least) // common[index]):  # no multiple of it leads between the bounds
            continue
        step = steps[index]
        first = max(bounds[index][0], -((here + high[index + 1] - least) // step))
        last = min(bounds[index][1], (most - here - low[index + 1]) // step)
        tries += max(last - first + 1, 0)
        if tries > _MOST_TRIES:
            return None
        stack.extend((index + 1, here + c * step) for c in range(first, last + 1))
    return True


@dataclass(frozen=True, slots=True)
class SymbolicBytes:
    """A set of bytes with symbolic numbers, created by `symbolic_bytes`; the fields are as in `ByteSet`."""

    start: Num
    width: Num
    counts: tuple[Num, ...]
    """The number of places along each direction, the slowest axis first; if one is 0, the set is empty."""
    steps: tuple[Num, ...]

    def __str__(self) -> str:
        places = [f"every {step}, {count} times" for count, step in zip(reversed(self.counts), reversed(self.steps), strict=True)]
        return f"{self.width} bytes{' ' * bool(places)}{', '.join(places)}, from byte {self.start}"


def symbolic_bytes(start: Num, width: Num, axes: Iterable[tuple[Num, Num]]) -> SymbolicBytes:
    """The bytes of elements of this width, given their count and distance in bytes along each axis, the slowest first."""
    joined: list[tuple[Num, Num]] = []
    for count, step in reversed(list(axes)):
        if count == 1 or step == 0:
            continue
        if not joined and step == width:
            width = width * count
        elif joined and step == joined[-1][0] * joined[-1][1]:
            joined[-1] = joined[-1][0], joined[-1][1] * count
        else:
            joined.append((step, count))
    return SymbolicBytes(start, width, tuple(n for _, n in reversed(joined)), tuple(s for s, _ in reversed(joined)))


def are_apart(a: ByteSet | SymbolicBytes, b: ByteSet | SymbolicBytes) -> bool:
    """Whether two sets of bytes of one buffer are provably disjoint for all values of their symbolic numbers.

    >>> from irscope.ops.view_steps import Extent
    >>> n, c = Extent.of("n"), Extent.of("c")
    >>> left, right = (symbolic_bytes(c * 4 * half, 4, [(n, c * 8), (c, 4)]) for half in (0, 1))
    >>> are_apart(left, right), are_apart(left, left), are_apart(left, byte_set(0, 4, (), ()))
    (True, False, False)
    """
    if 0 in (a.width, b.width):
        return True
    return any(_fit_beside(a, b, by) or _fit_beside(b, a, by) for by in (None, *dict.fromkeys((*a.steps, *b.steps))))


def _fit_beside(a: ByteSet | SymbolicBytes, b: ByteSet | SymbolicBytes, by: Num | None) -> bool:
    """Whether the second set begins after the first ends, and ends before the first repeats, `by` bytes on."""
    reaches: list[Num] = []
    for each in (a, b):
        rest = [(n, step) for n, step in zip(each.counts, each.steps, strict=True) if by is None or quotient(step, by) is None]
        if not all(is_at_least(step, 0) for _, step in rest):
            return False
        reaches.append(each.width + sum((count - 1) * step for count, step in rest))
    apart = b.start - a.start
    return is_at_least(apart, reaches[0]) and (by is None or is_at_least(by, apart + reaches[1]))


Flag = Literal["contiguous", "gap", "broadcast", "expanded"]
"""contiguous: the next index along the axis is just past everything that the axes after it cover. gap: it may be further
away. broadcast: the axis has one index. expanded: all its indices are the same elements."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a tensor's elements in the buffer of its root."""

    shape: tuple[Num, ...]
    """Extents, outermost first."""
    strides: tuple[Num, ...] | None
    """Steps in elements, one per axis; None if they are not known."""
    offset: Num | None
    """Bytes from the root's first element to this tensor's; None if that is not known."""
    dtype: str | None

    @property
    def item_size(self) -> int | None:
        """The bytes of an element; None for an unknown type, or one whose elements have no addresses."""
        return STORED_SIZE.get(self.dtype or "")

    @property
    def is_known(self) -> bool:
        """Whether every number is known before the run."""
        numbers = (self.offset, *self.shape, *(self.strides if self.strides is not None else (None,)))
        return all(isinstance(number, int) for number in numbers)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes in memory order, the slowest first; axes of one index, and expanded ones, keep their positions."""
        return _order(self.shape, self.strides) if self.strides is not None else tuple(range(len(self.shape)))

    @property
    def flags(self) -> tuple[Flag, ...]:
        """One flag for each axis, in memory order, which stays true when the numbers change.

        >>> Layout((2, 3, 4), (15, 5, 1), 0, None).flags, Layout((4, 5, 6), (5, 1, 0), 0, None).flags
        (('contiguous', 'gap', 'contiguous'), ('contiguous', 'contiguous', 'expanded'))
        """
        if self.strides is None:
            return ()
        flags: list[Flag] = []
        past: Num = 1
        for axis in reversed(self.order):
            if self.shape[axis] == 1:
                flags.append("broadcast")
            elif self.strides[axis] == 0:
                flags.append("expanded")
            else:
                flags.append("contiguous" if self.strides[axis] == past else "gap")
                past = self.strides[axis] * self.shape[axis]
        return tuple(reversed(flags))

    @property
    def contiguity(self) -> tuple[bool | None, ...]:
        """The flags as nvFuser has them, in memory order: True, False, and None for broadcast and expanded axes."""
        return tuple({"contiguous": True, "gap": False}.get(flag) for flag in self.flags)

    @property
    def bytes(self) -> ByteSet | None:
        """The bytes of the root that its elements cover; None if they are known only at run time."""
        if 0 in self.shape:
            return byte_set(0, 0, (), ())
        shape, strides, offset, item = _whole(self.shape), _whole(self.strides or ()), self.offset, self.item_size
        if shape is None or strides is None or len(strides) != len(shape) or not isinstance(offset, int) or item is None:
            return None
        return byte_set(offset, item, shape, [step * item for step in strides])

    @property
    def symbolic_bytes(self) -> SymbolicBytes | None:
        """The same with symbolic numbers; None if the strides or the offset are not known at all."""
        item, strides, offset = self.item_size, self.strides, self.offset
        if strides is None or offset is None or item is None or len(strides) != len(self.shape):
            return None
        return symbolic_bytes(offset, item, [(self.shape[axis], strides[axis] * item) for axis in self.order])

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "one element"
        if self.strides is None:
            return f"{shape}, strides not known"
        parts = [shape, f"strides ({', '.join(map(str, self.strides))})"] if self.shape else [shape]
        if self.order != tuple(range(len(self.shape))):
            parts.append(f"axes in memory order {' '.join(map(str, self.order))}")
        if self.offset != 0:
            parts.append("offset not known" if self.offset is None else f"from byte {self.offset}")
        return ", ".join(parts)


make_layout = fast_constructor(Layout)


def _whole(numbers: Sequence[Num]) -> tuple[int, ...] | None:
    return tuple(n for n in numbers if isinstance(n, int)) if all(isinstance(n, int) for n in numbers) else None


def is_still(size: Num, stride: Num) -> bool:
    """Whether an axis has no step: it has one index, or all its indices are the same elements."""
    return size == 1 or stride == 0


def _order(shape: Sequence[Num], strides: Sequence[Num]) -> tuple[int, ...]:
    moving = [axis for axis in range(len(shape)) if not is_still(shape[axis], strides[axis])]
    for end in range(1, len(moving)):  # insertion sort: it may not be known which of two symbolic steps is larger
        here = end
        while here:
            slower, faster = strides[moving[here]], strides[moving[here - 1]]
            if slower == faster or not is_at_least(slower, faster, lambda name: 1):  # if an extent were 0, every order would be right
                break
            moving[here - 1], moving[here] = moving[here], moving[here - 1]
            here -= 1
    rest = iter(moving)
    return tuple(axis if is_still(shape[axis], strides[axis]) else next(rest) for axis in range(len(shape)))
