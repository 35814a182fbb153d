"""Runs a `stablehlo::` or `chlo::` node as a function of NumPy arrays, compiled by JAX's own XLA for this machine's
CPU.

The results are new arrays. An op that communicates with other devices or with the host would wait for them forever, and
a custom call may be the address of a function in another process: neither is run.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.errors import MissingExtra, RunError
from irscope.frontends.mlir.types import ELEMENTS, is_plain_string
from irscope.ir import Block, Node, TensorData, TensorType, Type, Value
from irscope.ir.payload import element_name

__all__ = ["function", "runs_in"]

_TALKS: Final = frozenset({
    "after_all", "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "infeed", "outfeed",
    "partition_id", "recv", "reduce_scatter", "replica_id", "send",
})  # fmt: skip
_TARGETS: Final = ("chlo.", "lapack_", "mhlo.", "stablehlo.")
"""Prefixes of the custom call targets that JAX itself defines, and that depend on their operands alone."""


def function(node: Node) -> Callable[..., Any]:
    """Returns a function that computes the node. Raises RunError for an op that cannot be run by itself, MissingExtra
    without JAX."""
    _, _, name = node.op.partition("::")
    if name in _TALKS:
        raise RunError(f"{node.op} communicates with other devices or with the host", where=repr(node), rule="unknown-op")
    target = str(node.attrs.get("call_target_name", "")).strip('"')
    if name == "custom_call" and not target.startswith(_TARGETS):
        why = f"only the program that registered the custom call {target!r} can run it"
        raise RunError(why, where=repr(node), rule="unknown-op", hint="run the program up to it, or replace it")
    try:
        import jax
        from jax.extend import backend
    except ImportError:
        raise MissingExtra("jax", extra="jax", purpose=f"to run {node.op}") from None
    device = backend.get_backend("cpu").local_devices()[0]
    compiled: dict[tuple[TensorType, ...], Any] = {}

    def call(*operands: Any) -> Any:
        arrays = tuple([_as_declared(*pair) for pair in zip(operands, node.inputs, strict=True)])
        types = tuple(TensorType(element_name(array), array.shape, () if not array.shape else None) for array in arrays)
        run = compiled.get(types)
        if run is None:
            run = compiled[types] = _compiled(node, types, device)
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


def _compiled(node: Node, types: tuple[TensorType, ...], device: Any) -> Any:
    text = module_text(node, types)
    try:
        return device.client.compile_and_load(text, [device])
    except Exception as error:
        raise _failed(node, error) from error


def _failed(node: Node, error: Exception) -> RunError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return RunError(f"JAX cannot run {node.op}: {first}", where=repr(node), rule="unknown-op")


# Writes a kept op as MLIR again: a module whose one function is this op, in generic form.
#
# Readable attributes are written in their original form: `read/attributes.py` says how each is kept. Only ops of
# StableHLO and CHLO are written, whose lists of integers are all `array<i64: …>`; ops in their regions are written the
# same way.


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
    body = _op(node, listed, given, types, _Names(), node)
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


class _Names:
    """Names of the values inside regions, each unique."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}

    def new(self, value: Value) -> str:
        made = self._names[value] = f"%v{len(self._names)}"
        return made

    def of(self, value: Value, node: Node) -> str:
        found = self._names.get(value)
        if found is None:
            raise _refused(node, "a region that captures values defined outside of it")
        return found


def _op(
    node: Node, operands: Sequence[str], given: Sequence[str], types: Sequence[str], names: _Names, whole: Node
) -> str:
    name = node.attrs.get("mlir_name") or node.op.replace("::", ".", 1)
    if name.endswith(("maximum", "minimum", "clamp")) and "complex" in given[0]:
        raise _refused(whole, f"XLA compares the real parts in {node.op} of complex numbers, StableHLO defines it by both parts")
    regions = ", ".join(_region(block, names, whole) for block in node.blocks)
    attributes = _dictionary({key: item for key, item in node.attrs.items() if key not in _OURS})
    return (
        f'"{name}"({", ".join(operands)}){f" ({regions})" if regions else ""} {attributes}'
        f" : ({', '.join(given)}) -> ({', '.join(types)})"
    )


def _region(block: Block, names: _Names, whole: Node) -> str:
    parameters = ", ".join(f"{names.new(value)}: {type_text(value.type, whole)}" for value in block.params)
    body = "".join(f"{line}\n" for line in _lines(block, names, whole))
    ends = ", ".join(names.of(value, whole) for value in block.returns)
    types = ", ".join(type_text(value.type, whole) for value in block.returns)
    return f"{{\n^bb0({parameters}):\n{body}{_RETURN}({ends}) : ({types}) -> ()\n}}"


def _lines(block: Block, names: _Names, whole: Node) -> Iterator[str]:
    for node in block.nodes:
        if not node.op.startswith(("stablehlo::", "chlo::")) or node.blocks:
            raise _refused(whole, f"{node.op} in a region")
        operands = [names.of(value, whole) for value in node.inputs]
        given = [type_text(value.type, whole) for value in node.inputs]
        types = [type_text(value.type, whole) for value in node.outputs]
        text = _op(node, operands, given, types, names, whole)
        if len(node.outputs) != 1:
            raise _refused(whole, f"{node.op}, which has {len(node.outputs)} results, in a region")
        yield f"{names.new(node.outputs[0])} = {text}"


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
