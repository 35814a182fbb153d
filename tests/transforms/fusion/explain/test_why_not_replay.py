"""Every reason why two neighbours did not fuse is true: replayed on real models and on random programs, 200 of each kind."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import irscope as irs
from irscope.ir.core import Graph, Node
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.fusion.policy.registry import POLICIES
from irscope.transforms.grouping import Refusal
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.explain.replay import confirm, neighbours, typed

BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")

Case = tuple[Fusion, Node, Node, Refusal]


def cases(graph: Graph) -> list[Case]:
    """All that stayed apart, under each policy, with the usual limits and with narrow ones."""
    limits = ({}, {"max_arguments": 5}, {"max_nodes": 4})
    fusions = [fuse(graph, policy=policy, **given) for policy in POLICIES for given in limits]  # type: ignore[arg-type]
    return [(fusion, *found) for fusion in fusions for found in neighbours(fusion)]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["yolov3", "lstm", "gru", "bert", "gpt2", "resnet", "vit", "unet"])
def test_reasons_in_real_models_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    model, arguments = sys.modules.get("fusion_models", __import__("fusion_models")).MODELS[name]()
    found = cases(typed(irs.load(model.eval(), *arguments)))
    assert found
    for case in random.Random(name).sample(found, min(25, len(found))):
        confirm(*case)


def test_reasons_in_random_programs_are_true() -> None:
    rules: Counter[str] = Counter()
    for seed in range(60):
        program = random_program(seed, size=30, features=("views", "in-place", "matmul", "reductions", "select"))
        graph = irs.parse(program.text)
        for case in cases(typed(graph)):
            rules[case[-1].rule] += 1
            confirm(*case)
    assert rules["blocked-by-write"] and rules["size-limit"] and rules["argument-limit"], rules
