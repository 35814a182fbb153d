"""Max pooling in kernels against torch's op: the same numbers, laid out as it lays them out."""

import random
from typing import Any

import pytest

from tests.programs import parsed
from tests.work import blocks, some

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.transforms.fusion import group_pools  # noqa: E402


def pooled(rng: random.Random) -> tuple[Any, Any]:
    """A function that pools, and what it is given."""
    axes = rng.choice([1, 2, 2, 2, 3])
    size, step, gap = ([rng.randrange(1, most) for _ in range(axes)] for most in (4, 4, 3))
    margin = [rng.randrange(n // 2 + 1) for n in size]
    ceil = rng.random() < 0.4
    x = torch.randn(rng.randrange(1, 3), rng.randrange(1, 5), *[rng.randrange(6, 12) for _ in range(axes)])
    if rng.random() < 0.3:
        x[torch.rand(x.shape) < 0.05] = float("nan")
    if axes > 1 and rng.random() < 0.5:
        x = x.to(memory_format={2: torch.channels_last, 3: torch.channels_last_3d}[axes])
    x = x.to(rng.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16]))
    op = getattr(torch.nn.functional, f"max_pool{axes}d")
    return lambda y: op(y, size, step, margin, gap, ceil), x


@pytest.mark.parametrize("seeds", some(blocks(0, 3, 20), 1), ids=str)
def test_random_windows_have_torchs_maxima(seeds: range) -> None:
    kernels = 0
    for seed in seeds:
        torch.default_generator.manual_seed(seed)
        function, x = pooled(random.Random(seed))
        record = group_pools(irs.load(function, x))
        run = irs.compile(record.after)
        expected, found = function(x), run(x)
        kernels += len(run.kernels) > 0
        assert found.stride() == expected.stride(), seed
        assert torch.allclose(found, expected, rtol=0, atol=0, equal_nan=True), seed
    assert kernels > 16


def test_zeros_of_two_signs_are_torchs_own() -> None:
    run = irs.compile(group_pools(irs.load(lambda x: torch.nn.functional.max_pool2d(x, 2), torch.rand(1, 1, 4, 4))).after, exact="torch")
    assert not run.kernels and run.remarks[0].rule == "inexact"


def test_a_window_that_most_borders_truncate_stays_with_the_library() -> None:
    record = group_pools(irs.load(lambda x: torch.nn.functional.max_pool2d(x, 13, 1, 6), torch.rand(1, 2, 13, 13)))
    assert record.after is record.before
    (remark,) = record.remarks
    assert remark.kind == "missed"
    assert remark.because == "the border cuts its windows off in 169 ways, each of which would be a kernel"


def test_extents_that_only_a_run_knows_stay_with_the_library() -> None:
    graph = parsed("x | 2 = [2, 2]; 1 = [1, 1]; 0 = [0, 0]; no = False; y:Tensor = max_pool2d x 2 2 0 1 no | y", "Float(1, 2, h, w)")
    record = group_pools(graph)
    assert record.after is graph and record.remarks[0].because == "its extents are not all known before the run"


def test_planned_memory_needs_no_place_for_places() -> None:
    x = torch.rand(2, 32, 64, 64).to(memory_format=torch.channels_last)
    fusion = irs.fuse(irs.load(lambda y: torch.nn.functional.max_pool2d(y.relu(), 3, 2, 1).relu(), x))
    plain, planned = irs.compile(fusion, freeze=False), irs.compile(fusion, memory="planned")
    assert torch.equal(plain(x), planned(x))
    assert "aten::max_pool2d" in {node.op for node in plain.graph.body.nodes}
    assert "aten::max_pool2d" not in {node.op for node in planned.graph.body.nodes}
    assert [remark.rule for remark in planned.remarks if remark.kind == "passed"] == ["pool-kernel"]
