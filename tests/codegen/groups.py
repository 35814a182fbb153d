"""Fusion groups from a few lines of Python, and ways to run their plans on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irscope.codegen.kernel.spec import LaunchPlan
from irscope.ir.builder import GraphBuilder
from irscope.ir.core import Node, Value
from irscope.ir.types import BOOL, FLOAT, INT, TENSOR, TensorType, Type

Array = np.ndarray[Any, Any]

CANARY = 0xA5


def group(body: Callable[..., Any], inputs: Sequence[Type]) -> Node:
    """The group whose block `body(builder, *params)` writes; it gives the block's result or results."""
    builder = GraphBuilder()
    outer = [builder.input(f"x{i}", type) for i, type in enumerate(inputs)]
    with builder.block([(f"p{i}", type) for i, type in enumerate(inputs)]) as block:
        results = body(builder, *block.params)
        results = [results] if isinstance(results, Value) else list(results)
        block.returns(results)
    outputs = builder.structured(
        "prim::FusionGroup", outer, [TENSOR] * len(results), [block], attrs={"kind": "pointwise"}
    )
    return next(node for node in builder.finish(outputs).nodes() if node.op == "prim::FusionGroup")


def call(builder: GraphBuilder, op: str, *args: Any) -> Value:
    """One node; plain Python arguments become constants."""
    values = [arg if isinstance(arg, Value) else builder.constant(arg) for arg in args]
    return builder.op(op if "::" in op else f"aten::{op}", *values)


def type_of(array: Any, dtype: str | None = None) -> Type:
    """The type of an array or number."""
    if isinstance(array, bool):
        return BOOL
    if isinstance(array, int):
        return INT
    if isinstance(array, float):
        return FLOAT
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorType(dtype or str(array.dtype), array.shape, strides)


def run(prepared: Any, plan: LaunchPlan, inputs: Sequence[Any]) -> list[Array]:
    """Run a prepared plan into fresh arrays, and check that nothing around them was written."""
    pairs = [guarded(type) for type in plan.outputs]
    prepared(
        [array.ctypes.data for _, array in pairs], [x.ctypes.data if isinstance(x, np.ndarray) else x for x in inputs]
    )
    for memory, array in pairs:
        check_guard(memory, array)
    return [array for _, array in pairs]


def guarded(type: TensorType, *, guard: int = 256) -> tuple[Array, Array]:
    """An array of this type, not aligned to more than its elements, in the middle of memory filled with canaries."""
    name = "uint16" if type.dtype == "bfloat16" else str(type.dtype)
    item = np.dtype(name).itemsize
    assert type.shape is not None
    assert type.strides is not None
    assert type.numel is not None
    memory = np.full(type.numel * item + 2 * guard + item, CANARY, np.uint8)
    steps = tuple(stride * item for stride in type.strides)
    start = guard + item - memory.ctypes.data % item
    return memory, np.ndarray(tuple(type.shape), name, memory, start, steps)  # type: ignore[arg-type]


def check_guard(memory: Array, array: Array) -> None:
    """The bytes around an array are as they were."""
    start, stop = (place - memory.ctypes.data for place in getattr(np.lib, "array_utils", np).byte_bounds(array))
    assert (memory[:start] == CANARY).all(), "written before the array"
    assert (memory[stop:] == CANARY).all(), "written behind the array"
