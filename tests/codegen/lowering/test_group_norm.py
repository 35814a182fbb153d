"""Group norms in groups: gathered in parts of an axis, with what stands in front and behind in the same kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.device.protocol import Device
from tests.codegen.kernels import call, planned, results, run
from tests.programs import ir

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


def noise(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(sum(shape)).normal(1.0, 2.0, shape).astype(dtype)


def norm(builder: Any, x: Any, groups: int, *vectors: Any) -> Any:
    weight, bias = vectors or (None, None)
    return call(builder, "group_norm", x, groups, weight, bias, 1e-5, True)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 6), (1, 6, 7), (2, 6, 1, 1)])
def test_it_is_torchs(device: Device, shape: Sequence[int], groups: int) -> None:
    inputs = [noise(*shape), noise(6), noise(6) * 0.5]
    plan = planned(lambda b, x, w, c: call(b, "silu", norm(b, x, groups, w, c)), *inputs)
    assert len(plan.launches) == 1
    (found,) = run(device.prepare(plan), plan, inputs)
    x, w, c = (torch.from_numpy(value).double() for value in inputs)
    if groups == 6 and x.numel() == x.shape[0] * 6:  # torch refuses to normalise one element
        wanted = torch.nn.functional.silu(c.reshape(1, 6, *[1] * (x.dim() - 2)).expand(x.shape))
    else:
        wanted = torch.nn.functional.silu(torch.nn.functional.group_norm(x, groups, w, c))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-5, atol=2e-5)


def test_what_goes_in_is_computed_and_comes_out_too(device: Device) -> None:
    inputs = [noise(2, 4, 6, 3), noise(2, 4, 1, 1)]

    def body(builder: Any, x: Any, time: Any) -> Any:
        moved = call(builder, "add", x, time, 1)
        return moved, norm(builder, moved, 2)

    plan = planned(body, *inputs)
    assert len(plan.launches) == 1
    found = run(device.prepare(plan), plan, inputs)
    moved = torch.from_numpy(inputs[0] + inputs[1]).double()
    np.testing.assert_allclose(found[0], moved.numpy(), rtol=1e-6)
    np.testing.assert_allclose(found[1], torch.nn.functional.group_norm(moved, 2).numpy(), rtol=2e-5, atol=2e-5)


def test_channels_last_and_halves(device: Device) -> None:
    x = np.ascontiguousarray(noise(2, 5, 3, 4, dtype="float16")).transpose(0, 3, 1, 2)
    (found,) = results(device, lambda b, x: norm(b, call(b, "neg", x), 2), x)
    wanted = torch.nn.functional.group_norm(-torch.from_numpy(np.array(x)).double(), 2)
    np.testing.assert_allclose(found.astype(np.float64), wanted.numpy(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("affine", [False, True])
def test_an_instance_norm_gathers_each_channel(dtype: str, affine: bool) -> None:
    model = torch.nn.Sequential(torch.nn.InstanceNorm2d(5, affine=affine), torch.nn.SiLU()).to(getattr(torch, dtype))
    x = torch.randn(2, 5, 6, 7, dtype=getattr(torch, dtype), generator=torch.Generator().manual_seed(3))
    fusion = irs.fuse(irs.load(model, x))
    assert len(fusion.groups) == 1, fusion.remarks
    with torch.no_grad():
        wanted = model.double()(x.double())
    tolerance = {"float16": 3e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    torch.testing.assert_close(irs.compile(fusion)(x).double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("train", [False, True])
def test_an_instance_norm_with_running_statistics_stays_with_the_library(train: bool) -> None:
    model = torch.nn.InstanceNorm1d(3, track_running_stats=True).train(train)
    numbers = f"n = None; train = {train}; momentum = 0.1; eps = 1e-05"
    text = ir(f"x m v | {numbers}; y = instance_norm x n n m v train momentum eps train; z = tanh y | z")
    x, m, v = torch.randn(2, 3, 8), torch.randn(3), torch.rand(3) + 0.5
    model.running_mean, model.running_var = m.clone(), v.clone()
    fusion = irs.fuse(irs.parse(text))
    given = m.clone(), v.clone()
    with torch.no_grad():
        wanted = model(x).tanh()
    torch.testing.assert_close(irs.compile(fusion)(x, *given), wanted)
    torch.testing.assert_close(given, (model.running_mean, model.running_var))
