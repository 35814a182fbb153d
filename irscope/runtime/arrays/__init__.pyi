from .cupy import CupyLibrary, CupyMemory, device_with, imported_cupy, is_cupys, off_the_gpu
from .dlpack import (
    arrays_of,
    borrow,
    has_small_floats,
    host_array,
    in_native_order,
    is_foreign,
    is_small_float,
    on_host,
    on_processor,
    return_arrays,
    rounded,
    torch_is_there,
    widened,
)
from .library import Allocate, Library, Memory, are_torchs, extents, is_torch_tensor, python_function
from .numpy import NumpyLibrary, NumpyMemory
from .pool import BufferPool
from .surroundings import Surroundings
from .torch import TorchLibrary, TorchMemory, as_torch_on_gpu, lent_by_torch, library_for

__all__ = [
    "Allocate", "BufferPool", "CupyLibrary", "CupyMemory", "Library", "Memory", "NumpyLibrary", "NumpyMemory",
    "Surroundings", "TorchLibrary", "TorchMemory", "are_torchs", "arrays_of", "as_torch_on_gpu", "borrow",
    "device_with", "extents", "has_small_floats", "host_array", "imported_cupy", "in_native_order", "is_cupys",
    "is_foreign", "is_small_float", "is_torch_tensor", "lent_by_torch", "library_for", "off_the_gpu", "on_host",
    "on_processor", "python_function", "return_arrays", "rounded", "torch_is_there", "widened",
]  # fmt: skip
