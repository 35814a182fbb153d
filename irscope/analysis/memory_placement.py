"""Places memories with known live ranges, so that those live at the same moment have no byte in common.

Places are in blocks: the arenas, and the memories of results, which are blocks of their own (the caller keeps only
these) and may hold other memories before the result is created.

**Best fit.** Placement in the least space is NP-hard (dynamic storage allocation). Several heuristics are tried,
and the best result is kept. *By size*: the largest first, each into the smallest gap between buffers that are already placed and
live at the same time (greedy by size, as TensorFlow Lite plans), or the largest product of size and live range first;
quadratic, because each buffer is compared with all placed ones. *In order of time*, forwards and backwards: a new buffer takes
the smallest free gap that is large enough, and frees it at its end, n log n. Above `_MOST_BY_SIZE` buffers only
the last is tried, forwards.

The sum of the bytes live at one moment is a lower bound of any placement. A placement that reaches it is optimal.

**Arenas.** If no placed buffer is live at some moment, one arena ends there and the next may begin: each is
allocated at its first use, and freed after its last.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

from irscope.analysis.live_ranges import Buffer

ALIGNMENT: Final = 64
"""Bytes: every place begins at a multiple, as kernels require."""
_MOST_BY_SIZE: Final = 4096
_MOST_RESULTS: Final = 8
"""The number of results, the largest ones, whose memory may hold other buffers."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Memory allocated in one piece."""

    index: int
    bytes: int
    birth: int
    """The first moment at which a buffer in it is live."""
    death: int
    """The last such moment."""
    result: Buffer | None = None
    """The result whose memory this is; None for an arena."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The place of a buffer in a block."""

    buffer: Buffer
    block: Block
    offset: int
    """Bytes from the beginning of the block."""

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.buffer.bytes


def aligned(size: int) -> int:
    """The next multiple of the alignment.

    >>> aligned(1), aligned(64)
    (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def live_sums(lives: Iterable[tuple[int, int, int]], moments: int) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """For each moment, the total bytes of all live (bytes, birth, death); sums beyond 64 bits are exact."""
    known = list(lives)
    is_countable = sum(size for size, _, _ in known) < 1 << 63
    change = np.zeros(moments + 2, np.int64 if is_countable else object)
    for size, birth, death in known:
        change[birth] += size
        change[death + 1] -= size
    sums: np.ndarray[tuple[int], np.dtype[Any]] = np.cumsum(change)[:moments]
    return sums


def placed(buffers: Sequence[Buffer], results: Sequence[Buffer]) -> tuple[list[Place], list[Block]]:
    """Place the buffers in arenas and in the memory of results, and each result at the beginning of its own block.

    Several placements are tried, with and without buffers in the memory of results; the one with the smallest peak is kept.
    """
    best = _blocks(_in_arenas(buffers), results)
    hosts = sorted(results, key=lambda result: result.bytes, reverse=True)[:_MOST_RESULTS]
    first = max((host.birth for host in hosts), default=0)
    if len(buffers) > _MOST_BY_SIZE or not any(buffer.death < first for buffer in buffers):
        return best
    for order in (_by_falling_size, _by_falling_area, _by_time):
        for hosts_first in (True, False):
            guests, rest = _in_results(sorted(buffers, key=order), hosts, hosts_first=hosts_first)
            if guests:
                best = min(best, _blocks(_in_arenas(rest), results, guests), key=lambda found: height_of(found[1]))
    return best


def _by_falling_size(buffer: Buffer) -> tuple[int, ...]:
    return -buffer.bytes, buffer.birth - buffer.death, buffer.birth


def _by_falling_area(buffer: Buffer) -> tuple[int, ...]:
    return -buffer.bytes * (buffer.death - buffer.birth + 1), buffer.birth


def _by_time(buffer: Buffer) -> tuple[int, ...]:
    return buffer.birth, -buffer.bytes


def height_of(blocks: Iterable[Block]) -> int:
    """The most bytes of blocks allocated at one moment."""
    found = list(blocks)
    end = max((block.death for block in found), default=0) + 1
    sums = live_sums([(block.bytes, block.birth, block.death) for block in found], end)
    return int(sums.max(initial=0))


Offsets = dict[Buffer, int]


def _blocks(
    arenas: Sequence[Offsets], results: Sequence[Buffer], guests: Sequence[tuple[Buffer, Buffer, int]] = ()
) -> tuple[list[Place], list[Block]]:
    places: list[Place] = []
    blocks: list[Block] = []
    for arena in arenas:
        size = max(offset + aligned(buffer.bytes) for buffer, offset in arena.items())
        birth, death = min(buffer.birth for buffer in arena), max(buffer.death for buffer in arena)
        blocks.append(Block(len(blocks), size, birth, death))
        places += [Place(buffer, blocks[-1], offset) for buffer, offset in arena.items()]
    first: dict[Buffer, int] = {}
    for guest, host, _ in guests:
        first[host] = min(guest.birth, first.get(host, guest.birth))
    own: dict[Buffer, Block] = {}
    for result in results:
        birth = first.get(result, result.birth)
        own[result] = Block(len(blocks), aligned(result.bytes), birth, result.death, result)
        blocks.append(own[result])
        places.append(Place(result, own[result], 0))
    places += [Place(guest, own[host], offset) for guest, host, offset in guests]
    return places, blocks


def _in_arenas(buffers: Sequence[Buffer]) -> list[Offsets]:
    """One arena for each period of time in which some buffer is live."""
    found: list[Offsets] = []
    here: list[Buffer] = []
    until = -1
    for buffer in sorted(buffers, key=lambda buffer: buffer.birth):
        if here and buffer.birth > until:
            found.append(stacked(here))
            here = []
        here.append(buffer)
        until = max(until, buffer.death)
    return [*found, stacked(here)] if here else found


def stacked(buffers: Sequence[Buffer]) -> Offsets:
    """The offset of each buffer in one arena, by the heuristic that needs the least space."""
    if not buffers:
        return {}
    end = max(buffer.death for buffer in buffers) + 1
    bound = int(live_sums([(aligned(b.bytes), b.birth, b.death) for b in buffers], end).max())
    best: Offsets | None = None
    least = 0
    for found in _stackings(buffers):
        size = max(offset + aligned(buffer.bytes) for buffer, offset in found.items())
        if best is None or size < least:
            best, least = found, size
        if least == bound:
            break
    assert best is not None
    return best


def _stackings(buffers: Sequence[Buffer]) -> Iterator[Offsets]:
    """What each heuristic finds, the quickest first."""
    yield _swept([(buffer.birth, buffer.death, buffer) for buffer in buffers])
    if len(buffers) <= _MOST_BY_SIZE:
        yield _swept([(-buffer.death, -buffer.birth, buffer) for buffer in buffers])
        yield _greedy(sorted(buffers, key=_by_falling_size))
        yield _greedy(sorted(buffers, key=_by_falling_area))


def _greedy(buffers: Sequence[Buffer]) -> Offsets:
    space = _Space(len(buffers))
    return {buffer: space.take(buffer, None) or 0 for buffer in buffers}


def _in_results(
    buffers: Sequence[Buffer], hosts: Sequence[Buffer], *, hosts_first: bool
) -> tuple[list[tuple[Buffer, Buffer, int]], list[Buffer]]:
    """The buffers placed in the memory of a result, with that result and the offset, and the buffers left for arenas: those
    that fit into no result, or, if arenas come first, that fit into a gap of an arena."""
    spaces = [(host, _Space(len(buffers))) for host in hosts]
    arena = _Space(len(buffers))
    guests: list[tuple[Buffer, Buffer, int]] = []
    rest: list[Buffer] = []
    for buffer in buffers:
        if not hosts_first and arena.take(buffer, arena.height) is not None:
            rest.append(buffer)
            continue
        for host, space in spaces:
            offset = space.take(buffer, host.bytes) if buffer.death < host.birth else None
            if offset is not None:
                guests.append((buffer, host, offset))
                break
        else:
            arena.take(buffer, None)
            rest.append(buffer)
    return guests, rest


class _Space:
    """One range of addresses, and the buffers placed in it so far."""

    def __init__(self, most: int) -> None:
        self._births, self._deaths, self._starts, self._ends = (np.zeros(most, np.int64) for _ in range(4))
        self._count = 0
        self.height = 0
        """The first byte after all placed buffers."""

    def take(self, buffer: Buffer, limit: int | None) -> int | None:
        """Reserve the smallest gap for a buffer and return its offset; None if the buffer would end beyond the limit."""
        count, size = self._count, aligned(buffer.bytes)
        meets = (self._births[:count] <= buffer.death) & (self._deaths[:count] >= buffer.birth)
        starts, ends = self._starts[:count][meets], self._ends[:count][meets]
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        reached = np.maximum.accumulate(np.concatenate([[0], ends]))
        gaps = starts - reached[:-1]
        fits = np.flatnonzero(gaps >= size)
        offset = int(reached[:-1][fits[np.argmin(gaps[fits])]]) if fits.size else int(reached[-1])
        if limit is not None and offset + buffer.bytes > limit:
            return None
        self._births[count], self._deaths[count] = buffer.birth, buffer.death
        self._starts[count], self._ends[count] = offset, offset + size
        self._count += 1
        self.height = max(self.height, offset + size)
        return offset


def _swept(lives: Iterable[tuple[int, int, Buffer]]) -> Offsets:
    gaps, offsets = _Gaps(), Offsets()
    active: list[tuple[int, int, int]] = []
    ordered = sorted(lives, key=lambda life: (life[0], -life[2].bytes))
    for birth, death, buffer in ordered:
        while active and active[0][0] < birth:
            _, offset, size = heappop(active)
            gaps.give(offset, size)
        size = aligned(buffer.bytes)
        offsets[buffer] = offset = gaps.take(size)
        heappush(active, (death, offset, size))
    return offsets


class _Gaps:
    """The free ranges below the highest address so far."""

    def __init__(self) -> None:
        self._top = 0
        self._by_size: list[tuple[int, int]] = []
        self._size_at: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        """The start of a gap, by its end address."""

    def take(self, size: int) -> int:
        """Reserve the smallest gap that is large enough, or new space including the gap before it; return its start."""
        if not size:
            return 0
        index = bisect_left(self._by_size, (size, -1))
        if index < len(self._by_size):
            gap, offset = self._by_size[index]
            self._remove(offset, gap)
            if gap > size:
                self._add(offset + size, gap - size)
            return offset
        offset = self._start_of.get(self._top, self._top)
        if offset < self._top:
            self._remove(offset, self._top - offset)
        self._top = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Free a range again."""
        if not size:
            return
        before, behind = self._start_of.get(offset), self._size_at.get(offset + size)
        if behind is not None:
            self._remove(offset + size, behind)
            size += behind
        if before is not None:
            self._remove(before, offset - before)
            size += offset - before
            offset = before
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self._by_size, (size, offset))
        self._size_at[offset] = size
        self._start_of[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, offset))]
        del self._size_at[offset], self._start_of[offset + size]
