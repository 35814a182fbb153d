"""Where repeated regions may begin: nodes whose neighbourhoods look the same, by iterated hashing along the dependences.

A colour of radius r says what a node looks like, and (r steps backwards) what makes its operands, or (r steps forwards) what
reads its results. Each round renumbers the pairs of a node's colour and its neighbours' colours; equal numbers mean equal
neighbourhoods, as the pairs are compared and not their hashes. A class of k nodes of one colour may be k places of one region:
twelve layers have twelve nodes of most of their colours. Short radii suffice, since growth decides in the end; long ones
would tell the first and last layers apart, whose surroundings differ.

Every round is linear in the edges (the colours of readers are sorted, so n·log n for a value that many read).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from irscope.transforms.dedup.regions.block_index import OUTSIDE, BlockIndex

__all__ = ["seed_classes"]

_BACKWARDS: Final = 3
_FORWARDS: Final = 2
"""Radii; a step of an LSTM whose gates are all written alike is told apart at three."""


def seed_classes(index: BlockIndex) -> Iterator[list[list[int]]]:
    """For each colouring, from the coarsest on, its classes of two nodes and more, each in textual order."""
    backwards = list(index.looks)
    yield _classes(backwards)
    for _ in range(_BACKWARDS):
        backwards = _backwards(index, backwards)
        yield _classes(backwards)
    forwards = list(index.looks)
    for _ in range(_FORWARDS):
        forwards = _forwards(index, forwards)
        yield _classes(forwards)
    yield _classes(_numbered(list(zip(backwards, forwards, strict=True))))


def _classes(colours: Sequence[int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for place, colour in enumerate(colours):
        found.setdefault(colour, []).append(place)
    return [places for places in found.values() if len(places) > 1]


def _backwards(index: BlockIndex, colours: list[int]) -> list[int]:
    return _numbered([
        (colours[place], tuple([(colours[maker], number) if maker != OUTSIDE else OUTSIDE for maker, number in row]))
        for place, row in enumerate(index.producers)
    ])  # fmt: skip


def _forwards(index: BlockIndex, colours: list[int]) -> list[int]:
    return _numbered([
        (colours[place], tuple(sorted([(number, slot, colours[reader]) for number, slot, reader in row])))
        for place, row in enumerate(index.users)
    ])  # fmt: skip


def _numbered(keys: Sequence[tuple[object, ...]]) -> list[int]:
    known: dict[tuple[object, ...], int] = {}
    return [known.setdefault(key, len(known)) for key in keys]
