"""Reductions with every flag that they have, on every element type and odd shapes, compiled, against torch op by op."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

from irscope.errors import IrscopeError  # noqa: E402
from tests.behaviour.whole_programs import Outcome, check_program, interpreted, is_taken  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram  # noqa: E402

pytestmark = pytest.mark.torch

_TYPES: Final = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()

_REDUCTIONS: Final = (
    "x.sum({D}, keepdim={k})", "x.sum({D}, keepdim={k}, dtype={t})", "x.sum(dtype={t})", "x.mean({D}, keepdim={k})",
    "x.mean({D}, keepdim={k}, dtype={f})", "torch.var(x, {D}, correction={c}, keepdim={k})", "torch.var(x, unbiased={k})",
    "torch.std(x, {D}, correction={c}, keepdim={k})", "torch.std(x, {D}, unbiased=True, keepdim={k})",
    "torch.var_mean(x, {D}, correction={c}, keepdim={k})[0]", "torch.std_mean(x, {D}, correction={c}, keepdim={k})[1]",
    "x.prod({d}, keepdim={k})", "x.prod({d}, keepdim={k}, dtype={t})", "x.prod(dtype={t})", "x.amax({A}, keepdim={k})",
    "x.amin({A}, keepdim={k})", "x.max({d}, keepdim={k})[0]", "x.min({d}, keepdim={k})[1]", "x.argmax({d}, keepdim={k})",
    "x.argmax(None, keepdim={k})", "x.argmin({d}, keepdim={k})", "x.any({d}, keepdim={k})", "x.all({d}, keepdim={k})",
    "torch.any(x, {D}, keepdim={k})", "torch.all(x, {D}, keepdim={k})", "torch.logsumexp(x, {D}, keepdim={k})",
    "torch.linalg.vector_norm(x, {o}, {D}, {k})", "torch.linalg.vector_norm(x, {o}, {D}, {k}, dtype={f})",
    "torch.norm(x, {o}, {D}, keepdim={k})", "x.norm({o}, {d}, keepdim={k})", "x.norm()", "torch.count_nonzero(x, {D})",
    "torch.nansum(x, {D}, keepdim={k})", "torch.nanmean(x, {D}, keepdim={k})", "torch.aminmax(x, dim={d}, keepdim={k})[0]",
    "torch.softmax(x, {d}, dtype={f})", "torch.log_softmax(x, {d})", "torch.cumsum(x, {d}, dtype={t})", "x.median()",
)  # fmt: skip


def program(seed: int) -> TorchProgram:
    rng = random.Random(seed)
    rank = rng.choice([0, 1, 1, 2, 2, 3, 3, 4])
    shape = [rng.choice([0, 1, 2, 3, 5, 8, 17, 33, 2, 3, 4]) for _ in range(rank)]
    axis = rng.randrange(-rank, rank) if rank else 0
    some = rng.sample(range(rank), rng.randint(1, rank)) if rank else [0]
    listed = str([d - rank if rng.random() < 0.5 and rank else d for d in some])
    dims = rng.choice([listed, listed, listed, "[]", "None"])
    holes = {
        "k": rng.random() < 0.5, "d": axis, "D": dims, "A": "()" if dims == "None" else dims, "t": f"torch.{rng.choice(_TYPES)}",
        "f": f"torch.{rng.choice(_TYPES[:3])}", "c": rng.choice(["0", "1", "2", "1.5", "-1"]),
        "o": rng.choice(["0", "1", "2", "3", "0.5", "float('inf')", "-float('inf')", "-1.0", "2.5"]),
    }  # fmt: skip
    made = rng.choice(_REDUCTIONS)
    for hole, value in holes.items():
        made = made.replace("{" + hole + "}", str(value))
    before = rng.choice(["", "", "x = x * 2", "x = torch.abs(x)", "x = x + 1"])
    after = rng.choice(["y", "y * 2", "torch.tanh(y)", "y + 1"])
    text = f"def f(x: Tensor, n: int, flag: bool):\n    {before or 'pass'}\n    y = {made}\n    return y, {after}\n"
    return TorchProgram(text, (numbers(rng, seed, shape), 1, True))


def numbers(rng: random.Random, seed: int, shape: list[int]) -> Any:
    make = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, rng.choice(_TYPES))
    x = torch.rand(shape, generator=make) * 6 - 3
    if dtype.is_floating_point and rng.random() < 0.15:
        x[torch.rand(shape, generator=make) < 0.1] = rng.choice([float("nan"), float("inf"), -float("inf")])
    x = (x.abs() if dtype == torch.uint8 else x).to(dtype)
    return x.transpose(0, -1) if len(shape) > 1 and rng.random() < 0.4 else x


def taken(function: Callable[[], Callable[..., Any]], given: TorchProgram) -> bool:
    try:
        return is_taken(function(), given)
    except RuntimeError:  # the script does not compile
        return False


def checked(seeds: range) -> Outcome:
    found = Outcome()
    for seed in seeds:
        given = program(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not taken(given.eager, given) or not taken(lambda given=given: interpreted(given), given):
                continue
            try:
                found += check_program(given, seed)
            except (AssertionError, IrscopeError) as error:
                error.add_note(f"seed {seed}: {given.text}")
                raise
    return found


def test_odd_reductions_are_torchs() -> None:
    found = checked(range(250))
    assert found.programs >= 120
    assert found.groups >= 40
    assert found.unsure <= 3


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 6000, 500))
def test_many_odd_reductions_are_torchs(start: int) -> None:
    assert checked(range(start, start + 500)).unsure <= 10
