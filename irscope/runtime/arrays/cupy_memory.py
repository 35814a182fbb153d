"""Arrays on a GPU for a program without torch: CuPy's, and those of other libraries that share memory by DLPack.

NumPy arguments, and all other arrays on the processor, are copied to the GPU, and results are copied back; JAX's arrays
and all others with `__dlpack__` are used without a copy if they are on a GPU. Results are of the same kind as the first
array among the arguments.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE
from irscope.errors import ArgumentError
from irscope.ir import TensorType, Type
from irscope.runtime.arrays.array_memory import Allocate, Memory, extents, number_type
from irscope.runtime.arrays.dlpack import host_array, is_jaxs, on_processor

__all__ = ["CupyMemory", "as_torch_on_gpu", "dtype_of", "giver_back"]


class CupyMemory(Memory):
    """CuPy's arrays and its allocator."""

    library = "cupy"

    def __init__(self, cupy: Any) -> None:
        """`cupy`: the module."""
        self.cupy = cupy
        self._threads = threading.local()
        self.in_use: deque[tuple[Any, list[Any]]] = deque()
        """Arrays of other libraries that kernels may still read, and the event after those kernels: their library would
        reuse the memory for work on its own streams, which are not ordered after ours."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        array = self.cupy.ndarray
        return tuple([
            (x.dtype, x.shape, x.strides) if isinstance(x, array) else type(x) for x in operands
        ])  # fmt: skip

    def signature(self, arguments: Sequence[Any]) -> Hashable:
        array = self.cupy.ndarray
        if not all(isinstance(x, array) for x in arguments):
            return None
        return self.key(arguments)

    def owns(self, argument: Any) -> bool:
        return type(argument) is self.cupy.ndarray

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        types: list[Type] = []
        for operand in operands:
            if not isinstance(operand, self.cupy.ndarray):
                types.append(number_type(operand))
                continue
            item = operand.itemsize
            if any(step < 0 or step % item for step in operand.strides):
                return None
            types.append(TensorType(str(operand.dtype), operand.shape, tuple(step // item for step in operand.strides)))
        return tuple(types)

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape, cupy, dtype = extents(type), self.cupy, dtype_of(type.dtype)
        steps = tuple(step * dtype.itemsize for step in type.strides or ())
        nbytes = max(1, ITEM_SIZE[type.dtype] * int(np.prod(shape, dtype=np.int64)))
        return lambda: cupy.ndarray(shape, dtype, memptr=cupy.cuda.alloc(nbytes), strides=steps)

    def address(self, tensor: Any) -> int:
        return tensor.data.ptr  # type: ignore[no-any-return]

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        array = self.cupy.ndarray
        return [x.data.ptr if isinstance(x, array) else x for x in operands]

    def adopted(self, value: Any, *, may_write: bool = False) -> Any:
        """Returns an argument on the GPU: shared if it is there and offers DLPack, copied from the processor otherwise.

        An array of JAX's, which is immutable, is copied for a program that may write it.
        """
        if isinstance(value, self.cupy.ndarray):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self.cupy.asarray(value)
        if not hasattr(value, "__dlpack__"):
            return value
        if on_processor(value):
            return self.cupy.asarray(host_array(value))
        shared = self.cupy.from_dlpack(value)
        self._threads.shared = [*getattr(self._threads, "shared", ()), shared]
        return shared.copy() if may_write and is_jaxs(value) else shared

    def given_back(self, arguments: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the results as the arguments' kind of array; keeps shared arguments alive until the kernels are done."""
        shared, self._threads.shared = getattr(self._threads, "shared", []), []
        if shared:
            self.in_use.append((self.cupy.cuda.get_current_stream().record(), shared))
        while self.in_use and self.in_use[0][0].done:
            self.in_use.popleft()
        return tuple(map(giver_back(arguments, self.cupy), results))


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns NumPy's element type of this name; bfloat16 comes from a separate package, which JAX and CuPy use too.

    >>> dtype_of("float16")
    dtype('float16')
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        found: np.dtype[Any] = np.dtype(import_module("ml_dtypes").bfloat16)
        return found
    except ImportError:
        raise ArgumentError(
            "NumPy and CuPy have no bfloat16 without the package ml_dtypes",
            hint="pip install ml_dtypes, or load the program from torch and pass tensors", rule="no-dtype",
        ) from None  # fmt: skip


def giver_back(arguments: Sequence[Any], cupy: Any) -> Callable[[Any], Any]:
    """Returns the conversion of a result to the arguments' kind of array; to NumPy's if no argument is an array."""
    first = next((x for x in arguments if hasattr(x, "shape") and hasattr(x, "dtype")), None)
    if isinstance(first, cupy.ndarray):
        return lambda result: result
    back: Callable[[Any], Any] = cupy.asnumpy
    if is_jaxs(first):
        jax = sys.modules["jax"]
        if on_processor(first):
            back = lambda result: jax.numpy.asarray(cupy.asnumpy(result))  # noqa: E731
        else:  # JAX's arrays have no strides
            back = lambda result: jax.dlpack.from_dlpack(cupy.ascontiguousarray(result))  # noqa: E731
    return lambda result: back(result) if isinstance(result, cupy.ndarray) else result


def as_torch_on_gpu(value: Any, *, may_write: bool = False) -> Any:
    """Returns an array of another library as a tensor that shares its memory, or as a copy if it is immutable and may be
    written; anything else unchanged."""
    import torch

    if hasattr(value, "__dlpack__") and not isinstance(value, torch.Tensor | np.ndarray | np.generic):
        tensor = torch.from_dlpack(value)
        return tensor.clone() if may_write and is_jaxs(value) else tensor
    return value
