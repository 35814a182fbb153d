"""Random programs mean the same under every policy, in the reference and in the CPU kernels, as torch computes it op by op."""

import pytest

import irscope as irs
from irscope.ops.node_check import verify
from irscope.transforms import base
from irscope.transforms.fusion import POLICIES, Fusion, Score, fuse
from irscope.transforms.fusion.block_plan import Candidate
from tests.random_programs.graphs import FEATURES, random_program
from tests.transforms.fusion.judges import as_torch, assert_as_eager, assert_same, eager
from tests.transforms.same_meaning import TYPED
from tests.work import blocks, long, some

torch = pytest.importorskip("torch")


def whimsical(candidate: Candidate) -> float:
    """A score that is legal and has no sense, so that merges come in orders that no other policy thinks of."""
    return (7919 * candidate.producer_index + 104729 * candidate.consumer_index) % 13 - 3


CHOICES: dict[str, str | Score] = {**{name: name for name in POLICIES}, "whimsical": whimsical}


def check(seed: int, choice: str | Score, size: int) -> Fusion:
    program = random_program(seed, size=size)
    fusion = fuse(irs.parse(program.with_types().text if seed % 3 else program.text), policy=choice)
    verify(fusion.graph)
    assert_as_eager(program, [fusion.graph], [irs.compile(fusion)])
    return fusion


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("seeds", [*some(blocks(0, 5, 15), 2), *long(blocks(100_000, 25, 100))], ids=str)
def test_random_programs_mean_the_same(name: str, seeds: range) -> None:
    fusions = [check(1000 * list(CHOICES).index(name) + seed, CHOICES[name], 4 + seed % 40) for seed in seeds]
    assert any(group.attrs["kind"] == "pointwise" for fusion in fusions for group in fusion.groups)


def check_bits(seed: int) -> Fusion:
    """Of any element type, kernels that promise torch's bits keep them."""
    program = random_program(seed, size=30, features=FEATURES | TYPED)
    fusion = fuse(irs.parse(program.with_types().text), exact="torch")
    verify(fusion.graph)
    for record in fusion.history.records:
        base.check_types(record)
    wanted, after = eager(program)
    given = as_torch(program.fresh())
    with torch.no_grad():
        found = irs.compile(fusion)(*given)
    assert_same((found, given), (wanted, after))
    kinds = [[getattr(leaf, "dtype", type(leaf)) for leaf in torch.utils._pytree.tree_leaves(both)] for both in (found, wanted)]
    assert kinds[0] == kinds[1]
    return fusion


@pytest.mark.parametrize("seeds", [*some(blocks(0, 3, 12), 1), *long(blocks(10_000, 10, 100))], ids=str)
def test_random_programs_of_any_element_type_have_torchs_bits(seeds: range) -> None:
    fusions = list(map(check_bits, seeds))
    assert any(fusion.groups for fusion in fusions)
