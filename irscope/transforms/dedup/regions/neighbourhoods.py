"""Finds seeds of repeated regions: nodes with equal neighbourhoods, by iterated colouring along the data flow.

A colour of radius r encodes the look of a node, and r steps backwards its producers, or r steps forwards its users. Each round
renumbers the pairs of a node's colour and its neighbours' colours; equal numbers mean equal neighbourhoods, as the pairs
themselves are compared and not their hashes. A class of k nodes of one colour may be k places of one region: twelve layers have
twelve nodes of most of their colours. Short radii suffice, since growth decides in the end; long ones would distinguish the first
and last layers, whose surroundings differ.

Every round is linear in the edges (the colours of users are sorted, so n·log n for a value with n users).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from irscope.transforms.dedup.regions.block_index import OUTSIDE, BlockIndex

__all__ = ["seed_classes"]

_BACKWARDS: Final = 3
_FORWARDS: Final = 2
"""The radii; three backwards is what it takes to distinguish the steps of an LSTM whose gates are all written alike."""


def seed_classes(index: BlockIndex) -> Iterator[list[list[int]]]:
    """Yields, for each colouring, from the coarsest on, its classes of two nodes or more, each in textual order."""
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
        (colours[place], tuple([(colours[producer], number) if producer != OUTSIDE else OUTSIDE for producer, number in row]))
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
