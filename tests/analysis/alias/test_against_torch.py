"""Where torch's alias db is right, ours gives up no more: compared value by value on random programs.

Of loops torch leaves out two edges, and is more often "precise" than right: with loops, what we give up and torch does
not must follow from these edges alone (`tests.analysis.alias.torch_holes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from irscope.analysis.alias.query.alias_db import AliasDb  # noqa: E402
from irscope.ir.core import Block, Value  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from tests.analysis.alias.torch_holes import as_torch_reads  # noqa: E402
from tests.random_programs.graphs import FEATURES, random_program  # noqa: E402

pytestmark = pytest.mark.torch


def ours(block: Block) -> Iterator[Value]:
    yield from block.params
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from ours(inner)


def theirs(block: Any) -> Iterator[Any]:
    yield from block.inputs()
    for node in block.nodes():
        yield from node.outputs()
        for inner in node.blocks():
            yield from theirs(inner)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_answer_is_less_precise_than_torchs(first: int) -> None:
    sharper = 0
    for seed in range(first, first + 20):
        text = random_program(seed, size=5 + seed % 15, features=FEATURES - {"loop"}).text
        graph, torch_graph = parse(text), torch._C.parse_ir(text)
        db, torch_db = AliasDb(graph), torch_graph.alias_db()
        pairs = list(zip(ours(graph.body), theirs(torch_graph), strict=True))
        for index, (a, torch_a) in enumerate(pairs):
            assert not db.has_writers(a) or torch_db.has_writers(torch_a), f"writers of {a!r} in\n{text}"
            for b, torch_b in pairs[index:]:
                if not (db.locations(a) and db.locations(b)):
                    continue  # numbers
                may = torch_db.may_contain_alias(torch_a, torch_b)
                assert not db.may_contain_alias(a, b) or may, f"{a!r} and {b!r} in\n{text}"
                sharper += may and not db.may_contain_alias(a, b)
    assert sharper > 100


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_with_loops_no_answer_is_less_precise_without_a_reason(first: int) -> None:
    wrong = 0
    for seed in range(first, first + 20):
        text = random_program(seed, size=5 + seed % 15, features=FEATURES).text
        graph, torch_graph = parse(text), torch._C.parse_ir(text)
        db, with_holes, torch_db = AliasDb(graph), AliasDb(as_torch_reads(graph)), torch_graph.alias_db()
        pairs = list(zip(ours(graph.body), theirs(torch_graph), strict=True))
        memory = [(a, torch_a) for a, torch_a in pairs if db.locations(a)]
        for index, (a, torch_a) in enumerate(memory):
            if db.has_writers(a) and not torch_db.has_writers(torch_a):
                assert not with_holes.has_writers(a), f"writers of {a!r} in\n{text}"
            for b, torch_b in memory[index:]:
                if db.may_contain_alias(a, b) and not torch_db.may_contain_alias(torch_a, torch_b):
                    assert not with_holes.may_contain_alias(a, b), f"{a!r} and {b!r} in\n{text}"
                    wrong += 1
    assert wrong > 10
