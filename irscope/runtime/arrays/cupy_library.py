"""Nodes without a kernel, for arrays on a GPU in a process without torch: NumPy's references, run on copies.

CuPy refuses every implicit transfer from the GPU to the processor, so a reference written for NumPy does not run on its
arrays. Here each operand is copied, NumPy computes, and the results and in-place writes are copied back: correct but slow.
Views keep sharing memory without a copy: a reference first runs on operands of the same strides with undefined elements,
and where its result is a view of one of them, the same view of the array on the GPU is built. If a program spends time in
such nodes, install torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from irscope.ir import Node, OpSchema, TensorData
from irscope.ops.registry import op_of, schema_of
from irscope.runtime.arrays.library import NumpyLibrary

__all__ = ["CupyLibrary", "is_cupys", "off_the_gpu"]

_PYTHONS: Final = ("container", "control")
"""Categories of ops that keep their operands by identity, and read no element."""


def is_cupys(value: object) -> bool:
    """Checks whether this is a CuPy array; does not import CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def off_the_gpu(value: Any) -> Any:
    """Returns a CuPy array as a NumPy array, a copy; anything else unchanged.

    >>> off_the_gpu(3)
    3
    """
    return sys.modules["cupy"].asnumpy(value) if is_cupys(value) else value


class CupyLibrary(NumpyLibrary):
    """The NumPy references for CuPy's arrays."""

    def __init__(self, cupy: Any) -> None:
        """`cupy`: the module."""
        self.cupy = cupy

    def function(self, node: Node) -> Callable[..., Any]:
        reference = super().function(node)
        op, schema = op_of(node), schema_of(node)
        if op is not None and op.category in _PYTHONS:
            return reference
        written = _written(schema, len(node.inputs))
        may_view = not written and (schema is None or any(result.alias is not None for result in schema.returns))

        def run(*given: Any) -> Any:
            if may_view:
                shadows = _Shadows(self.cupy, given, copied=False)
                with np.errstate(all="ignore"):
                    found = reference(*shadows.operands)
                seen = shadows.back(found, only_views=True)
                if seen is not None:
                    return seen
            shadows = _Shadows(self.cupy, given, copied=True)
            result = reference(*shadows.operands)
            for number in written:
                shadows.write_back(given[number], shadows.operands[number])
            return shadows.back(result)

        return run

    def _tensor(self, payload: TensorData) -> Any:
        return self.cupy.asarray(super()._tensor(payload))


def _written(schema: OpSchema | None, given: int) -> tuple[int, ...]:
    """Returns the positions of the operands that the op writes."""
    arguments = () if schema is None else schema.arguments[:given]
    return tuple(number for number, argument in enumerate(arguments) if argument.alias and argument.alias.is_write)


class _Shadows:
    """Copies of the operands on the processor, with the strides of the originals on the GPU."""

    def __init__(self, cupy: Any, given: Sequence[Any], *, copied: bool) -> None:
        """`copied`: whether the elements are copied too, rather than undefined."""
        self.cupy = cupy
        self.copied = copied
        self.pairs: list[tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        """An array on the GPU, its shadow, and the shadow's memory."""
        self.operands = [self._shadow(value) for value in given]

    def _shadow(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([self._shadow(item) for item in value])
        if not isinstance(value, self.cupy.ndarray):
            return value
        for array, shadow, _ in self.pairs:
            if array is value:
                return shadow
        reach = [(size - 1) * step for size, step in zip(value.shape, value.strides, strict=True)] if value.size else []
        before = -sum(step for step in reach if step < 0)
        memory = np.empty(before + sum(step for step in reach if step > 0) + value.itemsize, np.uint8)
        shadow = np.ndarray(value.shape, value.dtype, memory, before, value.strides)
        if self.copied:
            shadow[...] = self.cupy.asnumpy(value)
        self.pairs.append((value, shadow, memory))
        return shadow

    def write_back(self, value: Any, shadow: Any) -> None:
        """Copies what NumPy wrote back to the GPU."""
        if isinstance(value, list | tuple):
            for one, other in zip(value, shadow, strict=True):
                self.write_back(one, other)
        elif isinstance(value, self.cupy.ndarray):
            value[...] = self.cupy.asarray(shadow)

    def back(self, result: Any, *, only_views: bool = False) -> Any:
        """Returns a result on the GPU: the operand itself, a view of it, or a copy; None for a copy if only views count."""
        if isinstance(result, list | tuple):
            found = [self.back(item, only_views=only_views) for item in result]
            return None if only_views and any(item is None for item in found) else type(result)(found)
        if isinstance(result, np.ndarray):
            for array, shadow, memory in self.pairs:
                if result is shadow:
                    return array
                if result.size and np.may_share_memory(result, memory):
                    place = array.data + (result.ctypes.data - shadow.ctypes.data)
                    return self.cupy.ndarray(result.shape, result.dtype, place, result.strides)
        if only_views:
            return None
        return self.cupy.asarray(result) if isinstance(result, np.ndarray | np.generic) else result
