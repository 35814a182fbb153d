"""The sizes of the pieces into which `chunk`, `split`, `tensor_split` and `unbind` divide an axis.

Their number is checked before they are listed: one line of text may ask for 10^12 pieces.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_PIECES", "chunks_of", "pieces_of", "sections_of"]

MOST_PIECES: Final = 1 << 18
"""The most pieces that are listed before a program runs."""


def pieces_of(extent: int, size: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Return pieces of one size, the last one smaller; an empty axis is one piece. Returns None for more than `most`.

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
    """Return at most `chunks` pieces of one size, the last one smaller; an empty axis is divided into empty pieces.

    >>> chunks_of(7, 3), chunks_of(0, 3), chunks_of(0, 10**12)
    ([3, 3, 1], [0, 0, 0], None)
    """
    if extent:
        return pieces_of(extent, -(-extent // chunks), most)
    return None if most is not None and chunks > most else [0] * chunks


def sections_of(extent: int, sections: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Return `sections` pieces, the first ones larger by one.

    >>> sections_of(7, 3), sections_of(1, 3), sections_of(4, 10**12)
    ([3, 2, 2], [1, 0, 0], None)
    """
    if most is not None and sections > most:
        return None
    return [extent // sections + (index < extent % sections) for index in range(sections)]
