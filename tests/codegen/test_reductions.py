"""Reductions and normalisations in groups: torch's values, element types and shapes, in every layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from irscope.codegen.group_plan import spec_of_group
from irscope.codegen.kernel_spec import LaunchPlan
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.base import Device
from irscope.runtime.cache import ObjectStore
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.numpy import NumpyDevice
from tests.codegen.groups import call, group, run, type_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:var\\(\\)")]
torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", params=["numpy", "cpu"])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    if request.param == "numpy":
        return NumpyDevice()
    pytest.importorskip("llvmlite")
    return CpuDevice(store=ObjectStore(tmp_path_factory.mktemp("objects") / "cpu"), threads=1)


def check(
    device: Device, body: Callable[..., Any], eager: Callable[..., Any], *inputs: Any, rtol: float = 2e-6
) -> LaunchPlan:
    """The group gives what torch gives in float64, with torch's element types and shapes."""
    types = [type_of(value) for value in inputs]
    made = group(body, [TENSOR if isinstance(type, TensorType) else type for type in types])
    plan = spec_of_group(made, types)
    found = run(device.prepare(plan), plan, inputs)
    tensors = [torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value for value in inputs]
    wide = [
        value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value
        for value in tensors
    ]
    plain, exact = eager(*tensors), eager(*wide)
    plain, exact = (each if isinstance(each, tuple) else (each,) for each in (plain, exact))
    for array, type, narrow, want in zip(found, plan.outputs, plain, exact, strict=True):
        assert (f"torch.{type.dtype}", type.shape) == (str(narrow.dtype), tuple(narrow.shape))
        if want.is_floating_point():
            sizes = [each[each.isfinite()].abs() for each in (want, *wide) if isinstance(each, torch.Tensor)]
            scale = max((float(each.max()) for each in sizes if each.numel()), default=0.0)
            np.testing.assert_allclose(array, want.numpy(), rtol=rtol * 8, atol=rtol * scale)
        else:
            np.testing.assert_array_equal(array, want.numpy())
    return plan


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    if dtype is np.bool_:
        return rng.random(shape) < 0.9
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 7, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "sliced": lambda x: np.repeat(np.repeat(x, 2, axis=-1), 3, axis=0)[1::3, ..., ::2],
    "expanded": lambda x: np.broadcast_to(x[:, :1].copy(), x.shape),
}

SHAPES = [(3, 5, 7), (2, 70, 33), (1, 1, 1), (4, 1, 130), (300, 2, 3)]
DIMS: list[Any] = [None, -1, 0, 1, [0, 2], [1, 2], [0, 1, 2], []]

OPS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda b, x, d, k: call(b, "sum", x, d, k, None), lambda x, d, k: torch.sum(x, d, k)),
    "mean": (lambda b, x, d, k: call(b, "mean", x, d, k, None), lambda x, d, k: torch.mean(x, d, k)),
    "amax": (lambda b, x, d, k: call(b, "amax", x, d or [], k), lambda x, d, k: torch.amax(x, d or [], k)),
    "amin": (lambda b, x, d, k: call(b, "amin", x, d or [], k), lambda x, d, k: torch.amin(x, d or [], k)),
    "var": (
        lambda b, x, d, k: call(b, "var", x, d, 1, k),
        lambda x, d, k: torch.var(x, dim=d, correction=1, keepdim=k),
    ),
    "norm": (
        lambda b, x, d, k: call(b, "linalg_vector_norm", x, 2, d or None, k, None),
        lambda x, d, k: torch.linalg.vector_norm(x, 2, d or None, k),
    ),
    "logsumexp": (
        lambda b, x, d, k: call(b, "logsumexp", x, d or [0, 1, 2], k),
        lambda x, d, k: torch.logsumexp(x, d or [0, 1, 2], k),
    ),
}


def dims(dim: Any) -> Any:
    return [dim] if isinstance(dim, int) else dim


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_equal_torch(device: Device, op: str, layout: str) -> None:
    body, eager = OPS[op]
    for shape, dim, keepdim in product(SHAPES, DIMS, (False, True)):
        bound = {"d": dims(dim), "k": keepdim}
        check(device, partial(body, **bound), partial(eager, **bound), LAYOUTS[layout](normal(*shape)))
