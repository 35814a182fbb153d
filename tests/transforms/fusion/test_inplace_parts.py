"""Tensors that are written part by part: random programs against torch eager, and what it costs to write them whole."""

import random
import warnings
from typing import Any

import pytest

import irscope as irs
from irscope.ir.core import Graph
from irscope.transforms.fusion import Fusion
from tests.programs import ir
from tests.work import some

torch = pytest.importorskip("torch")

IN_PLACE = ("copy_", "mul_", "add_", "sub_")
SIZES = (3, 5, 6)


class Writes(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A program that writes random parts of a fresh tensor, reading others."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, x: Any, y: Any) -> Any:
        rng = random.Random(self.seed)
        shape = x.shape
        p = rng.choice((lambda: x * 1.5, lambda: torch.zeros_like(x), lambda: x.clone(), lambda: torch.relu(x + y)))()
        home, kept = rng.randrange(len(shape)), []
        for _ in range(rng.randint(1, 7)):
            axis = home if rng.random() < 0.9 else rng.randrange(len(shape))
            start = rng.randrange(shape[axis])
            stop = rng.randint(start + 1, shape[axis])
            other = rng.randint(0, shape[axis] - (stop - start))
            target = p.narrow(axis, start, stop - start) if rng.random() < 0.1 else part(p, axis, start, stop)
            source = part(rng.choice((p, x, y)), axis, other, other + stop - start)
            here = part(y, axis, start, stop)
            value = rng.choice((torch.tanh, torch.neg, here.mul, here.add))(source)
            if stop == start + 1 and rng.random() < 0.5:
                target, value = p.select(axis, start), value.squeeze(axis)
            if rng.random() < 0.1:
                kept.append(p.sum())
            getattr(target, rng.choice(IN_PLACE))(value)
            if rng.random() < 0.1:
                kept.append(value)
        return (torch.relu(p) if rng.random() < 0.5 else p, *kept)


def part(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def loaded(seed: int) -> tuple[Any, Graph, tuple[Any, Any]]:
    rng = random.Random(seed)
    shape = SIZES[: rng.randint(1, 3)]
    generator = torch.Generator().manual_seed(seed)
    arguments = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    model = Writes(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model, irs.load(torch.jit.trace(model, arguments, check_trace=False), *arguments), arguments


def check(seed: int, policy: str) -> Fusion:
    model, graph, arguments = loaded(seed)
    fusion = irs.fuse(graph, policy=policy)
    run = irs.compile(fusion)
    for wanted, found in zip(model(*arguments), run(*arguments), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    refused = [remark.because for remark in run.remarks if remark.kind == "missed"]
    assert not refused, refused
    return fusion


def copies(graph: Graph, *, inside: bool) -> int:
    """Ops that give a whole with a range replaced, in groups or outside."""
    found = [node for node in graph.nodes() if node.op in ("aten::slice_scatter", "aten::select_scatter")]
    return sum((graph.block_of[node] is not graph.body) is inside for node in found)


@pytest.mark.parametrize("seed", some(range(1000), 15))
def test_random_writes_of_parts(seed: int) -> None:
    fusion = check(seed, ("greedy", "min-bytes")[seed % 2])
    assert copies(fusion.graph, inside=False) == 0


def test_many_of_the_random_programs_have_a_kernel_for_the_whole() -> None:
    assert sum(copies(irs.fuse(loaded(seed)[1]).graph, inside=True) > 0 for seed in range(40)) >= 10


PARTS = ir(
    "x | zero = 0; one = 1; two = 2; six = 6; p = sin x; a:Float(4, 2) = slice p one zero two one; b:Float(4, 2) = exp_ a; "
    "c:Float(4, 4) = slice p one two six one; d:Float(4, 4) = tanh_ c | p",
    "Float(4, 6, strides=[6, 1])",
)


@pytest.mark.parametrize("options", [{"policy": lambda candidate: None}, {"min_size": 9}, {"max_nodes": 2}])
def test_a_plan_that_tears_the_copies_apart_leaves_the_writes_in_place(options: Any) -> None:
    graph = irs.parse(PARTS)
    assert copies(irs.fuse(graph).graph, inside=True) == 2
    ops = {node.op for node in irs.fuse(graph, **options).graph.nodes()}
    assert {"aten::exp_", "aten::tanh_"} <= ops and not ops & {"aten::slice_scatter", "aten::select_scatter"}
