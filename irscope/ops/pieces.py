"""Into what pieces the ops that cut a tensor cut an axis: `chunk`, `split`, `tensor_split`, `unbind`.

How many there are is bounded before they are told: one line of text cuts a million million of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["MOST_PIECES", "chunks_of", "pieces_at", "pieces_of", "sections_of"]

MOST_PIECES: Final = 1 << 18
"""The most pieces that are told one by one before a program runs."""


def pieces_of(extent: int, size: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Pieces of one size, the last one smaller; one piece where there is nothing to cut. None for more than `most`.

    >>> pieces_of(7, 3), pieces_of(0, 3), pieces_of(10**12, 1)
    ([3, 3, 1], [0], None)
    """
    if not size or not extent:
        return [extent]
    count = -(-extent // size)
    return (
        None if most is not None and count > most else [min(size, extent - start) for start in range(0, extent, size)]
    )


def chunks_of(extent: int, chunks: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """At most so many pieces, as even as pieces of one size are; nothing is cut into pieces of nothing.

    >>> chunks_of(7, 3), chunks_of(0, 3), chunks_of(0, 10**12)
    ([3, 3, 1], [0, 0, 0], None)
    """
    if extent:
        return pieces_of(extent, -(-extent // chunks), most)
    return None if most is not None and chunks > most else [0] * chunks


def sections_of(extent: int, sections: int) -> list[int] | None:
    """So many pieces, the first ones larger by one.

    >>> sections_of(7, 3), sections_of(1, 3), sections_of(4, 10**12)
    ([3, 2, 2], [1, 0, 0], None)
    """
    if sections > MOST_PIECES:
        return None
    return [extent // sections + (index < extent % sections) for index in range(sections)]


def pieces_at(extent: int, places: Sequence[int]) -> list[int]:
    """The pieces between these places, which count from the end where they are below zero, as slices of a list do.

    >>> pieces_at(7, [2, 5]), pieces_at(7, [-1, 3, 9])
    ([2, 3, 2], [6, 0, 4, 0])
    """
    whole = range(extent)
    return [len(whole[start:end]) for start, end in zip([0, *places], [*places, extent], strict=True)]
