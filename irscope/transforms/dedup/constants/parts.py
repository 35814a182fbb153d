"""Finds arrays that occur as consecutive elements of longer ones.

The first `_PREFIX` elements of each array are hashed, and so are all windows of as many elements of the longer arrays, by one
polynomial, piecewise with NumPy. Where a window has the hash of a prefix, the elements are compared, at no more than `_TRIES`
places per pair (a program may contain masks that begin alike everywhere). Arrays that begin with one element repeated, such as
zeros, match windows everywhere without meaning; they are left out. Linear in the elements of all arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from irscope.transforms.dedup.constants.stored import Array

__all__ = ["parts_of"]

_PREFIX: Final = 8
_TRIES: Final = 16
_PIECE: Final = 1 << 20
"""The number of windows hashed at a time."""
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)


def parts_of(arrays: Sequence[Array]) -> dict[int, tuple[int, int]]:
    """Maps each array that is a part of a longer one to that one and its first element there; all have one element type.

    >>> long = np.arange(100, dtype=np.uint32)
    >>> parts_of([long, long[10:30], long[:3]])
    {1: (0, 10)}
    """
    sought: dict[int, list[int]] = {}
    for place, array in enumerate(arrays):
        prefix = array[:_PREFIX]
        if len(array) >= _PREFIX and np.any(prefix != prefix[0]):
            sought.setdefault(int(_hashes(prefix)[0]), []).append(place)
    found: dict[int, tuple[int, int]] = {}
    if not sought:
        return found
    hashes = np.array(sorted(sought), np.uint64)
    shortest = min(len(arrays[place]) for places in sought.values() for place in places)
    for holder in sorted(range(len(arrays)), key=lambda place: -len(arrays[place])):
        if len(arrays[holder]) > shortest:
            tries: dict[int, int] = {}
            for offset, value in _matching_windows(arrays[holder], hashes):
                for place in sought[value]:
                    if place not in found and len(arrays[place]) < len(arrays[holder]) and _is_tried(tries, place):
                        part = arrays[holder][offset : offset + len(arrays[place])]
                        if np.array_equal(part, arrays[place]):
                            found[place] = (holder, offset)
    return dict(sorted(found.items()))


def _is_tried(tries: dict[int, int], place: int) -> bool:
    tries[place] = tries.get(place, 0) + 1
    return tries[place] <= _TRIES


def _matching_windows(array: Array, hashes: Array) -> Iterator[tuple[int, int]]:
    """Yields the offsets and hashes of the windows with one of these hashes."""
    for start in range(0, len(array) - _PREFIX + 1, _PIECE):
        here = _hashes(array[start : start + _PIECE + _PREFIX - 1])
        for offset in np.flatnonzero(np.isin(here, hashes)):
            yield start + int(offset), int(here[offset])


def _hashes(array: Array) -> Array:
    """The hash of each window of `_PREFIX` elements."""
    count = len(array) - _PREFIX + 1
    made = np.zeros(count, np.uint64)
    for place in range(_PREFIX):
        made = made * _BASE + array[place : place + count].astype(np.uint64)
    return made
