"""Sums of exponentials in one pass, and what is computed more cheaply for halves: against torch in float64."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.cuda import cheaper_for_halves
from irscope.codegen.cuda import schedule as cuda_schedule
from irscope.codegen.cuda.instruction_text import ONE_PLUS_ERF
from irscope.codegen.kernel import Instruction, KernelSpec, LaunchPlan, reduction_nest, traffic_of, use_online_softmax
from irscope.runtime.cuda import CudaDevice
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedGpu, emulated_device
from tests.codegen.kernels import Array, call, dense, planned, run
from tests.codegen.numerics.test_random import check_reductions

torch = pytest.importorskip("torch")


emulated = pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")

OPS = {
    "softmax": (lambda b, x, d: call(b, "softmax", x, d, None), lambda x, d: torch.softmax(x, d)),
    "log_softmax": (lambda b, x, d: call(b, "log_softmax", x, d, None), lambda x, d: torch.log_softmax(x, d)),
    "logsumexp": (lambda b, x, d: call(b, "logsumexp", x, [d], False), lambda x, d: torch.logsumexp(x, d)),
}
HALVES = {"float16": 2**-10, "bfloat16": 2**-7}
"""The distance of 1 from the next number."""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CudaDevice:
    return emulated_device(tmp_path_factory.mktemp("emulated"))


def plan_for(op: str, shape: tuple[int, ...], dim: int, dtype: str = "float32") -> LaunchPlan:
    """One of the ops over a row-major tensor."""
    return planned(partial(OPS[op][0], d=dim), dense(*shape, dtype=dtype))


def computed(device: CudaDevice, op: str, x: Array, dim: int, dtype: str = "float32") -> Array:
    """What the kernel makes of it, in float64."""
    plan = plan_for(op, x.shape, dim, dtype)
    prepared = device.prepare(plan)
    given = x.astype(np.float64) if dtype == "float64" else x.astype(np.float32)
    words = given if dtype in ("float32", "float64") else torch.from_numpy(given).to(getattr(torch, dtype))
    operand = words if isinstance(words, np.ndarray) else words.view(torch.uint16).numpy()
    (found,) = run(prepared, plan, [operand])
    if dtype in HALVES:
        found = torch.from_numpy(found.view(np.int16).copy()).view(getattr(torch, dtype)).double().numpy()
    return found.astype(np.float64)


def exact(op: str, x: Array, dim: int, dtype: str = "float32") -> Array:
    """Torch's answer in float64, for the same operand."""
    rounded = torch.from_numpy(x.astype(np.float64)).to(getattr(torch, dtype)).double()
    return np.asarray(OPS[op][1](rounded, dim))


def edges(row: int) -> Array:
    """Rows of everything that could go wrong, some of it in one part of the row only."""
    rng = np.random.default_rng(row)
    rows = rng.standard_normal((13, row)) * 3
    rows[1] = -np.inf
    rows[2, : row // 2] = -np.inf
    rows[3, row // 2 :] = -np.inf
    rows[4, 17] = np.inf
    rows[5, [3, row - 1]] = np.inf
    rows[6, row - 2] = np.nan
    rows[7, [1, row - 1]] = np.nan, np.inf
    rows[8], rows[8, 5] = -np.inf, np.nan
    rows[9], rows[9, 0] = -np.finfo(np.float32).max / 4, np.finfo(np.float32).max / 4
    rows[10] = -np.finfo(np.float32).max
    rows[11] = np.linspace(-300, 300, row)
    rows[12] = np.linspace(90, -90, row)
    return rows


@emulated
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("row", "parts"), [(20_003, False), (140_000, True)])
def test_infinities_and_nan(device: CudaDevice, op: str, row: int, parts: bool) -> None:
    rows = edges(row)
    for start in range(0, len(rows), 1 if parts else len(rows)):
        some = rows[start : start + 1] if parts else rows
        if parts and start not in (1, 2, 3, 5, 7, 8, 10, 11):
            continue
        with np.errstate(all="ignore"):
            want = exact(op, some, -1)
        bound = {"rtol": 6e-6, "atol": 1e-37} if op == "softmax" else {"rtol": 3e-7, "atol": 1e-6}  # of x - maximum
        np.testing.assert_allclose(computed(device, op, some, -1), want, **bound, err_msg=f"row {start}")
    gpu = device._gpu
    assert isinstance(gpu, EmulatedGpu)
    assert any("p" in name.split("_")[2] for name, *_ in gpu.launched) == parts
    gpu.launched.clear()


@emulated
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_element_types(device: CudaDevice, op: str, dtype: str) -> None:
    rows = edges(40_000)[[0, 1, 2, 4, 6, 12]]
    with np.errstate(all="ignore"):
        want = exact(op, rows, -1, dtype)
    unit = HALVES.get(dtype, 1e-12)
    np.testing.assert_allclose(computed(device, op, rows, -1, dtype), want, rtol=unit, atol=unit * 2**-14)


@emulated
@pytest.mark.parametrize("op", OPS)
def test_columns(device: CudaDevice, op: str) -> None:
    for row, dtype in ((300, "float32"), (2500, "bfloat16")):
        columns = np.ascontiguousarray(edges(row).T)[:, :12]
        with np.errstate(all="ignore"):
            want = exact(op, columns, 0, dtype)
        unit = HALVES.get(dtype, 3e-6)
        least = unit * 2**-14 if op == "softmax" or dtype in HALVES else 1e-6
        np.testing.assert_allclose(computed(device, op, columns, 0, dtype), want, rtol=unit, atol=least)


@emulated
def test_a_slowly_rising_row_is_rescaled_at_every_element_and_stays_exact(device: CudaDevice) -> None:
    rising = np.linspace(0, 1, 60_000)[None]
    np.testing.assert_allclose(computed(device, "softmax", rising, -1), exact("softmax", rising, -1), rtol=2e-6)


@emulated
def test_the_same_bits_every_time(device: CudaDevice) -> None:
    x = np.random.default_rng(9).standard_normal((1, 90_001)) * 20
    first = computed(device, "softmax", x, -1)
    np.testing.assert_array_equal(first, computed(device, "softmax", x, -1))
    np.testing.assert_array_equal(computed(device, "logsumexp", x, -1), computed(device, "logsumexp", x, -1))


@emulated
@pytest.mark.parametrize("start", [2000, 2010])
def test_random_groups_whose_rows_do_not_stay_in_registers(device: CudaDevice, monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    monkeypatch.setattr(cuda_schedule, "HELD_BYTES", 0)
    assert sum(check_reductions(device, seed) for seed in range(start, start + 10)) >= 6


# -- which sums -------------------------------------------------------------------------------------------------------


def rows_of(code: list[Instruction], *inputs: int) -> KernelSpec:
    """A spec over rows of float32 whose last instruction is its result."""
    from irscope.codegen.kernel.spec import Operand, Result

    return KernelSpec(
        tuple(Operand("float32", "tensor", (2, 1)) for _ in range(1 + len(inputs))), tuple(code),
        (Result("float32", (2, 0), len(code) - 1),), 2, reduced=(1,),
    )  # fmt: skip


def f(op: str, *args: int, value: int | None = None) -> Instruction:
    return Instruction(op, args, "float32", value)


def test_a_row_is_read_once_less() -> None:
    for op, before, after in (("softmax", 3, 2), ("log_softmax", 3, 2), ("logsumexp", 2, 1)):
        for dtype in ("float32", "bfloat16"):
            (launch,) = plan_for(op, (64, 100_000), -1, dtype).launches
            online = use_online_softmax(launch.spec)
            assert [len(reduction_nest(spec).passes) for spec in (launch.spec, online)] == [before, after], op
            item = 2 if dtype == "bfloat16" else 4
            moved = [sum(traffic_of(spec, held=False)) for spec in (launch.spec, online)]
            assert moved[0] - moved[1] == item


def test_a_cut_row_takes_two_launches_less() -> None:
    plan = plan_for("softmax", (1, 1 << 20), -1)
    kernels = CudaDevice().kernels_of(plan)
    assert [kernel.schedule.partial for kernel in kernels] == [True, False, False]


@pytest.mark.parametrize(
    "code",
    [
        [f("input", value=0), f("reduce_max", 0), f("sub", 1, 0), f("exp", 2), f("reduce_sum", 3)],
        [f("input", value=0), f("reduce_min", 0), f("sub", 0, 1), f("exp", 2), f("reduce_sum", 3)],
        [f("input", value=0), f("input", value=1), f("reduce_max", 0), f("sub", 1, 2), f("exp", 3), f("reduce_sum", 4)],
        [f("input", value=0), f("reduce_max", 0), f("sub", 0, 1), f("exp", 2), f("reduce_prod", 3)],
        [f("input", value=0), f("reduce_max", 0), f("sub", 0, 1), f("exp", 2), f("mul", 0, 3), f("reduce_sum", 4)],
    ],
    ids=["max - x", "the smallest", "another's largest", "a product", "weighted"],
)
def test_sums_that_look_alike_and_are_others_are_left_alone(code: list[Instruction]) -> None:
    spec = rows_of(code, *([1] if any(step.value == 1 for step in code) else []))
    assert use_online_softmax(spec) is spec


@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_nvrtc_compiles_them_without_spills(architecture: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed; it brings NVRTC to this test")
    for op in OPS:
        for dtype in ("float32", "bfloat16", "float64"):
            for shape, dim in (((512, 40_000), -1), ((1, 1 << 22), -1), ((3000, 512), 0)):
                for kernel in CudaDevice().kernels_of(plan_for(op, shape, dim, dtype), architecture=architecture):
                    assert kernel.spill_bytes == 0, kernel


def gelu(b: Any, x: Any) -> Any:
    return call(b, "gelu", x, "none")


def ops(spec: KernelSpec) -> set[str]:
    return {code.op for code in cheaper_for_halves(spec).instructions}


@emulated
@pytest.mark.parametrize(("dtype", "mantissa"), [("bfloat16", 8), ("float16", 11)])
def test_a_gelu_of_every_half_is_within_one_place(dtype: str, mantissa: int, tmp_path: Path) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    plan = planned(gelu, dense(1 << 16, dtype=dtype))
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
    assert not ops(planned(gelu, dense(64, dtype="float32")).specs[0]) & set(ONE_PLUS_ERF.values())
    erf_alone = planned(lambda b, x: call(b, "erf", x), dense(64, dtype="bfloat16")).specs[0]
    assert cheaper_for_halves(erf_alone) is erf_alone, "near zero its relative error would be large"

    def shifted(b: Any, x: Any) -> Any:
        return call(b, "sub", gelu(b, call(b, "to", x, 6, False, False)), 1.0, 1)

    in_single = planned(shifted, dense(64, dtype="bfloat16")).specs[0]
    assert cheaper_for_halves(in_single) is in_single, "its result stays in float32"

    def twice(b: Any, x: Any) -> Any:
        return call(b, "mul", gelu(b, x), 3.0)

    assert ONE_PLUS_ERF["float16"] in ops(planned(twice, dense(64, dtype="float16")).specs[0])


@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_memory_sets_the_pace_of_the_suites_gelu(architecture: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed; it brings NVRTC to this test")
    from tests.benchmarks.gpu_suite import plans_of, programs

    (plan,) = (plan for _, dtype, graph in programs(["k2"]) if dtype == "bfloat16" for plan in plans_of(graph))
    (kernel,) = CudaDevice().kernels_of(plan, architecture=architecture)
    assert kernel.spill_bytes == 0 and kernel.facts.issue_share < 0.9
