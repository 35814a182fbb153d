"""Elements more than 2^31 places away, and more than 2^31 points: by the arithmetic of places, in memory that is mostly
never touched, with only the last blocks of a launch run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from irscope.codegen.cuda.schedule import grid_of, schedule_of
from irscope.codegen.kernel.spec import LaunchPlan
from irscope.codegen.lowering.lower import spec_of_group
from irscope.errors import CodegenError
from irscope.ir.types import TENSOR, TensorType
from irscope.ops.expr.expression import input_element
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.cuda.launch import laid_out
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedGpu, emulated_device
from tests.codegen.kernels import Array, call, group, plan_of

FAR = (1 << 31) + 4096

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")
sparse = pytest.mark.skipif(
    not sys.platform.startswith("linux") or sys.maxsize < 1 << 40, reason="memory that is only reserved needs Linux"
)


def reserved(nbytes: int) -> Array:
    """So many bytes of zeros of which only those that are touched take memory."""
    try:
        return np.zeros(nbytes, np.uint8)
    except MemoryError:
        pytest.skip("the system reserves no memory of this size")


def device(folder: Path, last_blocks: int | None = None) -> CudaDevice:
    """An emulated device that runs only the last blocks of each launch."""
    made = emulated_device(folder)
    assert isinstance(made._gpu, EmulatedGpu)
    made._gpu.last_blocks = last_blocks
    return made


def plan_for(body: object, *types: TensorType) -> LaunchPlan:
    """The plan of a group."""
    return spec_of_group(group(body, [TENSOR] * len(types)), types)  # type: ignore[arg-type]


@sparse
def test_rows_that_lie_far_apart(tmp_path: Path) -> None:
    memory = reserved(2 * FAR + 64)
    rows = np.ndarray((3, 40), np.uint8, memory, 0, (FAR, 1))
    rows[...] = np.arange(120).reshape(3, 40)
    plan = plan_of([input_element(0, "uint8") + 1], [rows], ["uint8"], rows.shape)
    found = np.zeros((3, 40), np.uint8)
    device(tmp_path).prepare(plan)([found.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(found, rows + 1)
    type = TensorType("uint8", (3, 40), (FAR, 1))
    sums = np.zeros(3, np.int64)
    total = plan_for(lambda b, x: call(b, "sum", x, [1], False, None), type)
    device(tmp_path).prepare(total)([sums.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(sums, rows.sum(1, dtype=np.int64))
    columns = np.zeros(40, np.int64)
    total = plan_for(lambda b, x: call(b, "sum", x, [0], False, None), type)
    device(tmp_path).prepare(total)([columns.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(columns, rows.sum(0, dtype=np.int64))


@sparse
def test_more_points_than_31_bits_count(tmp_path: Path) -> None:
    """Only the last block runs: its points are beyond 2^31, and end with a remainder."""
    length = FAR + 13
    given, result = reserved(length), reserved(length)
    given[-1000:] = np.arange(1000) % 251
    plan = plan_of([input_element(0, "uint8") + 1], [given], ["uint8"], (length,))
    assert schedule_of(plan.launches[0]).wide
    device(tmp_path, last_blocks=1).prepare(plan)([result.ctypes.data], [given.ctypes.data])
    behind = given[-1000:] + 1
    done = 1000 - length % 16
    np.testing.assert_array_equal(result[-1000:][:done][-400:], behind[:done][-400:])


@sparse
def test_the_last_of_many_rows(tmp_path: Path) -> None:
    rows = FAR // 8
    given, result = reserved(rows * 8), reserved(rows * 8)
    given[-64:] = np.arange(64)
    type = TensorType("uint8", (rows, 8), (8, 1))
    plan = plan_for(lambda b, x: call(b, "amax", x, [1], False), type)
    assert schedule_of(plan.launches[0]).wide
    device(tmp_path, last_blocks=1).prepare(plan)([result.ctypes.data], [given.ctypes.data])
    np.testing.assert_array_equal(result[:rows][-8:], given[-64:].reshape(8, 8).max(1))


def test_grids_of_launches_that_do_not_fit_memory() -> None:
    """2^40 points are counted exactly, and more blocks than a GPU has are refused."""
    huge = TensorType("float32", (1 << 20, 1 << 20), (1 << 20, 1))
    (launch,) = plan_for(lambda b, x: call(b, "neg", x), huge).launches
    schedule = schedule_of(launch)
    assert schedule.wide
    assert grid_of(launch, schedule, vector=True) == ((1 << 40) // 4 // 256 // schedule.repeat, 1)
    with pytest.raises(CodegenError, match="needs more blocks than a GPU has"):
        laid_out(None, launch, schedule)
    step = plan_for(lambda b, x: call(b, "sum", x, [1], False, None), huge).launches[0]
    assert laid_out(None, step, schedule_of(step)).grid == (1 << 20, 1)
