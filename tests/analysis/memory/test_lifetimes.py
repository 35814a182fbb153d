"""Memory that is no longer needed may be overwritten: torch runs random programs while somebody does just that."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.analysis.memory.lifetimes import Buffer, Lifetimes, lifetimes  # noqa: E402
from irscope.ir.core import Graph, Node  # noqa: E402
from irscope.runtime.arrays.library import TorchLibrary  # noqa: E402
from irscope.runtime.executor.bytecode import flatten  # noqa: E402
from tests.analysis.alias.test_execution import arguments, flat  # noqa: E402
from tests.strategies import random_program  # noqa: E402

pytestmark = pytest.mark.torch


class Vandal:
    """Overwrites each memory as soon as a node begins to run after its life."""

    def __init__(self, lives: Lifetimes, slots: list[Any], slot_of: dict[Any, int]) -> None:
        self.slots = slots
        self.moment = {node: at for at, node in reversed(list(enumerate(lives.moments)))}
        self.made: dict[Node, list[tuple[Buffer, int]]] = {}
        for buffer in lives.buffers:
            self.made.setdefault(buffer.maker, []).append((buffer, slot_of[buffer.value]))
        self.alive: list[tuple[Buffer, Any]] = []
        self.before: Node | None = None
        self.now = -1
        self.spoilt = 0

    def visit(self, node: Node) -> None:
        self._note()
        now = self.moment[node]
        back = now <= self.now  # another round: what a round made is over unless it is carried
        kept: list[tuple[Buffer, Any]] = []
        for buffer, tensor in self.alive:
            if buffer.death < now or (back and buffer.birth >= now and not buffer.is_carried and not buffer.is_result):
                self._spoil(tensor)
            else:
                kept.append((buffer, tensor))
        self.alive, self.now, self.before = kept, now, node

    def _note(self) -> None:
        """Look at what the last node has made."""
        for buffer, slot in self.made.get(self.before, ()) if self.before is not None else ():
            if isinstance(self.slots[slot], torch.Tensor):
                self.alive.append((buffer, self.slots[slot]))

    def _spoil(self, tensor: Any) -> None:
        self.spoilt += 1
        storage = tensor.untyped_storage()
        torch.empty(0, dtype=torch.uint8).set_(storage).fill_(0x5A)


def run(graph: Graph, given: list[Any], *, spoil: bool) -> tuple[list[Any], int]:
    code = flatten(graph.body, TorchLibrary(), bound={}, call=lambda node, reads, writes: None)
    slots = code.template.copy()
    for slot, thing in zip(code.inputs, given, strict=True):
        slots[slot] = thing
    if not spoil:
        code.run(slots)
        return flat([[slots[slot] for slot in code.outputs], *given]), 0
    code.instructions = [(step, ()) for step, _ in code.instructions]  # nothing dies by itself
    lives = lifetimes(graph)
    slot_of = {
        value: slot
        for node, slots_ in zip(code.nodes, code.writes, strict=True)
        if node is not None and not node.blocks
        for value, slot in zip(node.outputs, slots_, strict=True)
    }
    known = {buffer.value for buffer in lives.buffers} & slot_of.keys()
    vandal = Vandal(_only(lives, known), slots, slot_of)
    code.run(slots, vandal.visit)
    return flat([[slots[slot] for slot in code.outputs], *given]), vandal.spoilt


def _only(lives: Lifetimes, known: set[Any]) -> Lifetimes:
    from dataclasses import replace

    return replace(lives, buffers=tuple(buffer for buffer in lives.buffers if buffer.value in known))


SPOILT = 0


def check(seed: int, size: int) -> int:
    program = random_program(seed, size=size)
    graph = irs.load(program.text, *arguments(program))
    expected, _ = run(graph, arguments(program), spoil=False)
    found, spoilt = run(graph, arguments(program), spoil=True)
    assert repr(found) == repr(expected), f"memory was needed after its life in\n{graph}"
    return spoilt


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_is_dead_is_not_read(first: int) -> None:
    spoilt = sum(check(seed, 18) for seed in range(first, first + 20))
    assert spoilt > 40  # or nothing was tried


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 500))
def test_what_is_dead_is_not_read_in_many_programs(first: int) -> None:
    for seed in range(first, first + 500):
        check(seed, 24)
