"""On real models we never give up more than torch's alias db does, except where it is wrong, or knows what no text tells.

Ten thousand pairs of names a model are asked of both. What can differ:

* torch says "may" and we prove "no": ours is more precise;
* we say "may" and torch denies it. Then torch is wrong where our own analysis denies it too once it reads the program
  with torch's omissions (`tests.analysis.alias.torch_holes`);
* or one of the two is a module: torch asks its class for the attributes, which a graph's text does not list. For us
  what a module holds may be any attribute of any module.

Nothing else may be left over.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from irscope.analysis.alias.alias_db import AliasDb  # noqa: E402
from irscope.ir.core import Value  # noqa: E402
from irscope.ir.text.parser import parse  # noqa: E402
from irscope.ir.types import ClassType  # noqa: E402
from tests.analysis.alias.real_models import MODELS  # noqa: E402
from tests.analysis.alias.test_execution import ours, theirs  # noqa: E402
from tests.analysis.alias.torch_holes import as_torch_reads  # noqa: E402

pytestmark = pytest.mark.torch

PAIRS = 10_000


@dataclass
class Comparison:
    """One model's answers by class of disagreement, and the pairs that nothing explains."""

    pairs: Counter[str]
    writers: Counter[str]
    unexplained: list[str]

    def __str__(self) -> str:
        return f"pairs {dict(self.pairs)}, writers {dict(self.writers)}"


def compare(torch_graph: Any, pairs: int, seed: int = 0) -> Comparison:
    graph = parse(str(torch_graph))
    db, torch_db, with_holes = AliasDb(graph), torch_graph.alias_db(), AliasDb(as_torch_reads(graph))
    names = list(zip(ours(graph.body), theirs(torch_graph), strict=True))
    assert all(graph.names[mine] == other.debugName() for mine, other in names)
    memory = [(mine, other) for mine, other in names if db.locations(mine)]
    found = Comparison(Counter(), Counter(), [])
    rng = random.Random(seed)
    for _ in range(pairs):
        (a, torch_a), (b, torch_b) = rng.choice(memory), rng.choice(memory)
        may, torch_may = bool(db.may_contain_alias(a, b)), torch_db.may_contain_alias(torch_a, torch_b)
        kind = classify(may, torch_may, lambda a=a, b=b: bool(with_holes.may_contain_alias(a, b)), a, b)
        found.pairs[kind] += 1
        if kind == "less precise":
            found.unexplained.append(f"{a!r} and {b!r}: {db.explain(a, b)}")
    for value, other in memory:
        may, torch_may = bool(db.has_writers(value)), torch_db.has_writers(other)
        kind = classify(may, torch_may, lambda value=value: bool(with_holes.has_writers(value)), value)
        found.writers[kind] += 1
        if kind == "less precise":
            found.unexplained.append(f"{value!r}: {db.has_writers(value)}")
    return found


def classify(may: bool, torch_may: bool, with_holes: Any, *values: Value) -> str:
    if may == torch_may:
        return "the same"
    if torch_may:
        return "more precise"
    if not with_holes():
        return "torch is wrong"
    return "what modules hold" if any(isinstance(value.type, ClassType) for value in values) else "less precise"


@pytest.mark.parametrize("model", MODELS)
def test_no_answer_about_a_real_model_gives_up_more_than_torchs(model: str) -> None:
    found = compare(MODELS[model](), PAIRS)
    print(f"{model}: {found}")
    assert found.unexplained == []
    assert sum(found.pairs.values()) == PAIRS


@pytest.mark.parametrize(
    ("model", "kind", "least"),
    [("greedy_decoder", "torch is wrong", 500), ("lstm", "more precise", 3000), ("bert", "what modules hold", 100)],
)
def test_each_kind_of_disagreement_occurs(model: str, kind: str, least: int) -> None:
    assert compare(MODELS[model](), PAIRS).pairs[kind] >= least


def test_an_answer_that_gives_up_more_is_noticed() -> None:
    """Two fresh tensors, one of which we are made to take for unknown memory: an op that torch knows and we do not."""
    graph = torch._C.parse_ir(
        """graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  return (%a, %b)"""
    )
    assert compare(graph, 100).unexplained == []

    class Renamed:
        """The same graph with a text that says less."""

        def __getattr__(self, name: str) -> Any:
            return getattr(graph, name)

        def __str__(self) -> str:
            return str(graph).replace("aten::neg", "my::op")

    assert compare(Renamed(), 100).unexplained
