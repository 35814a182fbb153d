"""Arrays of other libraries in the processor's memory, JAX's and all others that offer DLPack, used without a copy.

A program may write its arguments, but JAX's arrays are immutable: a program that may write gets a copy of what is read-only.
Where the first array among the arguments is JAX's, the results are JAX arrays too. They share the memory that the program
allocated for them, if it is aligned as JAX requires; results inside an argument or a parameter, which may change later, are
copied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from irscope._base.leaves import leaves
from irscope.errors import ArgumentError
from irscope.runtime.arrays.library import is_torch_tensor
from irscope.runtime.arrays.small_floats import is_small_float, widened

__all__ = ["borrow", "return_arrays", "host_array", "in_native_order", "is_foreign", "is_jaxs", "on_host", "on_processor"]

_PROCESSOR: Final = (1, 3)
"""DLPack's device numbers for the processor's memory, ordinary and pinned for a GPU."""
_LENDS_READ_ONLY: Final = np.lib.NumpyVersion(np.__version__) < "2.2.5"
"""Whether this NumPy marks arrays of other libraries as read-only although they are not."""
_ALIGNMENT: Final = 64
"""Bytes; JAX copies arrays with a smaller alignment."""


def is_foreign(value: object) -> bool:
    """Checks whether this is an array of a library other than NumPy and torch.

    >>> is_foreign(np.ones(2)), is_foreign(3)
    (False, False)
    """
    if isinstance(value, np.ndarray | np.generic | bool | int | float) or is_torch_tensor(value):
        return False
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


def on_processor(value: Any) -> bool:
    """Checks whether an array with `__dlpack__` is in the processor's memory."""
    return int(value.__dlpack_device__()[0]) in _PROCESSOR


def host_array(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array on the processor as NumPy's; it shares memory where NumPy knows the element type."""
    return _lent(value)[0]


def _lent(value: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """Returns an array as NumPy's, and whether it is read-only only because this NumPy cannot know better."""
    try:
        array = np.from_dlpack(value)
    except (TypeError, RuntimeError, BufferError):  # NumPy's DLPack knows no bfloat16, which `__array__` may
        return np.asarray(value), False
    return array, not array.flags.writeable and _LENDS_READ_ONLY and not is_jaxs(value)


def is_jaxs(value: object) -> bool:
    """Checks whether this is an array of JAX's, which nothing writes; does not import JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def borrow(value: Any, *, may_write: bool) -> np.ndarray[Any, Any]:
    """Returns a foreign array as NumPy's, of an immutable kind a copy if the program may write it. Raises ArgumentError for one
    on a GPU, with elements that NumPy has no type for, or written where writes to a copy would be lost."""
    if not on_processor(value):
        raise ArgumentError(
            f"an argument, a {type(value).__name__}, lies on a GPU, and the program runs on the processor",
            hint='irs.compile(program, device="cuda") runs it there, numpy.asarray(x) copies the argument',
        )
    array, is_doubtful = _lent(value)
    if array.dtype.kind not in "biufc" and not is_small_float(array.dtype):
        raise ArgumentError(
            f"an argument, a {type(value).__name__}, has elements of type {array.dtype}, which NumPy does not compute with",
            hint="convert it to float32, or pass a torch tensor",
        )
    if may_write and is_doubtful:
        raise ArgumentError(
            f"an argument, a {type(value).__name__}, is read-only for NumPy {np.__version__}, and the program may write into it",
            rule="read-only",
            hint="numpy>=2.2.5 writes into it; or pass a NumPy array, numpy.from_dlpack(x).copy(), which the program then writes",
        )
    return array.copy() if may_write and not array.flags.writeable else array


def in_native_order(value: Any, *, may_write: bool) -> Any:
    """Returns a NumPy array in native byte order with whole-element strides, copied where needed; anything else unchanged.

    Strides that are not a whole number of elements occur in fields of records. Neither ops nor kernels support them or a
    foreign byte order. Raises ArgumentError for a program that may write such an array: writes to the copy would be lost.

    >>> in_native_order(np.ones(2, ">f4"), may_write=False).dtype, in_native_order(3, may_write=True)
    (dtype('float32'), 3)
    """
    if not isinstance(value, np.ndarray):
        return value
    apart = value.dtype.itemsize > 1 and any(step % value.itemsize for step in value.strides) and value.size > 0
    if value.dtype.isnative and not apart:
        return value
    if may_write and apart:
        raise ArgumentError(
            f"an argument, an array of {value.dtype}, has elements that lie {value.strides} bytes apart, which is not a "
            "whole number of elements, and the program may write into it",
            rule="byte-steps",
            hint="pass x.copy(), which the program then writes instead",
        )
    if may_write:
        raise ArgumentError(
            f"an argument, an array of {value.dtype}, has its elements in another byte order than this machine, and the "
            "program may write into it",
            rule="byte-order",
            hint='pass x.astype(x.dtype.newbyteorder("=")), which the program then writes instead',
        )
    return value.astype(value.dtype.newbyteorder("="))


def on_host(value: Any, *, may_write: bool = False) -> Any:
    """Returns a foreign array on the processor as NumPy's, copied if it is immutable, and a NumPy array in native byte order;
    anything else unchanged. `may_write`: writes must reach the array itself.

    >>> on_host(3)
    3
    """
    if is_foreign(value) and on_processor(value):
        array = borrow(value, may_write=may_write)
        return widened(array if array.flags.writeable else array.copy(), may_write=False)
    return in_native_order(value, may_write=False)


def return_arrays(results: Sequence[Any], arguments: Sequence[Any], kept: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the results as JAX arrays if the first array among the arguments is one, unchanged otherwise.

    `kept`: other arrays that live on, such as parameters.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return tuple(results)
    first = next((leaf for leaf in leaves(arguments) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")), None)
    if not isinstance(first, jax.Array):
        return tuple(results)
    others = [leaf for leaf in leaves([list(arguments), list(kept)]) if isinstance(leaf, np.ndarray)]
    return tuple(_to_jax(result, others, jax) for result in results)


def _to_jax(result: Any, others: Sequence[np.ndarray[Any, Any]], jax: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_to_jax(item, others, jax) for item in result)
    if isinstance(result, dict):
        return {key: _to_jax(item, others, jax) for key, item in result.items()}
    if not isinstance(result, np.ndarray):
        return result
    plain = result.flags.c_contiguous and result.flags.writeable and result.size and result.dtype.kind in "biufc"
    if (
        plain
        and result.ctypes.data % _ALIGNMENT == 0
        and not any(np.may_share_memory(result, other) for other in others)
    ):
        return jax.dlpack.from_dlpack(result)
    return jax.numpy.array(result)
