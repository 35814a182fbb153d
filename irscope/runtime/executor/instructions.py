"""Instructions of flat code other than a group's: assignments, moves and jumps, as closures over slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irscope.errors import RunError

__all__ = [
    "Instruction", "Slots", "Target", "assignment", "jump_unless", "jump_when_done", "moves", "raising", "start_loop",
]  # fmt: skip

Slots = list[Any]
Instruction = Callable[[Slots], int | None]
"""Reads and writes slots; returns the position to continue at, or None for the next one."""


@dataclass(slots=True)
class Target:
    """A jump position that is filled in later."""

    position: int = -1


def assignment(function: Callable[..., Any], reads: tuple[int, ...], writes: tuple[int, ...]) -> Instruction:
    """Emits `writes = function(reads)`; the common arities have their own code, because most instructions are these."""
    match reads, writes:
        case (a,), (out,):

            def one(slots: Slots) -> None:
                slots[out] = function(slots[a])

            return one
        case (a, b), (out,):

            def two(slots: Slots) -> None:
                slots[out] = function(slots[a], slots[b])

            return two
        case (a, b, c), (out,):

            def three(slots: Slots) -> None:
                slots[out] = function(slots[a], slots[b], slots[c])

            return three
        case _, (out,):

            def many(slots: Slots) -> None:
                slots[out] = function(*[slots[slot] for slot in reads])

            return many

    def several(slots: Slots) -> None:
        results = function(*[slots[slot] for slot in reads])
        if writes:
            for slot, result in zip(writes, results, strict=True):
                slots[slot] = result

    return several


def moves(sources: tuple[int, ...], targets: tuple[int, ...], then: Target | None = None) -> Instruction:
    """Emits a parallel move: all targets get their sources' values at once; then the jump."""

    def move(slots: Slots) -> int | None:
        values = [slots[slot] for slot in sources]
        for slot, value in zip(targets, values, strict=True):
            slots[slot] = value
        return None if then is None else then.position

    return move


def jump_unless(condition: int, target: Target) -> Instruction:
    def jump(slots: Slots) -> int | None:
        return None if slots[condition] else target.position

    return jump


def start_loop(sources: tuple[int, ...], targets: tuple[int, ...]) -> Instruction:
    """Emits the start of a loop: the first target gets an iterator of the trip count, the others their sources."""
    move = moves(sources, targets)
    turns = targets[0]

    def start(slots: Slots) -> None:
        move(slots)
        slots[turns] = iter(range(slots[turns]))

    return start


def jump_when_done(state: int, turns: int, count: int, target: Target) -> Instruction:
    def jump(slots: Slots) -> int | None:
        if not slots[state]:
            return target.position
        turn = next(slots[turns], None)
        slots[count] = turn
        return target.position if turn is None else None

    return jump


def raising(error: RunError) -> Instruction:
    def fail(slots: Slots) -> None:
        raise error

    return fail
