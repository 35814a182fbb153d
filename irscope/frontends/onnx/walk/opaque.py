"""Imports an ONNX op as it is: `onnx::TopK`, `onnx::com.microsoft.Gelu`, with readable attributes and the known types.

The attribute `opset` is the version of the op, which its execution needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope.errors import LoadError
from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.walk import control
from irscope.frontends.onnx.walk.frame import Frame, Walk
from irscope.ir import TENSOR, Opaque, TensorData, Type
from irscope.ir.builder import BlockBuilder
from irscope.ir.payload import element_name

__all__ = ["append", "payload"]

_NAME = re.compile(r"[A-Za-z_][\w.]*")


def append(walk: Walk, site: Call, domain: str, frame: Frame) -> Sequence[Result]:
    """Appends the node itself; a body among its attributes becomes a block."""
    node = site.node
    name = node.op_type if domain == "ai.onnx" else f"{domain}.{node.op_type}"
    if not _NAME.fullmatch(name):
        raise LoadError(f"the op {name!r} has a name that IR text cannot hold", hint="letters, digits, dots and _")
    attrs: dict[str, Any] = {}
    blocks: list[BlockBuilder] = []
    for attribute in node.attribute:
        if not isinstance(attribute.name, str):
            raise LoadError(f"{name} has an attribute whose name is not UTF-8 text: {attribute.name!r}")
        if attribute.HasField("g"):
            blocks.append(control.plain_block(walk, attribute.g, frame))
        elif attribute.graphs:
            raise LoadError(f"{name} carries several graphs in {attribute.name!r}, which have no counterpart in the IR")
        else:
            attrs[attribute.name] = payload(walk.values.attribute(attribute))
    if getattr(node, "overload", ""):
        attrs["overload"] = node.overload
    attrs["opset"] = site.opset
    inputs = [walk.emit.constant(None) if held is None else walk.values.value_of(held) for held in site.inputs]
    types = _types(walk, site, domain, frame)
    return walk.emit.node(f"onnx::{name}", inputs, types, attrs, blocks, names=list(node.output))


def _types(walk: Walk, site: Call, domain: str, frame: Frame) -> Sequence[Type]:
    """Returns the inferred types; for an op that ONNX does not define, the types declared in the file."""
    types = walk.told(site, domain)
    return [frame.told.get(name, TENSOR) if type == TENSOR else type for name, type in zip(site.node.output, types, strict=True)]


def payload(found: Any) -> Any:
    """Converts an attribute to a form that a node can carry."""
    if isinstance(found, np.ndarray):
        dtype = element_name(found)
        return TensorData(dtype, found.shape, found.view(np.uint16) if dtype == "bfloat16" else found)
    if isinstance(found, list | tuple):
        return tuple(payload(item) for item in found)
    if found is None or isinstance(found, bool | int | float | str):
        return found
    return Opaque(re.sub(r"\s+", " ", str(found)).strip()[:200], found)
