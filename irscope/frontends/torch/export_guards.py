"""The assumptions of `torch.export` about the arguments, as guards that the program checks at each call.

Three things are specialised in an exported program and not visible in it: numbers, flags and strings that were
arguments; the offset of an argument in its storage, where `as_strided` counts from the storage's start; and that two
arguments are distinct objects, where the shape of one is changed in place. Other arguments raise a ValueError that says
so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from irscope.ir import BOOL, INT, GraphBuilder, Value

__all__ = ["guard_arguments"]

Constant = Callable[[Any], Value]


def guard_arguments(
    build: GraphBuilder, constant: Constant, env: Mapping[Any, Any], signature: Any, module: Any
) -> None:
    """Append the guards to the open block; `env` has a value for each placeholder of the module's FX graph."""
    specs = zip([node for node in env if node.op == "placeholder"], signature.input_specs, strict=True)
    given = {node: spec for node, spec in specs if spec.kind.name == "USER_INPUT"}
    for node, spec in given.items():
        baked = getattr(spec.arg, "value", None)
        if isinstance(baked, bool | int | float | str):
            message = f"the program was exported for {node.name}={baked!r}, export it again for another"
            _guard(build, constant, env[node], baked, message)
    for node in _bases(module.graph.nodes):
        baked = node.meta["val"].storage_offset()
        if node in given and isinstance(baked, int):
            found = build.op("aten::storage_offset", env[node], type=INT)
            message = f"the program was exported for {node.name} from element {baked} of its storage on, export it again for another"
            _guard(build, constant, found, baked, message)
    tensors = [node for node in given if hasattr(node.meta.get("val"), "storage_offset")]
    for changed in _reshaped(module.graph.nodes):
        for other in tensors if changed in given else ():
            if other is not changed:
                found = build.op("aten::__is__", env[changed], env[other], type=BOOL)
                both = f"two tensors {changed.name} and {other.name}, and changes the shape of the first"
                _guard(build, constant, found, False, f"the program was exported for {both}: they must not be the same object")


def _guard(build: GraphBuilder, constant: Constant, found: Value, baked: bool | int | float | str, message: str) -> None:
    differs = build.op("aten::ne", found, constant(baked), type=BOOL)
    operands = constant(message), constant("builtins.ValueError")
    with build.block() as fails:
        build.node("prim::RaiseException", operands, ())
    with build.block() as goes_on:
        pass
    build.structured("prim::If", (differs,), (), (fails, goes_on))


def _bases(nodes: Iterable[Any]) -> list[Any]:
    """Return the placeholders whose storage an `as_strided` with an explicit offset addresses, directly or through
    views."""
    base_of: dict[Any, Any] = {}
    found: dict[Any, None] = {}
    for node in nodes:
        base = _first_operand(node, base_of)
        if base is None:
            continue
        schema = getattr(node.target, "_schema", None)
        if node.target is operator.getitem or (schema is not None and schema.arguments[0].alias_info is not None):
            base_of[node] = base
        if schema is not None and "as_strided" in schema.name:
            place = [argument.name for argument in schema.arguments].index("storage_offset")
            if len(node.args) > place or "storage_offset" in node.kwargs:
                found[base] = None
    return list(found)


def _reshaped(nodes: Iterable[Any]) -> list[Any]:
    """Return the placeholders whose shape or strides an op changes in place."""
    object_of: dict[Any, Any] = {}
    found: dict[Any, None] = {}
    for node in nodes:
        base = _first_operand(node, object_of)
        if base is None or not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            continue
        object_of[node] = base
        if any(tag.name == "inplace_view" for tag in node.target.tags):
            found[base] = None
    return list(found)


def _first_operand(node: Any, known: dict[Any, Any]) -> Any:
    """Return the placeholder known for a call's first operand; a placeholder is its own."""
    if node.op == "placeholder":
        known[node] = node
    return known.get(node.args[0]) if node.op == "call_function" and node.args and hasattr(node.args[0], "op") else None
