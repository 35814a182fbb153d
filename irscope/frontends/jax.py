"""JAX functions with example arguments, and results of `jax.jit(f).lower(...)`, read through StableHLO; and how JAX runs ops of it.

Functions that JAX emits as private (a `closed_call`, `jnp.clip`) are inlined, so that a program is one graph.
An argument that is a list, tuple or dictionary is one input per leaf, in the order in which Python holds them; the compiled
program takes the same nested arguments, with the keys of dictionaries in any order. JAX itself sorts them.
"""

import inspect
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope._base.loaded_code import loaded_files
from irscope._base.nested import argument_names, leaves_by_path, step_of
from irscope.errors import ArgumentError, CaptureError, MissingExtra, RunError
from irscope.frontends.mlir.types import ELEMENTS, is_plain_string
from irscope.frontends.refusals import failed_at, first_line
from irscope.ir import Block, Graph, Module, Node, TensorData, TensorType, Type, Value, make_block, make_value, nested_paths, new_id
from irscope.ir.module import inlined, renamed_body
from irscope.ir.payload import element_name

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
    if isinstance(source, jax.stages.Lowered):
        graph = _with_unread(_imported(source, name), source)
        if args:
            given = len(jax.tree_util.tree_leaves(args))
            if given != len(graph.inputs):
                raise ArgumentError(f"{given} example arguments for {len(graph.inputs)} inputs", hint="pass one for each")
        args, kwargs = jax.tree_util.tree_unflatten(source.in_tree, range(source.in_tree.num_leaves))
        return replace(graph, argument_paths=nested_paths((*args, *kwargs.values()), len(graph.inputs)))
    made, kept = lowered(source, args)
    graph = _with_unread(_imported(made, name or getattr(source, "__name__", "") or "jax"), made)
    return _ordered(graph, source, args, kept)


def _require(purpose: str = "to load a JAX function") -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra("jax", extra="jax", purpose=purpose) from None
    return jax


def lowered(source: Any, args: Sequence[Any]) -> tuple[Any, bool]:
    """Returns the function lowered for these arguments, and whether every argument is an input of it; what is lowered as it is.

    Raises CaptureError if JAX cannot trace or lower it, and MissingExtra without JAX.
    """
    jax = _require()
    if isinstance(source, jax.stages.Lowered):
        return source, False
    if isinstance(source, jax.stages.Compiled):
        hint = "give jax.jit(f).lower(*args), or f itself; irs.decisions(compiled) shows what XLA made of it"
        raise CaptureError("a compiled JAX function is machine code", hint=hint)
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
        what, hint = f"JAX cannot lower {title}: {type(error).__name__}", "check that jax.jit(function)(*arguments) runs"
        if "BoolConversion" in what:
            hint = "write it with jnp.where or jax.lax.cond: what to compute may not depend on a number that is not there yet"
        if place := failed_at(error, jax):
            lines += ["", place[0], f"    {place[1]}"]
        raise CaptureError(what, where="\n".join(lines), hint=hint) from None


# Functions of JAX as functions of the arrays that the lowered program reads.


def _described(made: Any) -> tuple[list[Any], list[int]]:
    """Returns the descriptions of a lowered or compiled function's arguments, as leaves, and which of them it reads."""
    jax = _require()
    described = jax.tree_util.tree_leaves(made.args_info)
    lowering = getattr(getattr(made, "_lowering", None), "compile_args", {})
    read = getattr(getattr(made, "_executable", None), "_kept_var_idx", lowering.get("kept_var_idx"))
    return described, sorted(read) if read is not None else list(range(len(described)))


def flattened(made: Any, *args: Any) -> tuple[Any, ...]:
    """Returns the arrays that a lowered or compiled function reads of its arguments, of keys their numbers; other arguments as they are."""
    jax, (described, kept) = _require(), _described(made)
    leaves = jax.tree_util.tree_leaves(args)
    if len(leaves) != len(described):
        return args
    leaves = [np.asarray(x, of.dtype) if isinstance(x, int | float) else x for x, of in zip(leaves, described, strict=True)]
    return tuple([jax.random.key_data(leaves[k]) if is_key(leaves[k]) else leaves[k] for k in kept])


def is_key(array: Any) -> bool:
    """Whether an array, or its description, is of JAX's typed keys."""
    dtypes = _require().dtypes
    return bool(dtypes.issubdtype(getattr(array, "dtype", None) or np.float32, dtypes.extended))


def keeping_arguments(made: Any) -> Callable[..., Any]:
    """Returns a compiled function as one that leaves its arguments as they are: it is given copies of those that it may write to."""
    jax = _require()
    donated = [each.donated for each in jax.tree_util.tree_leaves(made.args_info)]
    if not any(donated):
        return made  # type: ignore[no-any-return]

    def run(*args: Any, **named: Any) -> Any:
        leaves, form = jax.tree_util.tree_flatten((args, named))
        if len(leaves) == len(donated):
            leaves = [jax.numpy.array(x, copy=True) if lent else x for x, lent in zip(leaves, donated, strict=True)]
        args, named = jax.tree_util.tree_unflatten(form, leaves)
        return made(*args, **named)

    return run


def flat_call(made: Any, function: Any = None) -> Callable[..., Any]:
    """Returns a compiled function, or another that takes the arguments of one that was lowered, as one of the arrays that it reads, in the
    order of the program's inputs."""
    jax = _require()
    described, kept = _described(made)
    called = keeping_arguments(made) if function is None else function

    def run(*arrays: Any) -> Any:
        given = dict(zip(kept, (np.asarray(x.detach()) if hasattr(x, "detach") else x for x in arrays), strict=True))
        for k, x in given.items():
            if getattr(described[k].dtype, "kind", "") == "u" and getattr(getattr(x, "dtype", None), "kind", "") == "i":
                given[k] = np.asarray(x).view(described[k].dtype)  # a compiler whose types have no signs
            elif is_key(described[k]) and not is_key(x):
                given[k] = _keys(described[k].dtype, np.asarray(x).view(np.uint32))
        flat = [given[k] if k in given else _zeros(each) for k, each in enumerate(described)]
        positional, named = jax.tree_util.tree_unflatten(made.in_tree, flat)
        results = [jax.random.key_data(x) if is_key(x) else x for x in jax.tree_util.tree_leaves(called(*positional, **named))]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _zeros(described: Any) -> Any:
    if not is_key(described):
        return _require().numpy.zeros(described.shape, described.dtype)
    return _keys(described.dtype, np.zeros((*described.shape, *described.dtype._impl.key_shape), np.uint32))


def _keys(dtype: Any, numbers: Any) -> Any:
    """Returns typed keys of these numbers."""
    return _require().random.wrap_key_data(numbers, impl=str(dtype._impl.name))


def written_function(source: Any) -> Callable[..., Any] | None:
    """Returns what the user wrote, op by op, which waits for its results; None for what is lowered or compiled already."""
    jax, written = _require(), getattr(source, "__wrapped__", source if inspect.isfunction(source) else None)
    return None if written is None else lambda *args, **named: jax.block_until_ready(written(*args, **named))


def _imported(lowered: Any, name: str | None) -> Graph:
    from irscope.frontends.mlir.source import bindings_of, import_mlir

    module = lowered.compiler_ir(dialect="stablehlo")
    bindings = bindings_of(module)
    assert bindings is not None  # JAX's own
    made = import_mlir(module.operation, bindings, name=name or "", is_live=loaded_files().__contains__)
    graph = inlined(made, "main") if isinstance(made, Module) else made
    title = re.sub(r"\W", "_", name or str(graph.name)) or "jax"
    return replace(graph, name=title if title.isidentifier() else "jax")


def _with_unread(graph: Graph, lowered: Any) -> Graph:
    """Adds an input for each argument that the function does not read, which `lower` leaves out."""
    described, read = _described(lowered)
    if len(described) == len(graph.inputs) or len(read) != len(graph.inputs) or max(read, default=0) >= len(described):
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
    element, shape = str(argument.dtype), tuple(map(int, argument.shape))
    return TensorType(element, shape, None if shape else ()) if element in ELEMENTS.values() else TensorType()


def _ordered(graph: Graph, source: Any, args: Sequence[Any], kept: bool) -> Graph:
    """Orders the inputs as Python holds the arguments' leaves (JAX sorts dictionary keys), and names them after the arguments."""
    jax = _require()
    if not kept:
        return graph
    paths, _ = jax.tree_util.tree_flatten_with_path(tuple(args))
    if len(paths) != len(graph.inputs):
        return graph
    places = {tuple(map(step_of, path)): index for index, (path, _) in enumerate(paths)}
    ways = [path for path, _ in leaves_by_path(tuple(args)) if path in places]
    order = [places[path] for path in ways]
    if len(order) != len(paths):  # containers that only JAX flattens
        order, ways = list(range(len(paths))), []
    names = argument_names(source, [path for path, _ in paths])
    renamed = {value: make_value(value.id, value.type, title) for value, title in zip(graph.inputs, names, strict=True)}
    nested = any(len(way) > 1 for way in ways)
    body = renamed_body(graph.body, renamed)
    body = make_block(body.id, tuple([body.params[index] for index in order]), body.nodes, body.returns)
    return replace(graph, body=body, argument_paths=tuple(ways) if nested else ())


# Runs a `stablehlo::` or `chlo::` node as a function of NumPy arrays, compiled by JAX's own XLA for this machine's CPU.
#
# The results are new arrays. An op that communicates with other devices or with the host would wait for them forever,
# and a custom call may be the address of a function in another process: neither is run.

_TALKS: Final = frozenset({
    "after_all", "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "infeed", "outfeed",
    "partition_id", "recv", "reduce_scatter", "replica_id", "send",
})  # fmt: skip
_TARGETS: Final = ("chlo.", "lapack_", "mhlo.", "stablehlo.")
"""Prefixes of the custom call targets that JAX itself defines, and that depend on their operands alone."""


def function(node: Node) -> Callable[..., Any]:
    """Returns a function that computes the node. Raises RunError for an op that cannot be run by itself, MissingExtra without JAX."""
    _, _, name = node.op.partition("::")
    if name in _TALKS:
        raise RunError(f"{node.op} communicates with other devices or with the host", where=repr(node), rule="unknown-op")
    target = str(node.attrs.get("call_target_name", "")).strip('"')
    if name == "custom_call" and not target.startswith(_TARGETS):
        why = f"only the program that registered the custom call {target!r} can run it"
        raise RunError(why, where=repr(node), rule="unknown-op", hint="run the program up to it, or replace it")
    jax = _require(f"to run {node.op}")
    from jax.extend import backend

    device = backend.get_backend("cpu").local_devices()[0]
    compiled: dict[tuple[TensorType, ...], Any] = {}

    def call(*operands: Any) -> Any:
        arrays = tuple([_as_declared(*pair) for pair in zip(operands, node.inputs, strict=True)])
        types = tuple(TensorType(element_name(array), array.shape, () if not array.shape else None) for array in arrays)
        run = compiled.get(types)
        if run is None:
            text = module_text(node, types)
            try:
                run = compiled[types] = device.client.compile_and_load(text, [device])
            except Exception as error:
                raise _failed(node, error) from error
        with jax.enable_x64(True):
            given = [jax.device_put(array, device) for array in arrays]
        try:
            found = run.execute_sharded(given).disassemble_into_single_device_arrays()
        except Exception as error:
            raise _failed(node, error) from error
        results = tuple([np.array(shards[0]) for shards in found])
        return results[0] if len(results) == 1 else results

    return call


def runs_in(node: Node) -> str:
    """Returns the name of the library that computes the node."""
    return "XLA, through JAX"


def _as_declared(operand: Any, value: Value) -> np.ndarray[Any, Any]:
    """Returns an operand in its declared element type: a run in float64, or without bfloat16, holds others."""
    array, type = np.asarray(operand), value.type
    wanted = type.dtype if isinstance(type, TensorType) else None
    is_other = wanted is not None and element_name(array) != wanted and array.dtype.kind in "fc"
    return array.astype(np.dtype(wanted)) if is_other else array


def _failed(node: Node, error: Exception) -> RunError:
    return RunError(f"JAX cannot run {node.op}: {first_line(error)}", where=repr(node), rule="unknown-op")


# Kept ops of StableHLO and CHLO are written as MLIR again: a module whose one function is the op, in generic form.
#
# Readable attributes are written in their original form: `AttributeReader` of `mlir/types.py` says how each is kept. Only ops of StableHLO
# and CHLO are written, whose lists of integers are all `array<i64: …>`; ops in their regions are written the same way.

_SPELLING: Final = {ours: mlir for mlir, ours in ELEMENTS.items()}
_LISTS: Final = frozenset({"called_computations", "operand_layouts", "output_operand_aliases", "precision_config", "result_layouts"})
"""Attributes whose empty list is `[]`, not `array<i64>`."""
_OURS: Final = frozenset({"mlir_ends", "mlir_name"})
_RETURN: Final = '"stablehlo.return"'


def module_text(node: Node, operands: Sequence[TensorType]) -> str:
    """Returns the module's text, with a function named `main`, for operands of these types.

    Raises RunError for anything that cannot be written: a result of unknown extents, a token, a region that captures
    values defined outside of it.
    """
    listed = [f"%x{index}" for index in range(len(operands))]
    given = [type_text(type, node) for type in operands]
    types = [type_text(value.type, node) for value in node.outputs]
    parameters = ", ".join(f"{name}: {type}" for name, type in zip(listed, given, strict=True))
    made = ", ".join(f"%r#{index}" for index in range(len(types))) if len(types) > 1 else "%r"
    head = f"%r{f':{len(types)}' if len(types) > 1 else ''} = "
    body = _op(node, listed, given, types, {}, node)
    return (
        f"module {{\nfunc.func public @main({parameters}) -> ({', '.join(types)}) {{\n"
        f"{head}{body}\nfunc.return {made} : {', '.join(types)}\n}}\n}}\n"
    )


def type_text(type: Type, node: Node) -> str:
    """Returns a type's text, such as `tensor<2x3xf32>`. Raises RunError for any type but a tensor of known extents."""
    if isinstance(type, TensorType) and type.is_static:
        element = _SPELLING.get(type.dtype or "")
        if element is not None:
            assert type.shape is not None  # static
            return f"tensor<{''.join(f'{extent}x' for extent in type.shape)}{element}>"
    raise _refused(node, f"a value of type {type}", "load the program with example arguments of known extents")


Names = dict[Value, str]
"""Names of the values inside regions, each unique."""


def _new(value: Value, names: Names) -> str:
    return names.setdefault(value, f"%v{len(names)}")


def _name_of(value: Value, names: Names, whole: Node) -> str:
    if value not in names:
        raise _refused(whole, "a region that captures values defined outside of it")
    return names[value]


def _op(node: Node, operands: Sequence[str], given: Sequence[str], types: Sequence[str], names: Names, whole: Node) -> str:
    name = node.attrs.get("mlir_name") or node.op.replace("::", ".", 1)
    if name.endswith(("maximum", "minimum", "clamp")) and "complex" in given[0]:
        raise _refused(whole, f"XLA compares the real parts in {node.op} of complex numbers, StableHLO defines it by both parts")
    regions = ", ".join(_region(block, names, whole) for block in node.blocks)
    attributes = _dictionary({key: item for key, item in node.attrs.items() if key not in _OURS})
    return (
        f'"{name}"({", ".join(operands)}){f" ({regions})" if regions else ""} {attributes} : ({", ".join(given)}) -> ({", ".join(types)})'
    )


def _region(block: Block, names: Names, whole: Node) -> str:
    parameters = ", ".join(f"{_new(value, names)}: {type_text(value.type, whole)}" for value in block.params)
    body = "".join(f"{line}\n" for line in _lines(block, names, whole))
    ends = ", ".join(_name_of(value, names, whole) for value in block.returns)
    types = ", ".join(type_text(value.type, whole) for value in block.returns)
    return f"{{\n^bb0({parameters}):\n{body}{_RETURN}({ends}) : ({types}) -> ()\n}}"


def _lines(block: Block, names: Names, whole: Node) -> Iterator[str]:
    for node in block.nodes:
        if not node.op.startswith(("stablehlo::", "chlo::")) or node.blocks:
            raise _refused(whole, f"{node.op} in a region")
        operands = [_name_of(value, names, whole) for value in node.inputs]
        given = [type_text(value.type, whole) for value in node.inputs]
        types = [type_text(value.type, whole) for value in node.outputs]
        text = _op(node, operands, given, types, names, whole)
        if len(node.outputs) != 1:
            raise _refused(whole, f"{node.op}, which has {len(node.outputs)} results, in a region")
        yield f"{_new(node.outputs[0], names)} = {text}"


def _dictionary(attrs: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)} = {_attribute(item, name)}" for name, item in attrs.items()) + "}"


def _attribute(payload: Any, name: str = "") -> str:
    """Returns a kept attribute in MLIR's syntax.

    >>> _attribute((1, 2)), _attribute("unit"), _attribute("lapack_sgetrf"), _attribute(1.0), _attribute({"uplo": "76 : ui8"})
    ('array<i64: 1, 2>', 'unit', '"lapack_sgetrf"', '0x3FF0000000000000 : f64', '{"uplo" = 76 : ui8}')
    """
    if isinstance(payload, bool):
        return "true" if payload else "false"
    if isinstance(payload, int):
        return f"{payload} : i64"
    if isinstance(payload, float):
        return f"0x{struct.pack('>d', payload).hex().upper()} : f64"
    if isinstance(payload, str):
        return f'"{payload}"' if is_plain_string(payload) else payload
    if isinstance(payload, TensorData):
        return _dense(payload)
    if isinstance(payload, Mapping):
        return _dictionary(payload)
    if all(type(item) is int for item in payload) and (payload or name not in _LISTS):
        return f"array<i64: {', '.join(map(str, payload))}>" if payload else "array<i64>"
    return f"[{', '.join(_attribute(item) for item in payload)}]"


def _dense(data: TensorData) -> str:
    array = np.asarray(data.array, order="C")  # for bfloat16 the bits, which are what is written
    kind = f"tensor<{''.join(f'{extent}x' for extent in array.shape)}{_SPELLING[data.dtype]}>"
    if not array.size:
        return f"dense<> : {kind}"
    if data.dtype == "bool":
        return f"dense<{json.dumps(array.tolist())}> : {kind}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {kind}'


def _refused(node: Node, what: str, hint: str = "") -> RunError:
    return RunError(f"{node.op} cannot be run by itself: {what}", where=repr(node), rule="unknown-op", hint=hint)
