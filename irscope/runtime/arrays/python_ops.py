"""Ops that run in Python whatever the library: their semantics are in their attributes, in the number of results, or
outside the program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from irscope.errors import RunError
from irscope.ir import (
    Node,
    TensorType,
    Type,
)
from irscope.runtime.constants import is_a

__all__ = ["python_function"]


def python_function(node: Node) -> Callable[..., Any] | None:
    """Returns the function that runs such a node on its operands; None for every other node."""
    match node.op:
        case "prim::ListConstruct":
            return lambda *items: list(items)
        case "prim::TupleConstruct":
            return lambda *items: items
        case "prim::DictConstruct":
            return lambda *items: dict(zip(items[::2], items[1::2], strict=True))
        case "prim::ListUnpack" | "prim::TupleUnpack" | "prim::ConstantChunk":
            return partial(_unpack, len(node.outputs)) if node.op != "prim::ConstantChunk" else partial(_chunk, node)
        case "aten::__is__" | "aten::__isnot__" if any(isinstance(value.type, TensorType) for value in node.inputs):
            wanted = node.op == "aten::__is__"
            return lambda a, b: (a is b) == wanted
        case "prim::Uninitialized" | "prim::TimePoint":
            return lambda: None
        case "prim::Print":
            return lambda *items: print(*items)
        case "prim::RaiseException":
            return _raise
        case "aten::warn":
            return lambda message, *rest: warnings.warn(str(message), stacklevel=2)
        case "prim::isinstance":
            return partial(_isinstance, _as_tuple(node.attrs.get("types", ())))
        case "prim::GetAttr":
            return lambda holder, name=node.attrs["name"]: holder.getattr(name)
        case "prim::SetAttr":
            return lambda holder, value, name=node.attrs["name"]: holder.setattr(name, value)
        case "prim::CallMethod":
            return lambda holder, *args, name=node.attrs["name"]: holder._get_method(name)(*args)
    return None


def _unpack(count: int, items: Sequence[Any]) -> Any:
    """Returns the items of a list or tuple; a single item is returned alone, as for every node with one result."""
    if len(items) != count:
        raise RunError(f"cannot unpack {len(items)} values into {count}")
    return items[0] if count == 1 else items


def _chunk(node: Node, tensor: Any) -> Any:
    """`prim::ConstantChunk`: pieces of equal size, the last one possibly smaller."""
    count, dim = int(node.attrs["chunks"]), int(node.attrs["dim"])
    step = -(-tensor.shape[dim] // count)
    index: list[Any] = [slice(None)] * len(tensor.shape)
    pieces = []
    for start in range(0, step * count, step):
        index[dim] = slice(start, start + step)
        pieces.append(tensor[tuple(index)])
    return _unpack(len(node.outputs), pieces)


def _raise(message: Any, kind: Any = None) -> None:
    name = f"{kind}".rpartition(".")[2] if kind else "Exception"
    raise RunError(f"the program raises {name}: {message}", hint="the program's own check failed on these arguments")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _isinstance(types: tuple[Type, ...], value: Any) -> bool:
    return any(is_a(value, type) for type in types)
