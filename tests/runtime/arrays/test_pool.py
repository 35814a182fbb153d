"""Pooled memory: aligned, of the asked layout, never shared by two that live, used again when no user is left."""

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from irscope.runtime.arrays import pool as buffers
from irscope.runtime.arrays.pool import ALIGNMENT, BufferPool


def test_arrays_are_aligned_and_laid_out_as_asked() -> None:
    pool = BufferPool()
    for dtype in ("float32", "bool", "bfloat16", "int64"):
        array = pool.empty((3, 5), dtype, (1, 3))
        assert array.ctypes.data % ALIGNMENT == 0 and array.strides == (array.itemsize, 3 * array.itemsize)
    assert pool.empty((2, 2), "bfloat16").dtype == np.uint16 and pool.empty((0, 4), "float32").shape == (0, 4)
    assert pool.empty((), "float64").shape == ()


def test_two_that_live_never_share() -> None:
    pool = BufferPool()
    arrays = [pool.empty((100,), "int32") for _ in range(20)]
    for index, array in enumerate(arrays):
        array[:] = index
    assert all((array == index).all() for index, array in enumerate(arrays))


def test_a_view_keeps_the_memory() -> None:
    pool = BufferPool()
    array = pool.empty((1000,), "float32")
    array[:] = 1
    view = array[10:20].reshape(2, 5).T
    del array
    gc.collect()
    other = pool.empty((1000,), "float32")
    other[:] = 2
    assert (view == 1).all()
    address = other.ctypes.data
    del other, view
    gc.collect()
    both = [pool.empty((1000,), "float32") for _ in range(2)]
    assert pool.free_bytes == 0, "both blocks came back and are in use again"
    assert address in {array.ctypes.data for array in both}


def test_a_tensor_over_the_array_keeps_the_memory(torch: Any) -> None:
    pool = BufferPool()
    tensor = torch.from_numpy(pool.empty((64,), "float32"))
    tensor.fill_(3)
    gc.collect()
    assert pool.free_bytes == 0
    pool.empty((64,), "float32")[:] = 4
    assert bool((tensor == 3).all())
    del tensor
    gc.collect()
    assert pool.free_bytes == 512


def test_the_pool_is_bounded_and_can_be_emptied() -> None:
    pool = BufferPool(limit_bytes=10_000)
    arrays = [pool.empty((1000,), "float32") for _ in range(10)]
    del arrays
    gc.collect()
    assert 0 < pool.free_bytes <= 10_000
    pool.clear()
    assert pool.free_bytes == 0


def test_many_threads_take_and_give_back() -> None:
    pool = BufferPool()

    def work(mark: int) -> None:
        for size in range(1, 200):
            array = pool.empty((size,), "int64")
            array[:] = mark
            assert (array == mark).all()

    with ThreadPoolExecutor(6) as pool_of_threads:
        list(pool_of_threads.map(work, range(6)))


def test_when_memory_is_short_free_blocks_of_other_sizes_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = BufferPool()
    pool.empty((1 << 20,), "float32")
    assert pool.free_bytes >= 4 << 20
    made, empty = [], np.empty

    def scarce(size: int, dtype: Any) -> Any:
        made.append(pool.free_bytes)
        if pool.free_bytes:
            raise MemoryError
        return empty(size, dtype)

    monkeypatch.setattr(buffers.np, "empty", scarce)
    held = pool.empty((1 << 21,), "float32")
    assert held.shape == (1 << 21,)
    assert len(made) == 2
    assert pool.free_bytes == 0
