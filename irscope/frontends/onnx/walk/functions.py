"""Inlines calls of functions: the model's own, and those by which ONNX defines its composite ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from irscope.errors import LoadError
from irscope.frontends.emit import Refused
from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.reading.inference import proto_of, schema_of_op
from irscope.frontends.onnx.walk.frame import Frame, Walk

__all__ = ["call", "check_sizes", "expanded", "with_attributes"]


def with_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """Returns the node with references to attributes of the enclosing function replaced by the attributes of the
    call."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    kept = []
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            own = type(attribute)()
            own.CopyFrom(source)
            own.name = attribute.name
            kept.append(own)
    made = type(node)()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(kept)
    return made


_MAX_NODES: Final = 30_000
"""How many nodes function calls may expand to, in addition to twenty times those in the file: a few lines can ask for
2^40."""


def check_sizes(model: Any) -> None:
    """Raises LoadError if the model's functions call themselves, or expand to far more nodes than the file has."""
    bodies = {(f.domain, f.name, f.overload): list(_all_nodes(f.node)) for f in model.functions}
    top = list(_all_nodes(model.graph.node))
    if not bodies:
        return
    limit = _MAX_NODES + 20 * (len(top) + sum(map(len, bodies.values())))
    total = len(top) + sum(_sizes(bodies).get(_key(node), 0) for node in top)
    if total > limit:
        what = f"the calls of functions expand to {total if total < 1 << 60 else 'more than 2^60'} nodes"
        raise LoadError(what, hint="inline the functions yourself (onnx.inliner), or load a part of the model")


def _key(node: Any) -> tuple[str, str, str]:
    return node.domain, node.op_type, getattr(node, "overload", "")


def _all_nodes(nodes: Any) -> Iterator[Any]:
    """Yields nodes, and those of the bodies in their attributes."""
    stack = [iter(nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            inner = [graph.node for a in node.attribute for graph in ((a.g,) if a.HasField("g") else a.graphs)]
            if inner:
                stack.append(chain(*inner))
                break
        else:
            stack.pop()


def _sizes(bodies: Mapping[tuple[str, str, str], Sequence[Any]]) -> Mapping[tuple[str, str, str], int]:
    """Returns how many nodes each function expands to, callees first. Raises LoadError for a recursive function."""
    found: dict[tuple[str, str, str], int] = {}
    for start in bodies:
        stack, open_ = [start], set[tuple[str, str, str]]()
        while stack:
            here = stack[-1]
            missing = set() if here in found else {key for node in bodies[here] if (key := _key(node)) in bodies} - found.keys()
            if not missing:
                if here not in found:
                    found[here] = sum(1 + found.get(_key(node), 0) for node in bodies[here])
                open_.discard(stack.pop())
                continue
            open_.add(here)  # only those on the stack that are being counted, each called by the one before
            if open_ & missing:
                raise LoadError(f"the function {here[1]!r} calls itself", hint="ONNX has no recursion: write a Loop")
            stack.extend(missing)
    return found


def call(walk: Walk, function: Any, site: Call, frame: Frame) -> Sequence[Result]:
    """Inlines one of the model's functions at its call."""
    attributes = {proto.name: proto for proto in function.attribute_proto} | site.attributes
    opsets = {entry.domain or "ai.onnx": entry.version for entry in function.opset_import} or frame.opsets
    return _inlined(walk, function, site, replace(frame, opsets=opsets, attributes=attributes))


def expanded(walk: Walk, site: Call, domain: str, frame: Frame) -> Sequence[Result] | None:
    """Inlines the function that defines one of ONNX's ops; None if there is none. Raises Refused if an op in it has no
    `aten::` meaning."""
    function = _definition(site, domain)
    if function is None:
        return None
    opsets = {entry.domain or "ai.onnx": entry.version for entry in function.opset_import}
    versions = {**frame.opsets, domain: site.opset, **opsets}
    inner = replace(frame, opsets=versions, attributes=_filled(site, domain))
    refused = len(walk.refusals)
    found = _inlined(walk, function, site, inner)
    if len(walk.refusals) == refused:
        return found
    _, op, why = walk.refusals[refused]
    del walk.refusals[refused:]
    raise Refused(f"its definition uses {op}: {why}")


def _filled(site: Call, domain: str) -> Mapping[str, Any]:
    """Returns the attributes of a node, with the defaults of its schema."""
    schema = schema_of_op(site.node.op_type, domain, site.opset)
    defaults = {name: item.default_value for name, item in schema.attributes.items() if item.default_value.name}
    return defaults | site.attributes


def _definition(site: Call, domain: str) -> Any:
    """Returns the FunctionProto of an op; None for an op that ONNX does not define by others."""
    import onnx

    schema = schema_of_op(site.node.op_type, domain, site.opset)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= site.opset]
        types = [_type_bytes(site, index) for index in range(len(site.inputs))]
        if not versions or None in types:
            return None
        try:
            content = schema.get_context_dependent_function_with_opset_version(
                max(versions), site.node.SerializeToString(), types
            )
        except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
            return None
    elif schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= site.opset]
        content = schema.get_function_with_opset_version(max(versions)) if versions else b""
    else:
        return None
    return onnx.FunctionProto.FromString(content) if content else None


def _type_bytes(site: Call, index: int) -> bytes | None:
    import onnx

    if not site.has(index):
        return bytes(onnx.TypeProto().SerializeToString())
    proto = proto_of(site.type(index))
    return None if proto is None else bytes(proto.SerializeToString())


def _inlined(walk: Walk, function: Any, site: Call, frame: Frame) -> Sequence[Result]:
    names = {name: held for name, held in zip(function.input, site.inputs, strict=False) if held is not None}
    scope = walk.emit.place.scope
    title = site.node.name.rpartition("/")[2] or site.node.op_type
    inner = replace(
        frame, names=names, outer=(), told={}, scope=f"{scope}.{title}" if scope else title, depth=frame.depth + 1
    )
    missing = set(function.input[len(site.inputs) :]) | {
        name for name, held in zip(function.input, site.inputs, strict=False) if held is None
    }
    nodes = [_without(node, missing) for node in function.node] if missing else function.node
    walk.nodes(nodes, inner)
    wanted = function.output[: len(site.node.output)]
    found = [
        inner.names.get(name) if not site.node.output[index] else walk.found(inner, name, function.name)
        for index, name in enumerate(wanted)
    ]
    return [held.value if held is not None and held.value is not None else held for held in found]  # type: ignore[misc]


def _without(node: Any, missing: set[str]) -> Any:
    """Returns a node without the inputs that the call omits."""
    if not any(name in missing for name in node.input):
        return node
    made = type(node)()
    made.CopyFrom(node)
    del made.input[:]
    made.input.extend("" if name in missing else name for name in node.input)
    return made
