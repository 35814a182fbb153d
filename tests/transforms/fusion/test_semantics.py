"""Random programs mean the same under every policy, in the reference and in the CPU kernels, as torch computes it op by op."""

from __future__ import annotations

from typing import Any

import pytest

import irscope as irs
from irscope.analysis.shapes.inference import infer, refine
from irscope.ir.payload import argument_type
from irscope.ops.node_check import verify
from irscope.runtime.reference import run_reference
from irscope.transforms import base
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.fusion.block_plan import Candidate
from irscope.transforms.fusion.planning import POLICIES, Score
from tests.random_programs.graphs import FEATURES, Program, random_program
from tests.transforms.fusion.test_fuse_pass import as_torch, assert_same
from tests.transforms.same_meaning import TYPED

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


def check_bits(seed: int) -> Fusion:
    """Of any element type, kernels that promise torch's bits keep them."""
    program = random_program(seed, size=30, features=FEATURES | TYPED)
    fusion = fuse(irs.parse(program.with_types().text), exact="torch")
    verify(fusion.graph)
    for record in fusion.history.records:
        base.check_types(record)
    wanted, after = eager(program)
    given = as_torch(torch, program.fresh())
    with torch.no_grad():
        found = irs.compile(fusion)(*given)
    assert_same(found, wanted, rtol=0, atol=0)
    assert_same(given, after, rtol=0, atol=0)
    kinds = [[getattr(leaf, "dtype", type(leaf)) for leaf in torch.utils._pytree.tree_leaves(both)] for both in (found, wanted)]
    assert kinds[0] == kinds[1]
    return fusion


@pytest.mark.parametrize("block", range(3))
def test_random_programs_of_any_element_type_have_torchs_bits(block: int) -> None:
    fusions = [check_bits(seed) for seed in range(12 * block, 12 * block + 12)]
    assert any(fusion.groups for fusion in fusions)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_many_random_programs_of_any_element_type_have_torchs_bits(block: int) -> None:
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        check_bits(seed)


@pytest.mark.long
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("block", range(25))
def test_many_random_programs_mean_the_same(name: str, block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        check(100_000 + seed, CHOICES[name], 4 + seed % 40)
