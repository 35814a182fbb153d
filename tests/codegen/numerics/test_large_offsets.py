"""Elements more than 2^31 places away, and more than 2^31 points: by the arithmetic of places, in memory that is mostly
never touched, with only the last part or the last blocks of a launch run.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irscope.codegen.cuda.schedule import grid_of, schedule_of
from irscope.codegen.kernel.spec import LaunchPlan
from irscope.errors import CodegenError
from irscope.ir.types import TensorType
from irscope.ops.expr.expression import input_element
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.cpu.launch import LaunchCall, split_kept
from irscope.runtime.cuda.launch import laid_out
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedGpu, emulated_device
from tests.codegen.kernels import Array, call, plan_of, planned
from tests.codegen.numerics.test_edges import device_of

FAR = (1 << 31) + 4096

pytest.importorskip("llvmlite")
sparse = pytest.mark.skipif(
    not sys.platform.startswith("linux") or sys.maxsize < 1 << 40, reason="memory that is only reserved needs Linux"
)
cuda = pytest.param("cuda", marks=pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test"))


def reserved(nbytes: int) -> Array:
    """So many bytes of zeros of which only those that are touched take memory."""
    try:
        return np.zeros(nbytes, np.uint8)
    except MemoryError:
        pytest.skip("the system reserves no memory of this size")


def far_rows() -> Array:
    """Three rows whose starts are `FAR` apart."""
    rows = np.ndarray((3, 40), np.uint8, reserved(2 * FAR + 64), 0, (FAR, 1))
    rows[...] = np.arange(120).reshape(3, 40)
    return rows


def run_last(text: str, folder: Path, plan: LaunchPlan, result: Array, given: Array) -> int:
    """Run the last of very many parts of the only launch, as a thread of its own would, or the last block of a grid; return how
    many of the last points the part has."""
    (launch,) = plan.launches
    if text == "cuda":
        assert schedule_of(launch).wide
        emulated = emulated_device(folder)
        assert isinstance(emulated._gpu, EmulatedGpu)
        emulated._gpu.last_blocks = 1
        emulated.prepare(plan)([result.ctypes.data], [given.ctypes.data])
        return 0
    kernel, part = CpuDevice(store=ObjectStore(folder / "cpu"), threads=1).compile(launch.spec), split_kept(launch, 1 << 12, 16)[-1]
    LaunchCall(kernel.code.call, launch, (part,))([result.ctypes.data], [given.ctypes.data])
    return int(np.prod(part.dims[: len(launch.sizes)]))


@sparse
@pytest.mark.parametrize("text", ["cpu", "numpy", cuda])
def test_rows_that_lie_far_apart_are_read_and_written(text: str, tmp_path: Path) -> None:
    rows, written = far_rows(), reserved(2 * FAR + 64)
    plan = plan_of([input_element(0, "uint8") + 1], [rows], ["uint8"], rows.shape)
    (launch,) = plan.launches
    far = replace(plan, launches=(replace(launch, strides=((FAR, 1), (FAR, 1))),))
    device_of(text, tmp_path).prepare(far)([written.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(np.ndarray((3, 40), np.uint8, written, 0, (FAR, 1)), rows + 1)
    assert not written[40:104].any()


@sparse
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("text", ["cpu", cuda])
def test_rows_that_lie_far_apart_are_summed(text: str, axis: int, tmp_path: Path) -> None:
    rows = far_rows()
    plan = planned(lambda b, x: call(b, "sum", x, [axis], False, None), TensorType("uint8", (3, 40), (FAR, 1)))
    sums = np.zeros(rows.shape[1 - axis], np.int64)
    device_of(text, tmp_path).prepare(plan)([sums.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(sums, rows.sum(axis, dtype=np.int64))


@sparse
@pytest.mark.parametrize("text", ["cpu", cuda])
def test_more_points_than_31_bits_count(text: str, tmp_path: Path) -> None:
    """The points that run are beyond 2^31, and end with a remainder, which the first block of a grid computes."""
    length = FAR + 13
    given, result = reserved(length), reserved(length)
    given[-5000:] = np.arange(5000) % 251
    plan = plan_of([input_element(0, "uint8") + 1], [given], ["uint8"], (length,))
    points = run_last(text, tmp_path, plan, result, given)
    if text == "cuda":
        done = slice(-400 - length % 16, -(length % 16))
        np.testing.assert_array_equal(result[done], given[done] + 1)
        return
    assert 5000 < points < 1 << 20
    np.testing.assert_array_equal(result[-points:], given[-points:] + 1)
    assert not result[-points - 5000 : -points].any()


@sparse
@pytest.mark.parametrize(("text", "last"), [("cpu", 200), pytest.param("cuda", 8, marks=cuda.marks)])
def test_the_last_of_many_rows(text: str, last: int, tmp_path: Path) -> None:
    rows = FAR // 8
    given, result = reserved(rows * 8), reserved(rows * 8)
    given[-8 * last :] = np.arange(8 * last) % 253
    plan = planned(lambda b, x: call(b, "amax", x, [1], False), TensorType("uint8", (rows, 8), (8, 1)))
    points = run_last(text, tmp_path, plan, result, given)
    assert text == "cuda" or points > last
    np.testing.assert_array_equal(result[:rows][-last:], given[-8 * last :].reshape(last, 8).max(1))


@sparse
@pytest.mark.long
def test_the_place_of_an_element_beyond_2_to_the_31(tmp_path: Path) -> None:
    given = reserved(FAR)
    given[-3] = 7
    plan = planned(lambda b, x: call(b, "argmax", x, 0, False), TensorType("uint8", (FAR,), (1,)))
    found = np.zeros((), np.int64)
    device_of("cpu", tmp_path).prepare(plan)([found.ctypes.data], [given.ctypes.data])
    assert int(found) == FAR - 3


def test_grids_of_launches_that_do_not_fit_memory() -> None:
    """2^40 points are counted exactly, and more blocks than a GPU has are refused."""
    huge = TensorType("float32", (1 << 20, 1 << 20), (1 << 20, 1))
    (launch,) = planned(lambda b, x: call(b, "neg", x), huge).launches
    schedule = schedule_of(launch)
    assert schedule.wide
    assert grid_of(launch, schedule, vector=True) == ((1 << 40) // 4 // 256 // schedule.repeat, 1)
    with pytest.raises(CodegenError, match="needs more blocks than a GPU has"):
        laid_out(None, launch, schedule)
    step = planned(lambda b, x: call(b, "sum", x, [1], False, None), huge).launches[0]
    assert laid_out(None, step, schedule_of(step)).grid == (1 << 20, 1)
