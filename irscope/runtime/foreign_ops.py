"""Ops without a definition here, run by the library that they come from; and torch's ops, on NumPy arrays.

A frontend may keep ops of its source language (`onnx::TopK`). It supplies a function that runs them in their own library, on
NumPy arrays and with new arrays as results. An `aten::` op without a NumPy reference runs through torch, if installed,
on the same memory.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

from irscope._base.nested import map_leaves
from irscope.ir import Node

Function = Callable[..., Any]

_RUNNERS: Final[Mapping[str, str]] = {
    "chlo": "irscope.frontends.jax",
    "onnx": "irscope.frontends.onnx.run",
    "stablehlo": "irscope.frontends.jax",
}
"""Maps a namespace to the module whose `function(node)` returns a function of NumPy arrays, and `runs_in(node)` the name of
the library that computes it."""


def has_runner(node: Node) -> bool:
    """Checks whether a node's language has a library that can run it, including its blocks."""
    return node.op.partition("::")[0] in _RUNNERS


def foreign_function(node: Node) -> Function | None:
    """Returns the function that runs an op of another language on NumPy arrays; None for any other op."""
    runner = _RUNNERS.get(node.op.partition("::")[0])
    return None if runner is None else import_module(runner).function(node)


def runs_in(node: Node) -> str:
    """Returns the name of the library that runs an op of another language; empty for any other op."""
    runner = _RUNNERS.get(node.op.partition("::")[0])
    return "" if runner is None else str(import_module(runner).runs_in(node))


def on_torch(function: Function, torch: Any, device: str) -> Function:
    """Wraps a function of arrays as a function of tensors."""

    def run(*operands: Any) -> Any:
        return tensor_of(function(*array_of(operands)), torch, device)

    return run


def plain_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a torch tensor's elements, sharing memory where NumPy can read it; those of types that NumPy lacks as float32."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if str(tensor.dtype) in ("torch.bfloat16", "torch.complex32") or "float8" in str(tensor.dtype):
        tensor = tensor.cfloat() if tensor.is_complex() else tensor.float()
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def array_of(value: Any) -> Any:
    """Returns a tensor as an array on the same memory, also inside containers."""
    return map_leaves(_array_of, value)


def _array_of(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    name = str(value.dtype).removeprefix("torch.")
    if name in SMALL_FLOATS:
        try:
            import ml_dtypes
        except ImportError:
            return value.float().numpy()
        return value.contiguous().view(getattr(import_module("torch"), SMALL_FLOATS[name])).numpy().view(getattr(ml_dtypes, name))
    return value.numpy()


SMALL_FLOATS: Final = {
    "bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8", "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8",
}  # fmt: skip
"""Element types that torch has, and NumPy by way of `ml_dtypes`, each with an integer type of its width that both have."""


def plainly_typed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an array of C's `long long`, which is another type of the same elements to NumPy, as one that torch knows."""
    return array.view(array.dtype.name) if array.dtype.isnative and array.dtype.char in "qQ" else array


def tensor_of(value: Any, torch: Any, device: str) -> Any:
    """Returns an array as a tensor, on the same memory if it can be, also inside containers."""
    return map_leaves(lambda leaf: _tensor_of(leaf, torch, device), value)


def _tensor_of(value: Any, torch: Any, device: str) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    bits = SMALL_FLOATS.get(str(value.dtype))
    if bits is None and value.dtype.kind not in "biufc":
        return value  # strings, int4: torch has no tensor for them
    plain = value if value.flags.writeable and min(value.strides, default=0) >= 0 else value.copy()
    made = torch.from_numpy(plainly_typed(plain if bits is None else plain.view(bits)))
    made = made if bits is None else made.view(getattr(torch, str(value.dtype)))
    return made.to(device) if device else made
