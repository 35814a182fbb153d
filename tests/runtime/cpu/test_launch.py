"""One launch on the processor: numbers reach the kernel unchanged, anything else is refused before the kernel runs."""

import gc
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch, LaunchPlan, Operand, Result
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.cpu.launch import LaunchCall, stores_should_stream
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.kernels import call, group

pytest.importorskip("llvmlite")

CODE = tuple(Instruction("input", (), dtype, place) for place, dtype in enumerate(("float64", "float64", "int64")))


@pytest.fixture
def device(tmp_path: Path) -> CpuDevice:
    return CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=1)


def plan(size: int) -> LaunchPlan:
    """x * number, and a whole number in every element."""
    code = (*CODE, Instruction("mul", (0, 1), "float64"))
    inputs = (Operand("float64", "tensor", (1,)), Operand("float64", "scalar"), Operand("int64", "scalar"))
    spec = KernelSpec(inputs, code, (Result("float64", (1,), 3), Result("int64", (1,), 2)), 1)
    launch = Launch(spec, (size,), (0, 1, 2), (0, 1), ((1,), (1,), (1,), (), ()))
    return LaunchPlan((launch,), (TensorType("float64", (size,), (1,)), TensorType("int64", (size,), (1,))), 3)


def launched(device: CpuDevice, size: int = 5) -> LaunchCall:
    (launch,) = device.prepare(plan(size))._calls
    assert isinstance(launch, LaunchCall)
    return launch


def arrays(size: int = 5) -> tuple[Any, Any, Any]:
    return np.zeros(size), np.zeros(size, np.int64), np.arange(size) + 0.5


@pytest.mark.parametrize("number", [2.5, -1.0, 3, True, np.float64(-0.25), np.float32(1.5), float("nan"), float("inf")])
@pytest.mark.parametrize("whole", [7, -1, -(2**63), 2**63 - 1, True, np.int32(-3)])
def test_numbers_arrive_as_they_are(device: CpuDevice, number: Any, whole: Any) -> None:
    product, filled, x = arrays()
    launched(device)([product.ctypes.data, filled.ctypes.data], [x.ctypes.data, number, whole])
    np.testing.assert_array_equal(product, x * float(number))
    assert set(filled) == {int(whole)}


@pytest.mark.parametrize(("change", "error"), [
    ((3, "text"), TypeError), ((4, 1.5), struct.error), ((4, 2**63), struct.error), ((2, None), ValueError),
    ((3, None), TypeError), ((3, 10**400), struct.error),
])  # fmt: skip
def test_what_is_not_a_number_is_refused_before_the_kernel_runs(device: CpuDevice, change: tuple[int, Any], error: type[Exception]) -> None:
    product, filled, x = arrays()
    words: list[Any] = [product.ctypes.data, filled.ctypes.data, x.ctypes.data, 2.0, 7]
    words[change[0]] = change[1]
    with pytest.raises(error):
        launched(device)(words[:2], words[2:])
    assert not product.any()
    assert not filled.any()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_tensor_without_memory_is_refused(device: CpuDevice, place: int) -> None:
    product, filled, x = arrays()
    words: list[Any] = [product.ctypes.data, filled.ctypes.data, x.ctypes.data, 0, 0]
    words[place] = 0
    with pytest.raises(ValueError, match="no memory"):
        launched(device)(words[:2], words[2:])
    assert not filled.any()


def test_a_tensor_without_memory_is_refused_however_far_the_launch_starts(device: CpuDevice) -> None:
    moved = replace(plan(5).launches[0], offsets=(0, 0, 3, 0, 0))
    (launch,) = device.prepare(replace(plan(5), launches=(moved,)))._calls
    assert isinstance(launch, LaunchCall)
    product, filled, x = arrays(8)
    launch([product.ctypes.data, filled.ctypes.data], [x.ctypes.data, 2.0, 7])
    np.testing.assert_array_equal(product[:5], x[3:] * 2)
    with pytest.raises(ValueError, match="no memory"):
        launch([product.ctypes.data, filled.ctypes.data], [0, 2.0, 7])


def test_a_launch_outlives_the_device_and_the_plan(device: CpuDevice) -> None:
    launch = launched(device)
    del device
    gc.collect()
    product, filled, x = arrays()
    launch([product.ctypes.data, filled.ctypes.data], [x.ctypes.data, 2.0, 7])
    np.testing.assert_array_equal(product, x * 2)


def test_many_threads_call_one_launch(device: CpuDevice) -> None:
    size = 400_000  # long enough to let the others run
    launch = launched(device, size)

    def work(number: float) -> None:
        product, filled, x = arrays(size)
        for _ in range(5):
            launch([product.ctypes.data, filled.ctypes.data], [x.ctypes.data, number, int(number)])
            np.testing.assert_array_equal(product, x * number)
            assert (filled == int(number)).all()

    with ThreadPoolExecutor(4) as pool_of_threads:
        list(pool_of_threads.map(work, (1.0, 2.0, 3.0, 4.0)))


@pytest.mark.parametrize(
    ("shape", "streams"),
    [
        ((9765, 1024), True), ((100, 100_000), True), ((5000, 1024), False),  # the last fits the caches
        ((1_000_000, 10), False), ((312_500, 32), False), ((100_000, 100), False), ((20_000, 500), False),
    ],
)  # fmt: skip
def test_stores_pass_the_caches_only_in_long_rows(shape: tuple[int, int], streams: bool) -> None:
    made = group(lambda b, x, bias: call(b, "add", x, bias, 1), [TENSOR] * 2)
    plan = spec_of_group(made, [TensorType("float32", shape), TensorType("float32", shape[1:])])
    assert stores_should_stream(plan.launches[0], 64) == streams
