"""Arrays on a GPU for a program without torch: CuPy's, and those of others that share memory by DLPack.

Arguments of NumPy are copied to the GPU, and results back; JAX's arrays and every other array with `__dlpack__` are
used where they lie. Results are of the kind of the first array among the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from irscope.codegen.kernel_spec import ITEM_SIZE
from irscope.errors import ArgumentError
from irscope.ir.types import TensorType, Type
from irscope.runtime.memory import Make, Memory, extents, number_type

__all__ = ["CupyMemory", "as_torch_on_gpu", "giver_back"]


class CupyMemory(Memory):
    """CuPy's arrays and its allocator."""

    def __init__(self, cupy: Any) -> None:
        """`cupy`: the module."""
        self.cupy = cupy

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

    def maker(self, type: TensorType) -> Make:
        assert type.dtype is not None
        if type.dtype == "bfloat16":
            raise ArgumentError(
                "CuPy has no bfloat16", hint="load the program from torch, whose tensors it then takes", rule="no-dtype"
            )
        shape, cupy, dtype = extents(type), self.cupy, np.dtype(type.dtype)
        steps = tuple(step * dtype.itemsize for step in type.strides or ())
        nbytes = max(1, ITEM_SIZE[type.dtype] * int(np.prod(shape, dtype=np.int64)))
        return lambda: cupy.ndarray(shape, dtype, memptr=cupy.cuda.alloc(nbytes), strides=steps)

    def address(self, tensor: Any) -> int:
        return tensor.data.ptr  # type: ignore[no-any-return]

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        array = self.cupy.ndarray
        return [x.data.ptr if isinstance(x, array) else x for x in operands]

    def adopted(self, value: Any) -> Any:
        """An argument on the GPU: copied from NumPy, shared with anything that offers DLPack."""
        if isinstance(value, self.cupy.ndarray):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self.cupy.asarray(value)
        return self.cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else value


def giver_back(arguments: Sequence[Any], cupy: Any) -> Callable[[Any], Any]:
    """What makes a result the kind of array that the arguments are; arguments without arrays give NumPy's."""
    first = next((x for x in arguments if hasattr(x, "shape") and hasattr(x, "dtype")), None)
    if isinstance(first, cupy.ndarray):
        return lambda result: result
    jax = sys.modules.get("jax")
    if first is not None and jax is not None and isinstance(first, jax.Array):
        return lambda result: jax.dlpack.from_dlpack(result) if isinstance(result, cupy.ndarray) else result
    return lambda result: cupy.asnumpy(result) if isinstance(result, cupy.ndarray) else result


def as_torch_on_gpu(value: Any) -> Any:
    """An array of another library as a tensor that shares its memory; anything else as it is."""
    import torch

    if hasattr(value, "__dlpack__") and not isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return torch.from_dlpack(value)
    return value
