"""A pool of aligned memory for results.

The C library returns a large block to the system when it is freed, and each new one then costs a page fault every
4 KiB: more than most fused kernels take to fill it. A pool keeps blocks instead. An array from a pool returns its block
when the array, every view of it and every tensor that shares it are gone.
"""

import threading
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE

ALIGNMENT: Final = 64
"""Bytes: one cache line, and one vector of the widest registers."""

_NUMPY_TYPE: Final = {**{dtype: dtype for dtype in ITEM_SIZE}, "bfloat16": "uint16"}


class BufferPool:
    """Blocks of memory by size class; safe to share between threads."""

    def __init__(self, *, limit_bytes: int = 2 << 30) -> None:
        self._limit = limit_bytes
        self._lock = threading.RLock()  # a block may come back while one is taken: the collector runs anywhere
        self._free: dict[int, list[np.ndarray[Any, Any]]] = {}
        self.free_bytes = 0
        """The bytes kept for later use."""

    def empty(self, shape: Sequence[int], dtype: str, strides: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
        """Returns an array with undefined contents; strides are in elements, and row-major when left out.

        bfloat16 arrays are arrays of uint16 words.
        """
        item = ITEM_SIZE[dtype]
        if strides is None or 0 in shape:
            count = prod(shape)
        else:  # with gaps between elements, or repeated elements
            count = 1 + sum([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])
        lease = _Lease(self._take(_size_class(count * item)))
        weakref.finalize(lease, self._give_back, lease.block).atexit = False
        steps = None if strides is None else tuple(stride * item for stride in strides)
        return np.ndarray(tuple(shape), _NUMPY_TYPE[dtype], np.asarray(lease), 0, steps)

    def clear(self) -> None:
        """Returns all free blocks to the system."""
        with self._lock:
            self._free.clear()
            self.free_bytes = 0

    def _take(self, size: int) -> np.ndarray[Any, Any]:
        with self._lock:
            blocks = self._free.get(size)
            if blocks:
                self.free_bytes -= size
                return blocks.pop()
        try:
            raw = np.empty(size + ALIGNMENT, np.uint8)
        except MemoryError:
            self.clear()  # blocks of other sizes may hold the memory
            raw = np.empty(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size]

    def _give_back(self, block: np.ndarray[Any, Any]) -> None:
        with self._lock:
            if self.free_bytes + block.size <= self._limit:
                self._free.setdefault(block.size, []).append(block)
                self.free_bytes += block.size


class _Lease:
    """The owner of a block in use: arrays over it keep this object alive, not the block's own array."""

    __slots__ = ("__array_interface__", "__weakref__", "block")

    def __init__(self, block: np.ndarray[Any, Any]) -> None:
        self.block = block
        self.__array_interface__ = block.__array_interface__


def _size_class(size: int) -> int:
    """Returns the next block size: eight steps between powers of two, so at most an eighth is wasted.

    >>> _size_class(1), _size_class(100), _size_class(1 << 20), _size_class((1 << 20) + 1)
    (64, 128, 1048576, 1179648)
    """
    step = max(ALIGNMENT, 1 << max(size.bit_length() - 4, 0))
    return max(-(-size // step) * step, ALIGNMENT)
