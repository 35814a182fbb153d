"""Random programs mean the same under every policy, in the reference and in the CPU kernels, as torch computes it op by op."""

from __future__ import annotations

from typing import Any

import pytest

import irscope as irs
from irscope.analysis.shapes.inference import infer, refine
from irscope.ir.payload import argument_type
from irscope.ir.verify import verify
from irscope.runtime.reference import run_reference
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.fusion.policy import Candidate
from irscope.transforms.fusion.policy.best_first import Score
from irscope.transforms.fusion.policy.registry import POLICIES
from tests.random_programs.graphs import Program, random_program
from tests.transforms.fusion.test_fuse_pass import as_torch, assert_same

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def whimsical(candidate: Candidate) -> float:
    """A score that is legal and has no sense, so that merges come in orders that no other policy thinks of."""
    return (7919 * candidate.producer_index + 104729 * candidate.consumer_index) % 13 - 3


CHOICES: dict[str, str | Score] = {**{name: name for name in POLICIES}, "whimsical": whimsical}


def eager(program: Program) -> tuple[Any, Any]:
    """What torch makes of a program, op by op, and its arguments afterwards."""
    function = torch._C._create_function_from_graph("f", torch._C.parse_ir(program.text))
    given = as_torch(torch, program.fresh())
    optimised = torch._C._get_graph_executor_optimize()
    torch._C._get_graph_executor_optimize(False)
    try:
        with torch.no_grad():
            return function(*given), given
    finally:
        torch._C._get_graph_executor_optimize(optimised)


def check(seed: int, choice: str | Score, size: int) -> Fusion:
    program = random_program(seed, size=size)
    graph = irs.parse(program.text)
    if seed % 3:  # all shapes known
        types = {value: argument_type(given) for value, given in zip(graph.inputs, program.inputs, strict=True)}
        graph = refine(graph, infer(graph, types))
    fusion = fuse(graph, policy=choice)
    verify(fusion.graph)
    wanted, after = eager(program)
    given = program.fresh()
    found = run_reference(fusion.graph, *given)
    assert_same(found if len(found) != 1 else found[0], wanted, rtol=1e-4, atol=1e-5)
    assert_same(given, after, rtol=1e-4, atol=1e-5)
    given = as_torch(torch, program.fresh())
    with torch.no_grad():
        assert_same(irs.compile(fusion)(*given), wanted, rtol=1e-4, atol=1e-5)
    assert_same(given, after, rtol=1e-4, atol=1e-5)
    return fusion


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("block", range(5))
def test_random_programs_mean_the_same(name: str, block: int) -> None:
    kinds: set[str] = set()
    for seed in range(15 * block, 15 * block + 15):
        fusion = check(1000 * list(CHOICES).index(name) + seed, CHOICES[name], 10 + 2 * (seed % 20))
        kinds.update(group.attrs["kind"] for group in fusion.groups)
    assert "pointwise" in kinds


@pytest.mark.long
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("block", range(25))
def test_many_random_programs_mean_the_same(name: str, block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        check(100_000 + seed, CHOICES[name], 4 + seed % 40)
