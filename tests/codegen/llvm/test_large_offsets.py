"""Elements more than 2^31 places away, and more than 2^31 points, on the processor: in memory that is mostly never touched,
with only the last part of a launch run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irscope.codegen.kernel.spec import LaunchPlan
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from irscope.ops.expr.expression import input_element
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.cpu.launch import LaunchCall, split_kept
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.cuda.test_large_offsets import FAR, reserved, sparse
from tests.codegen.kernels import Array, call, group, plan_of

pytest.importorskip("llvmlite")
pytestmark = sparse


@pytest.fixture
def device(tmp_path: Path) -> CpuDevice:
    return CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=1)


def run_last_part(device: CpuDevice, plan: LaunchPlan, result: Array, given: Array) -> int:
    """Run the last of very many parts of the only launch, as a thread of its own would; how many points it has."""
    (launch,) = plan.launches
    kernel, part = device.compile(launch.spec), split_kept(launch, 1 << 12, 16)[-1]
    LaunchCall(kernel.call, launch, (part,))([result.ctypes.data], [given.ctypes.data])
    return int(np.prod(part.dims[: len(launch.sizes)]))


@pytest.mark.parametrize("text", ["cpu", "numpy"])
def test_rows_that_lie_far_apart_are_read_and_written(device: CpuDevice, text: str) -> None:
    given, written = reserved(2 * FAR + 64), reserved(2 * FAR + 64)
    rows = np.ndarray((3, 40), np.uint8, given, 0, (FAR, 1))
    rows[...] = np.arange(120).reshape(3, 40)
    plan = plan_of([input_element(0, "uint8") + 1], [rows], ["uint8"], rows.shape)
    (launch,) = plan.launches
    far = replace(plan, launches=(replace(launch, strides=((FAR, 1), (FAR, 1))),))
    prepared = (NumpyDevice() if text == "numpy" else device).prepare(far)
    prepared([written.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(np.ndarray((3, 40), np.uint8, written, 0, (FAR, 1)), rows + 1)
    assert not written[40:104].any()


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_lie_far_apart_are_summed(device: CpuDevice, axis: int) -> None:
    given = reserved(2 * FAR + 64)
    rows = np.ndarray((3, 40), np.uint8, given, 0, (FAR, 1))
    rows[...] = np.arange(120).reshape(3, 40)
    type = TensorType("uint8", (3, 40), (FAR, 1))
    plan = spec_of_group(group(lambda b, x: call(b, "sum", x, [axis], False, None), [TENSOR]), [type])
    sums = np.zeros(rows.shape[1 - axis], np.int64)
    device.prepare(plan)([sums.ctypes.data], [rows.ctypes.data])
    np.testing.assert_array_equal(sums, rows.sum(axis, dtype=np.int64))


def test_more_points_than_31_bits_count(device: CpuDevice) -> None:
    length = FAR + 13
    given, result = reserved(length), reserved(length)
    given[-5000:] = np.arange(5000) % 251
    plan = plan_of([input_element(0, "uint8") + 1], [given], ["uint8"], (length,))
    points = run_last_part(device, plan, result, given)
    assert 5000 < points < 1 << 20
    np.testing.assert_array_equal(result[-points:], given[-points:] + 1)
    assert not result[-points - 5000 : -points].any()


def test_the_last_of_many_rows(device: CpuDevice) -> None:
    rows = FAR // 8
    given, result = reserved(rows * 8), reserved(rows * 8)
    given[-8000:] = np.arange(8000) % 253
    type = TensorType("uint8", (rows, 8), (8, 1))
    plan = spec_of_group(group(lambda b, x: call(b, "amax", x, [1], False), [TENSOR]), [type])
    assert run_last_part(device, plan, result, given) > 200
    np.testing.assert_array_equal(result[:rows][-200:], given[-1600:].reshape(200, 8).max(1))


@pytest.mark.long
def test_the_place_of_an_element_beyond_2_to_the_31(device: CpuDevice) -> None:
    given = reserved(FAR)
    given[-3] = 7
    plan = spec_of_group(group(lambda b, x: call(b, "argmax", x, 0, False), [TENSOR]), [TensorType("uint8", (FAR,), (1,))])
    found = np.zeros((), np.int64)
    device.prepare(plan)([found.ctypes.data], [given.ctypes.data])
    assert int(found) == FAR - 3
