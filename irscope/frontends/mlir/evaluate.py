"""Runs a `stablehlo::` or `chlo::` node as a function of NumPy arrays, compiled by JAX's own XLA for this machine's
CPU.

The results are new arrays. An op that communicates with other devices or with the host would wait for them forever, and
a custom call may be the address of a function in another process: neither is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from irscope.errors import MissingExtra, RunError
from irscope.frontends.mlir.write import module_text
from irscope.ir import Node, TensorType, Value
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
