"""What a layout with names says of one run: its numbers, with the names replaced by what they stand for there."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from irscope.ir import TensorType, Value
from irscope.ops.view_steps import Layout, Num

_CALLED = re.compile(r"~?\b(size|stride|first_byte)\(%(\w+)")


def wrong_about(layout: Layout, tensor: torch.Tensor, root: torch.Tensor, names: dict[str, Any]) -> str:
    """Which claim of a layout is false of a tensor; nothing if all hold.

    No claim is made of the strides and the place of a tensor without elements, nor of the strides of axes of one index.
    """
    if [number_in(size, names) for size in layout.shape] != list(tensor.shape):
        return f"extents {tuple(tensor.shape)}, not {layout}"
    if not tensor.numel():
        return ""
    for axis, stride in enumerate(layout.strides or ()):
        if tensor.shape[axis] > 1 and number_in(stride, names) != tensor.stride(axis):
            return f"strides {tensor.stride()}, not {layout}"
    first = tensor.storage_offset() * tensor.element_size() - root.storage_offset() * root.element_size()
    if layout.offset is not None and number_in(layout.offset, names) != first:
        return f"byte {first}, not {layout}"
    return ""


def number_in(number: Num, names: dict[str, Any]) -> int:
    """What a number stands for."""
    if isinstance(number, int):
        return number
    return sum(factor * math.prod(_named(name, names) for name in product) for product, factor in number.terms.items())


def _named(name: str, names: dict[str, Any]) -> int:
    if name in names:
        return int(names[name])
    found = int(eval(_CALLED.sub(r"\1('\2'", name.removeprefix("~")), {"__builtins__": {}}, names))
    names[name] = found
    return found


def names_of(inputs: tuple[Value, ...], tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What the names that begin with inputs stand for, and the functions that are in names."""
    found: dict[str, Any] = {
        "size": lambda name, axis: tensors[name].shape[axis],
        "stride": lambda name, axis: tensors[name].stride(axis),
        "first_byte": lambda name: tensors[name].storage_offset() * tensors[name].element_size(),
        "diagonal": lambda rows, columns, by: max(min(rows, columns - by) if by >= 0 else min(rows + by, columns), 0),
        "min": min, "max": max, "ceil": math.ceil,
    }  # fmt: skip
    for value in inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            sizes = zip(value.type.shape, tensors[value.name].shape, strict=True)
            found.update({dim: size for dim, size in sizes if isinstance(dim, str)})
    return found
