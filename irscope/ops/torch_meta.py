"""Infers the result types of ops without a type rule by running them in torch on `meta` tensors, which have no elements."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from irscope._base.concurrency.restored import without_gradients
from irscope.ir import Node, TensorType
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.typing import Abstract, Unknown, contiguous_strides, refined, static_shape

__all__ = ["meta_types"]


class _NotStatic(Exception):
    """Raised for an operand that is not known in full."""


@lru_cache(maxsize=1)
def has_torch() -> bool:
    """Whether torch is installed; does not import it."""
    return importlib.util.find_spec("torch") is not None


def meta_types(node: Node, operands: Sequence[Abstract]) -> Sequence[Abstract] | str:
    """Return what is known about each result, or the reason why nothing is."""
    schema = schema_of(node)
    if schema is None or not schema.name.startswith("aten::"):
        return f"nothing is known of {node.op}" if schema is None else f"{node.op} has no type rule"
    if effect_of(node) not in ("pure", "view") or not any(
        isinstance(output.type, TensorType) for output in node.outputs
    ):
        return f"{node.op} has no type rule"
    if not has_torch():
        return f"{node.op} has no type rule, and torch, which may know, is not installed"
    try:
        arguments = [_meta(operand) for operand in operands]
    except _NotStatic:
        return f"{node.op} has no type rule, and its operands are not known in full"
    return _run(schema.name.removeprefix("aten::"), schema.overload, schema.arguments, arguments, len(node.outputs))


def _run(
    name: str, overload: str, declared: Sequence[Any], arguments: list[Any], count: int
) -> Sequence[Abstract] | str:
    import torch

    positional = [value for argument, value in zip(declared, arguments, strict=False) if not argument.keyword_only]
    keyword = {
        argument.name: value for argument, value in zip(declared, arguments, strict=False) if argument.keyword_only
    }
    try:
        packet = getattr(torch.ops.aten, name)
        result = without_gradients(torch, getattr(packet, overload or "default"), *positional, **keyword)
    except Exception as error:  # torch raises errors of any class for an op without a meta kernel
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        return f"torch cannot infer the type of {name}: {first_line}"
    results = result if count != 1 else (result,)
    return [_fact(item) for item in results] if len(results) == count else f"{name} gives {len(results)} results"


def _meta(operand: Abstract) -> Any:
    import torch

    if isinstance(operand, TensorType):
        shape = static_shape(operand)
        if shape is None or operand.dtype is None:
            raise _NotStatic
        return torch.empty_strided(
            shape, operand.strides or contiguous_strides(shape), dtype=getattr(torch, operand.dtype), device="meta"
        )
    if isinstance(operand, Unknown):
        raise _NotStatic
    if isinstance(operand, list | tuple):
        return [_meta(item) for item in operand]
    return operand


def _fact(result: Any) -> Abstract:
    """Convert torch's result, without strides: those of a meta kernel need not be those of the kernel that runs."""
    if isinstance(result, list | tuple):
        return [_fact(item) for item in result]
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        return refined(str(result.dtype).removeprefix("torch."), tuple(result.shape))
    return result
