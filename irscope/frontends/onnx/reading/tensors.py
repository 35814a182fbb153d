"""Reads a TensorProto's elements as a NumPy array, untrusted: sizes are checked first, then that all bytes are there.

Elements in other files are read only from the model's own folder or below, after symbolic links are resolved.
"""

from __future__ import annotations

import os
from math import inf, prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope._base.words import byte_count
from irscope.errors import LoadError
from irscope.frontends.foreign_files import refuse_pointer, start_of
from irscope.frontends.onnx.reading.types import ELEMENT_TYPES

__all__ = ["MAX_SPARSE", "dense_of", "elements_of", "is_missing"]

MAX_SPARSE: Final = 1 << 24
"""The most elements of a sparse tensor that is converted to a dense one."""

_BITS: Final = {
    "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2, "float16": 16, "bfloat16": 16, "complex64": 64,
    "complex128": 128, "bool": 8, "float6_e2m3fn": 8, "float6_e3m2fn": 8,
}  # fmt: skip
_FIELDS: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_WITHOUT: Final = 'without it: irs.load(…, missing_weights="inputs"), --missing-weights inputs on the command line'
_HINT: Final = "the file is damaged, or was written by a broken exporter: export the model again"


def elements_of(proto: Any, folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Returns a copy of the elements of a TensorProto. Raises LoadError, which calls the tensor `what`.

    bfloat16, float8 and smaller are `ml_dtypes` arrays; strings are Python's, in an array of objects.
    """
    from onnx import numpy_helper

    dtype = ELEMENT_TYPES.get(proto.data_type)
    if dtype is None:
        raise LoadError(f"{what} has elements of type {proto.data_type}, which ONNX does not define", hint=_HINT)
    shape = tuple(proto.dims)
    if any(extent < 0 for extent in shape):
        raise LoadError(f"{what} has the shape {list(shape)}", hint=_HINT)
    count = prod(shape)
    if proto.data_location == proto.EXTERNAL:
        return _external(proto, dtype, shape, folder, what)
    present = max((len(getattr(proto, field)) for field in _FIELDS), default=0)
    if (proto.HasField("raw_data") and present * 8 < count * bits_of(dtype)) or (not proto.raw_data and present * 8 < count):
        raise LoadError(f"{what} of shape {list(shape)} should hold {count} elements, and has fewer", hint=_HINT)
    try:
        return np.array(numpy_helper.to_array(proto))
    except Exception as error:  # NumPy's and onnx's complaints about counts and types
        raise LoadError(f"the elements of {what} cannot be read: {_first_line(error)}", hint=_HINT) from None


def is_missing(proto: Any, folder: Path | None) -> bool:
    """Checks whether the elements are in another file, and there is no such file in the model's folder or below."""
    if proto.data_location != proto.EXTERNAL or folder is None:
        return bool(proto.data_location == proto.EXTERNAL)
    location = next((entry.value for entry in proto.external_data if entry.key == "location"), "")
    try:
        return not _inside(location, folder, "a weight").is_file()
    except (LoadError, OSError):  # reading it says what is wrong
        return False


def bits_of(dtype: str) -> int:
    """Returns the number of bits of an element in a file."""
    if dtype in _BITS:
        return _BITS[dtype]
    return 8 if dtype.startswith("float8") else 0 if dtype == "string" else np.dtype(dtype).itemsize * 8


_LONGEST_POINTER: Final = 1024
"""Git LFS's notes are shorter: larger files are not opened to look for one."""


def _external(proto: Any, dtype: str, shape: tuple[int, ...], folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Reads elements from another file, and only their bytes."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _beside(entries.get("location", ""), folder, what)
    size = -(-prod(shape) * bits_of(dtype) // 8)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError:
        raise LoadError(f"{what} does not say where in {path.name!r} its elements are", hint=_HINT) from None
    there = path.stat().st_size
    if there < _LONGEST_POINTER:
        refuse_pointer(path, start_of(path))
    if length != size or offset < 0 or offset + length > there:
        raise LoadError(
            f"{what} should be {size} bytes at {offset} of {path.name!r}, which has {there}",
            hint="copy the whole file that belongs to the model",
        )
    try:
        if size > _machine_memory():
            raise MemoryError
        with path.open("rb") as file:
            file.seek(offset)
            return _decoded(proto, dtype, shape, file.read(length))
    except MemoryError:
        what = f"{what} of shape {list(shape)} takes {byte_count(size)}, more than there is memory for"
        raise LoadError(what, hint=f"move {path.name!r} elsewhere, and read the model {_WITHOUT}") from None


def _machine_memory() -> float:
    """Returns the bytes of memory that the machine has; infinity where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return inf


def _decoded(proto: Any, dtype: str, shape: tuple[int, ...], content: bytes) -> np.ndarray[Any, Any]:
    from onnx import TensorProto, numpy_helper

    if bits_of(dtype) >= 8 and np.dtype(np.uint8).isbuiltin and dtype in np.sctypeDict:
        return np.frombuffer(bytearray(content), np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    held = TensorProto(data_type=proto.data_type, dims=shape, raw_data=content)
    return np.array(numpy_helper.to_array(held))


def _beside(location: str, folder: Path | None, what: str) -> Path:
    """Returns the file that a tensor names. Raises LoadError unless it is below the model's folder."""
    if folder is None:
        hint = f"load the model by the path of its file, or onnx.load_external_data_for_model(model, folder) first; {_WITHOUT}"
        raise LoadError(f"the elements of {what} are in another file, {location!r}, of an unknown folder", hint=hint)
    try:
        path = _inside(location, folder, what)
        if path.is_file():
            return path
    except OSError as error:
        raise LoadError(f"the file {location!r} of {what} cannot be opened: {error.strerror}", hint=_HINT) from None
    raise LoadError(f"there is no file {location!r} beside the model, which {what} refers to", hint=f"copy it there; {_WITHOUT}")


def _inside(location: str, folder: Path, what: str) -> Path:
    if not location or "\0" in location or location.startswith(("/", "\\")) or ":" in location:
        raise LoadError(f"{what} names {location!r} as the file of its elements, which is not a relative path", hint=_HINT)
    home = folder.resolve()
    path = (home / location).resolve()
    if not path.is_relative_to(home):
        raise LoadError(
            f"{what} names a file outside the model's folder: {location!r}",
            hint="a model may read only files in its own folder: put the file there and change the name in the model",
        )
    return path


def dense_of(proto: Any, folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Returns a SparseTensorProto as a dense array. Raises LoadError if it is too large, or has indices out of range."""
    shape = tuple(proto.dims)
    if any(extent < 0 for extent in shape) or prod(shape) > MAX_SPARSE:
        raise LoadError(f"{what} is sparse of shape {list(shape)}, too large to be stored densely", hint="store it densely")
    values = elements_of(proto.values, folder, what)
    places = elements_of(proto.indices, folder, f"the indices of {what}")
    dense = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 2:
            dense[tuple(places.T)] = values
        else:
            dense.reshape(-1)[places] = values
    except (IndexError, ValueError):
        raise LoadError(f"{what} is sparse, and its indices do not fit its shape {list(shape)}", hint=_HINT) from None
    return dense


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
