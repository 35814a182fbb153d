"""Element types that torch can compute with and NumPy cannot: bfloat16, and eight-bit floats.

JAX arrays of these types, and NumPy arrays by way of the package `ml_dtypes`, are computed in torch where it is installed, and
results come back as the same kind of array. Without torch, NumPy computes bfloat16 as float32, and results are rounded at the
end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from irscope._base.leaves import leaves
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType
from irscope.runtime.foreign_ops import SMALL_FLOATS, array_of

__all__ = ["arrays_of", "has_small_floats", "is_small_float", "rounded", "torch_is_there", "widened"]


def is_small_float(dtype: object) -> bool:
    """Checks whether this is an element type of `ml_dtypes` that torch has.

    >>> is_small_float(np.dtype("float16"))
    False
    """
    return getattr(dtype, "kind", "") == "V" and str(dtype) in SMALL_FLOATS


def has_small_floats(program: Graph) -> bool:
    """Checks whether a value of the program has such elements."""
    return any(isinstance(value.type, TensorType) and value.type.dtype in SMALL_FLOATS for value in program.values())


def torch_is_there() -> bool:
    """Checks whether torch can be used; imports it."""
    try:
        import_module("torch")
    except ImportError:
        return False
    return True


def widened(array: np.ndarray[Any, Any], *, may_write: bool) -> np.ndarray[Any, Any]:
    """Returns an array as NumPy computes with it: float32 for these types.

    Raises ArgumentError where the program may write into it, since the writes would be lost.

    >>> widened(np.ones(2, np.float16), may_write=True).dtype
    dtype('float16')
    """
    if not is_small_float(array.dtype):
        return array
    if may_write:
        raise ArgumentError(
            f"an argument, an array of {array.dtype}, is computed in float32, and the program may write into it",
            hint="install torch (pip install 'irscope[torch]'), which has this element type", rule="small-floats",
        )  # fmt: skip
    return array.astype(np.float32)


def arrays_of(results: Sequence[Any], arguments: Sequence[Any], types: Sequence[Any]) -> tuple[Any, ...]:
    """Returns a program's results as arrays: JAX's if the first array among the arguments is, NumPy's otherwise.

    `types` are the types that the program declares for them.
    """
    arrays = rounded([array_of(result) for result in results], types)
    jax = sys.modules.get("jax")
    first = next((leaf for leaf in leaves(arguments) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")), None)
    if jax is None or not isinstance(first, jax.Array):
        return tuple(arrays)
    return tuple(_as_jax(array, jax) for array in arrays)


def rounded(results: Sequence[Any], types: Sequence[Any]) -> tuple[Any, ...]:
    """Returns arrays that were held as float32 in their declared element types, or unchanged without `ml_dtypes`."""
    return tuple(_rounded(result, type) for result, type in zip(results, types, strict=True))


def _rounded(result: Any, type: object) -> Any:
    wanted = type.dtype if isinstance(type, TensorType) else None
    if wanted not in SMALL_FLOATS or not isinstance(result, np.ndarray) or str(result.dtype) == wanted:
        return result
    try:
        import ml_dtypes
    except ImportError:
        return result
    return result.astype(getattr(ml_dtypes, wanted))


def _as_jax(value: Any, jax: Any) -> Any:
    """Returns a JAX copy of an array: torch's memory may be an argument's, and JAX's arrays are immutable."""
    if isinstance(value, list | tuple):
        return type(value)(_as_jax(item, jax) for item in value)
    if isinstance(value, dict):
        return {key: _as_jax(item, jax) for key, item in value.items()}
    return jax.numpy.array(value) if isinstance(value, np.ndarray) else value
