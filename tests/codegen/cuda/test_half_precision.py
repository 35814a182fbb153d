"""What is computed more cheaply for halves is as near to the exact value as a half can tell: on every half there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.cuda.instruction_text import ONE_PLUS_ERF, cheaper_for_halves
from irscope.codegen.kernel.spec import KernelSpec, LaunchPlan
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.cuda.device import CudaDevice
from tests.codegen.cuda_emulator import AVAILABLE, emulated_device
from tests.codegen.groups import call, group, run

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]
emulated = pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")


def gelu(b: Any, x: Any) -> Any:
    return call(b, "gelu", x, "none")


def plan_for(body: Any, dtype: str, shape: tuple[int, ...]) -> LaunchPlan:
    """The plan of a group over one row-major tensor."""
    return spec_of_group(group(body, [TENSOR]), [TensorType(dtype, shape, (*shape[1:], 1))])


def ops(spec: KernelSpec) -> set[str]:
    return {code.op for code in cheaper_for_halves(spec).instructions}


@emulated
@pytest.mark.parametrize(("dtype", "mantissa"), [("bfloat16", 8), ("float16", 11)])
def test_a_gelu_of_every_half_is_within_one_place(dtype: str, mantissa: int, tmp_path: Path) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    plan = plan_for(gelu, dtype, words.shape)
    assert ONE_PLUS_ERF[dtype] in ops(plan.specs[0])
    prepared = emulated_device(tmp_path).prepare(plan)
    (found,) = run(prepared, plan, [words if dtype == "bfloat16" else words.view(np.float16)])
    kind = getattr(torch, dtype)
    got = torch.from_numpy(found.view(np.int16).copy()).view(kind).double().numpy()
    x = torch.from_numpy(words.view(np.int16)).view(kind).double()
    exact = (0.5 * x * torch.special.erfc(-x * 2**-0.5)).numpy()
    infinite = torch.isinf(x).numpy()
    assert got[infinite & (x.numpy() > 0)] == np.inf
    finite = ~np.isnan(exact) & ~infinite
    np.testing.assert_array_equal(np.isnan(got)[~finite & ~infinite], True)
    least = torch.finfo(kind).smallest_normal * 2.0 ** (1 - mantissa)
    _, exponent = np.frexp(exact[finite])
    place = np.maximum(np.ldexp(1.0, exponent - mantissa), least)
    rounded = torch.from_numpy(exact[finite]).to(kind)
    overflows = torch.isinf(rounded).numpy()
    error = np.abs(got[finite] - exact[finite])[~overflows] / place[~overflows]
    assert error.max() < 0.75, f"{error.max()} places, at {x.numpy()[finite][~overflows][error.argmax()]}"
    assert (got[finite] != rounded.double().numpy()).mean() < 0.02, "nearly all are rounded right"


def test_only_what_goes_into_a_half_by_products_is_computed_so() -> None:
    shape = (64,)
    assert not ops(plan_for(gelu, "float32", shape).specs[0]) & set(ONE_PLUS_ERF.values())
    erf_alone = plan_for(lambda b, x: call(b, "erf", x), "bfloat16", shape).specs[0]
    assert cheaper_for_halves(erf_alone) is erf_alone, "near zero its relative error would be large"

    def shifted(b: Any, x: Any) -> Any:
        return call(b, "sub", gelu(b, call(b, "to", x, 6, False, False)), 1.0, 1)

    in_single = plan_for(shifted, "bfloat16", shape).specs[0]
    assert cheaper_for_halves(in_single) is in_single, "its result stays in float32"

    def twice(b: Any, x: Any) -> Any:
        return call(b, "mul", gelu(b, x), 3.0)

    assert ONE_PLUS_ERF["float16"] in ops(plan_for(twice, "float16", shape).specs[0])


@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_memory_sets_the_pace_of_the_suites_gelu(architecture: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed; it brings NVRTC to this test")
    from tests.benchmarks.gpu_suite import plans_of, programs

    (plan,) = (plan for _, dtype, graph in programs(["k2"]) if dtype == "bfloat16" for plan in plans_of(graph))
    (kernel,) = CudaDevice().kernels_of(plan, architecture=architecture)
    assert kernel.spill_bytes == 0
    assert kernel.pace().issue_share < 0.9
