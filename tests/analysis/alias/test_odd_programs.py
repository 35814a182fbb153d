"""What odd random programs do in torch was foreseen: containers in containers, objects, tasks, exchanged storages, schemas that lie.

A program that torch refuses at some point counts as far as it got. The long run:

    python -m pytest tests/analysis/alias/test_odd_programs.py -m long
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from irscope.analysis.alias.query.alias_db import AliasDb  # noqa: E402
from irscope.ir.core import Block, Node  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from irscope.ir.verify import verify  # noqa: E402
from tests.analysis.alias.eager import parts, run  # noqa: E402
from tests.analysis.alias.test_execution import check_foreseen, reordered  # noqa: E402
from tests.random_programs.odd_graphs import odd_program  # noqa: E402

pytestmark = pytest.mark.torch


def arguments(seed: int) -> list[Any]:
    """Arguments for `INPUTS`, some of them the same memory."""
    rng = random.Random(seed)
    values = torch.rand(5, 2, 2, generator=torch.Generator().manual_seed(seed))
    tensors = [value.clone() for value in values]
    if rng.random() < 0.5:
        tensors[1] = tensors[0].t()
    if rng.random() < 0.5:
        tensors[2] = tensors[rng.randrange(2)]
    some = [tensors[2], tensors[3], tensors[3]]
    named = {"k": tensors[rng.randrange(5)], "o": tensors[4]}
    nested = [some if rng.random() < 0.5 else [tensors[4], tensors[0]], [tensors[1]] * 3]
    pair = (tensors[rng.randrange(5)], tensors[rng.randrange(5)])
    return [tensors[0], tensors[1], some, named, nested, pair, rng.random() < 0.5, rng.randrange(4)]


def outcome(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """All numbers that can be reached from the results and the arguments, in order."""
    found = [part for thing in (*results, *given) for part in parts(thing)]
    return [
        part.tolist() if isinstance(part, torch.Tensor) else part
        for part in found
        if not isinstance(part, list | tuple | dict)
    ]


def check(seed: int, size: int) -> str:
    """How far the program got: "stopped", "ran" or "ran in another order"."""
    rng = random.Random(seed)
    graph = parse(odd_program(seed, size))
    verify(graph)
    db = AliasDb(graph)
    trace = run(graph, arguments(seed), trace=True, stops=True)
    check_foreseen(graph, db, trace)
    if trace.error is not None:
        return "stopped"
    given = arguments(seed)
    wanted = repr(outcome(run(graph, given).results, given))
    order: dict[Block, Sequence[Node]] = {block: reordered(block, db, rng) for block in graph.blocks()}
    given = arguments(seed)
    found = repr(outcome(run(graph, given, order=order).results, given))
    assert found == wanted, f"another order of\n{graph}"
    return "ran" if all(list(block.nodes) == order[block] for block in graph.blocks()) else "ran in another order"


def test_what_odd_programs_do_was_foreseen() -> None:
    found = Counter(check(seed, size=4 + seed % 14) for seed in range(60))
    assert found["ran in another order"] > 25


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 500))
def test_what_many_odd_programs_do_was_foreseen(first: int) -> None:
    for seed in range(first, first + 500):
        check(seed, size=4 + seed % 26)
