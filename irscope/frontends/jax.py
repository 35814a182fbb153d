"""JAX functions with example arguments, and results of `jax.jit(f).lower(...)`, read through StableHLO.

Functions that JAX emits as private (a `closed_call`, `jnp.clip`) are inlined, so that a program is one graph.
An argument that is a list, tuple or dictionary is one input per leaf, in the order in which Python holds them; the compiled
program takes the same nested arguments, with the keys of dictionaries in any order. JAX itself sorts them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from irscope._base.leaves import leaves_by_path
from irscope.errors import ArgumentError, CaptureError, MissingExtra
from irscope.ir import Graph, Module, TensorType, Value, make_block, make_value, nested_paths, new_id
from irscope.ir.module import inlined, renamed_body

__all__ = ["load", "name", "reads", "suffixes"]

name: Final = "JAX function with arguments, or what lower() gives"
suffixes: Final = ()


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts a lowered or compiled function, a jitted one, and any function called with JAX arrays."""
    jax = sys.modules.get("jax")
    if jax is None or isinstance(source, str | bytes | Path) or not hasattr(jax, "stages"):
        return False
    if isinstance(source, jax.stages.Lowered | jax.stages.Compiled):
        return True
    if _is_jitted(source):
        return True
    return callable(source) and any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(args))


def _is_jitted(source: object) -> bool:
    home = type(source).__module__.partition(".")[0]
    return home in ("jax", "jaxlib") and callable(getattr(source, "lower", None)) and callable(source)


def load(source: Any, args: Sequence[Any], *, name: str | None = None) -> Graph:
    """Returns the function's StableHLO as a graph.

    Raises CaptureError if JAX cannot trace or lower it, ArgumentError for arguments that do not fit.
    """
    jax = _require()
    if isinstance(source, jax.stages.Compiled):
        raise CaptureError("a compiled JAX function is machine code", hint="load jax.jit(f).lower(*args), or f itself")
    if isinstance(source, jax.stages.Lowered):
        graph = _with_unread(_imported(source, name), source)
        if args:
            given = len(jax.tree_util.tree_leaves(args))
            if given != len(graph.inputs):
                raise ArgumentError(f"{given} example arguments for {len(graph.inputs)} inputs", hint="pass one for each")
        args, kwargs = jax.tree_util.tree_unflatten(source.in_tree, range(source.in_tree.num_leaves))
        return replace(graph, argument_paths=nested_paths((*args, *kwargs.values()), len(graph.inputs)))
    lowered, kept = _lowered(source, args)
    graph = _with_unread(_imported(lowered, name or getattr(source, "__name__", "") or "jax"), lowered)
    return _ordered(graph, source, args, kept)


def _require() -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra("jax", extra="jax", purpose="to load a JAX function") from None
    return jax


def _lowered(source: Any, args: Sequence[Any]) -> tuple[Any, bool]:
    """Returns the function lowered for these arguments, and whether every argument is an input of it."""
    jax = _require()
    title = getattr(source, "__name__", type(source).__name__)
    if not args and inspect.isfunction(source) and inspect.signature(source).parameters:
        raise ArgumentError(f"{title} needs example arguments", hint=f"irs.load({title}, jnp.zeros((2, 3)))")
    try:
        try:
            return jax.jit(source, keep_unused=True).lower(*args), True
        except Exception:
            if not _is_jitted(source):
                raise
            return source.lower(*args), False  # it has static arguments of its own
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()][:6]
        raise CaptureError(
            f"JAX cannot lower {title}: {type(error).__name__}", where="\n".join(lines),
            hint="check that jax.jit(function)(*arguments) runs",
        ) from None  # fmt: skip


def _imported(lowered: Any, name: str | None) -> Graph:
    from irscope.frontends.mlir.parse.bindings import bindings_of
    from irscope.frontends.mlir.source import import_module

    module = lowered.compiler_ir(dialect="stablehlo")
    bindings = bindings_of(module)
    assert bindings is not None  # JAX's own
    made = import_module(module.operation, bindings, name=name or "")
    graph = inlined(made, "main") if isinstance(made, Module) else made
    title = re.sub(r"\W", "_", name or str(graph.name)) or "jax"
    return replace(graph, name=title if title.isidentifier() else "jax")


def _with_unread(graph: Graph, lowered: Any) -> Graph:
    """Adds an input for each argument that the function does not read, which `lower` leaves out."""
    jax = _require()
    described = jax.tree_util.tree_leaves(lowered.args_info)
    if len(described) == len(graph.inputs):
        return graph
    read = getattr(getattr(lowered, "_lowering", None), "compile_args", {}).get("kept_var_idx", ())
    if len(read) != len(graph.inputs) or not all(index < len(described) for index in read):
        return graph
    inputs = iter(graph.inputs)
    params = [
        next(inputs) if index in read else make_value(new_id(), _type_of(argument), f"unread_{index}")
        for index, argument in enumerate(described)
    ]
    body = graph.body
    return replace(graph, body=make_block(body.id, tuple(params), body.nodes, body.returns))


def _type_of(argument: Any) -> TensorType:
    """Returns the type of an argument from JAX's shape and element type."""
    from irscope.frontends.mlir.types import ELEMENTS

    element, shape = str(argument.dtype), tuple(map(int, argument.shape))
    return TensorType(element, shape, None if shape else ()) if element in ELEMENTS.values() else TensorType()


def _ordered(graph: Graph, source: Any, args: Sequence[Any], kept: bool) -> Graph:
    """Orders the inputs as Python holds the arguments' leaves (JAX sorts dictionary keys), and names them after the
    arguments."""
    jax = _require()
    if not kept:
        return graph
    paths, _ = jax.tree_util.tree_flatten_with_path(tuple(args))
    if len(paths) != len(graph.inputs):
        return graph
    places = {tuple(map(_key, path)): index for index, (path, _) in enumerate(paths)}
    ways = [path for path, _ in leaves_by_path(tuple(args)) if path in places]
    order = [places[path] for path in ways]
    if len(order) != len(paths):  # containers that only JAX flattens
        order, ways = list(range(len(paths))), []
    names = list(_names(source, [path for path, _ in paths]))
    renamed = {value: make_value(value.id, value.type, title) for value, title in zip(graph.inputs, names, strict=True)}
    nested = any(len(way) > 1 for way in ways)
    return replace(_with_inputs(graph, renamed, order), argument_paths=tuple(ways) if nested else ())


def _key(part: Any) -> Any:
    """Returns one step of JAX's path to a leaf: a key, an index, or a field name."""
    return getattr(part, "key", getattr(part, "idx", getattr(part, "name", part)))


def _names(source: Any, paths: Sequence[Any]) -> Iterator[str]:
    """Yields names such as `x`, `params.w`, `layers.0.b`: the parameter's name and the path to the leaf."""
    try:
        parameters = list(inspect.signature(source).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for first, *rest in paths:
        head = plain[first.idx] if first.idx < len(plain) else f"arg{first.idx}"
        yield ".".join(re.sub(r"\W", "_", str(part)) for part in (head, *map(_key, rest)) if str(part))


def _with_inputs(graph: Graph, renamed: dict[Value, Value], order: Sequence[int]) -> Graph:
    """Returns the graph with renamed inputs in another order."""
    body = renamed_body(graph.body, renamed)
    params = [body.params[index] for index in order]
    return replace(graph, body=make_block(body.id, tuple(params), body.nodes, body.returns))
