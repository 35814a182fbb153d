"""Arrays of other kinds than torch's and NumPy's own, on the processor: those that offer DLPack, and small floating-point types.

Arrays of other libraries, JAX's and all others that offer DLPack, are used without a copy. A program may write its arguments,
but JAX's arrays are immutable: a program that may write gets a copy of what is read-only. Where the first array among the
arguments is JAX's, the results are JAX arrays too. They share the memory that the program allocated for them, if it is aligned
as JAX requires; results inside an argument or a parameter, which may change later, are copied.

Programs with convolutions, matrix products, normalisations or pooling outside kernels run in torch wherever it is installed, on the
arrays' own memory, and results come back as arrays of the caller's kind; pointwise ops stay NumPy's, with its numbers. bfloat16 and
eight-bit floats, which NumPy has by way of the package `ml_dtypes`, are element types that torch can compute with and NumPy cannot:
without torch, NumPy computes bfloat16 as float32, and results are rounded at the end.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

from irscope._base.nested import leaves, map_leaves
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType
from irscope.runtime.arrays.library import is_torch_tensor
from irscope.runtime.foreign_ops import SMALL_FLOATS

_PROCESSOR: Final = (1, 3)
"""DLPack's device numbers for the processor's memory, ordinary and pinned for a GPU."""
_LENDS_READ_ONLY: Final = np.lib.NumpyVersion(np.__version__) < "2.2.5"
"""Whether this NumPy marks arrays of other libraries as read-only although they are not."""
_ALIGNMENT: Final = 64
"""Bytes; JAX copies arrays with a smaller alignment."""


def is_foreign(value: object) -> bool:
    """Checks whether this is an array of a library other than NumPy and torch."""
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


def is_jaxs_own(value: object) -> bool:
    """Checks whether this is an array of JAX's own class, which has elements: neither a key nor what a transform traces."""
    return type(value).__name__ == "ArrayImpl" and is_jaxs(value)


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
    apart = not on_whole_elements(value)
    if value.dtype.isnative and not apart:
        return value
    if may_write:
        rule, copy = ("byte-steps", "x.copy()") if apart else ("byte-order", 'x.astype(x.dtype.newbyteorder("="))')
        what = "its elements in another byte order than this machine"
        if apart:
            what = f"elements that lie {value.strides} bytes apart, which is not a whole number of elements"
        raise ArgumentError(
            f"an argument, an array of {value.dtype}, has {what}, and the program may write into it", rule=rule,
            hint=f"pass {copy}, which the program then writes instead",
        )  # fmt: skip
    return value.astype(value.dtype.newbyteorder("="))


LENT_TYPES: Final = frozenset({
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
})  # fmt: skip
"""The element types in which torch computes on arrays: NumPy has complex ones too, but other infinities and NaN in their products."""


def can_share(array: Any, *, writes: bool) -> bool:
    """Checks whether torch can compute on the memory of an array, for a program that may write it or not.

    >>> [can_share(x, writes=True) for x in (np.ones(2), np.ones(2)[::-1], np.ones(2, ">f4"), np.array(["a"]))]
    [True, False, False, False]
    """
    if is_foreign(array) or isinstance(array, np.generic):
        return str(array.dtype) in LENT_TYPES
    if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=").name not in LENT_TYPES or min(array.strides, default=0) < 0:
        return False
    return not writes or (array.flags.writeable and array.dtype.isnative and on_whole_elements(array))


def on_whole_elements(array: np.ndarray[Any, Any]) -> bool:
    """Checks whether the elements lie whole numbers of elements apart; those in fields of records may not."""
    return not any(step % array.itemsize for step in array.strides) or array.size == 0


def on_host(value: Any, *, may_write: bool = False) -> Any:
    """Returns a foreign array on the processor as NumPy's, copied if it is immutable, and a NumPy array in native byte order;
    anything else unchanged. `may_write`: writes must reach the array itself.
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

    def to_jax(result: Any) -> Any:
        if not isinstance(result, np.ndarray):
            return result
        plain = result.flags.c_contiguous and result.flags.writeable and result.size and result.dtype.kind in "biufc"
        if plain and result.ctypes.data % _ALIGNMENT == 0 and not any(np.may_share_memory(result, other) for other in others):
            return jax.dlpack.from_dlpack(result)
        return jax.numpy.array(result)

    return tuple(map_leaves(to_jax, list(results)))


def is_small_float(dtype: object) -> bool:
    """Checks whether this is an element type of `ml_dtypes` that torch has."""
    return getattr(dtype, "kind", "") == "V" and str(dtype) in SMALL_FLOATS


def has_small_floats(program: Graph) -> bool:
    """Checks whether a value of the program has such elements."""
    return any(isinstance(value.type, TensorType) and value.type.dtype in SMALL_FLOATS for value in program.values())


@cache
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
    """
    if not is_small_float(array.dtype):
        return array
    if may_write:
        raise ArgumentError(
            f"an argument, an array of {array.dtype}, is computed in float32, and the program may write into it",
            hint="install torch (pip install 'irscope[torch]'), which has this element type", rule="small-floats",
        )  # fmt: skip
    return array.astype(np.float32)


def rounded(results: Sequence[Any], types: Sequence[Any]) -> tuple[Any, ...]:
    """Returns arrays that were held as float32 in their declared element types, or unchanged without `ml_dtypes`."""
    found = list(results)
    for place, (result, type) in enumerate(zip(results, types, strict=True)):
        wanted = type.dtype if isinstance(type, TensorType) else None
        if wanted in SMALL_FLOATS and isinstance(result, np.ndarray) and str(result.dtype) != wanted:
            with suppress(ImportError):
                found[place] = result.astype(getattr(import_module("ml_dtypes"), wanted))
    return tuple(found)
