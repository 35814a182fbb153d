"""Reference results without rounding errors, and the distance of other results from them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from irscope._base.concurrency.restored import quietly, without_gradients
from irscope._base.leaves import leaves
from irscope.ir import Graph
from irscope.runtime.arrays import TorchLibrary, is_torch_tensor, library_for, off_the_gpu, on_host
from irscope.runtime.executor import flatten
from irscope.runtime.reference import run_reference

__all__ = ["arrays", "errors", "float64_results"]


def float64_results(graph: Graph, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Returns the program's results computed in float64 throughout, on copies."""
    if library_for([*args, *graph.bound.values()]).name != "torch":
        return arrays(run_reference(graph, *[off_the_gpu(on_host(arg)) for arg in args], precision="float64"))
    library = TorchLibrary(double=True)
    bound = {value: _doubled(held) for value, held in graph.bound.items()}
    code = flatten(graph.body, library, bound=bound, call=lambda node, reads, writes: None)
    slots = code.template.copy()
    given = iter(args)
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else _doubled(next(given))
    without_gradients(library.torch, code.run, slots)
    return arrays([slots[slot] for slot in code.outputs])


def _doubled(value: Any) -> Any:
    """Returns a float64 copy of a floating-point tensor, a copy of any other tensor, and anything else unchanged."""
    if isinstance(value, np.ndarray):
        value = sys.modules["torch"].from_numpy(value)
    if is_torch_tensor(value):
        copy = value.detach().clone()
        return copy.double() if value.dtype.is_floating_point else copy
    if isinstance(value, list | tuple):
        return type(value)(_doubled(item) for item in value)
    return {key: _doubled(item) for key, item in value.items()} if isinstance(value, dict) else value


def errors(results: Sequence[Any], truth: Sequence[Any]) -> tuple[float, float] | None:
    """Returns the largest relative and absolute difference over all floating-point results; None if there are none."""
    relative, absolute, seen = 0.0, 0.0, False
    for result, true in zip(results, truth, strict=True):
        if true.dtype.kind not in "fc" or true.size == 0:
            continue
        seen = True
        difference = np.abs(quietly(np.subtract, result.astype(true.dtype), true))
        difference = np.where((result == true) | (np.isnan(result) & np.isnan(true)), 0.0, difference)
        finite = np.abs(true[np.isfinite(true)])
        largest = float(np.max(difference))
        absolute = max(absolute, largest)
        relative = max(relative, largest / max(float(finite.max()) if finite.size else 0.0, np.finfo(np.float64).tiny))
    return (relative, absolute) if seen else None


def arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    """Returns every tensor and number among the results, as NumPy arrays, in order."""
    return [_array(leaf) for leaf in leaves(results)]


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    if is_torch_tensor(leaf):
        leaf = leaf.detach().cpu()
        if str(leaf.dtype) == "torch.bfloat16":
            leaf = leaf.float()
        return leaf.resolve_conj().numpy()  # type: ignore[no-any-return]
    leaf = off_the_gpu(leaf)
    is_number = isinstance(leaf, np.generic | bool | int | float | complex) or hasattr(leaf, "__array__")
    return np.asarray(leaf) if is_number else np.empty(0, bool)
