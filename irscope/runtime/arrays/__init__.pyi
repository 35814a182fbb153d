from .cupy import CupyLibrary as CupyLibrary, CupyMemory as CupyMemory, device_with as device_with, imported_cupy as imported_cupy
from .cupy import is_cupys as is_cupys, off_the_gpu as off_the_gpu
from .dlpack import LENT_TYPES as LENT_TYPES, borrow as borrow, can_share as can_share, has_small_floats as has_small_floats
from .dlpack import host_array as host_array, is_jaxs_own as is_jaxs_own, on_whole_elements as on_whole_elements
from .dlpack import in_native_order as in_native_order, is_foreign as is_foreign, is_small_float as is_small_float, on_host as on_host
from .dlpack import on_processor as on_processor, return_arrays as return_arrays, rounded as rounded, torch_is_there as torch_is_there
from .dlpack import widened as widened
from .library import LIBRARY_NAMES as LIBRARY_NAMES
from .library import Allocate as Allocate, Function as Function, Library as Library, Memory as Memory, are_torchs as are_torchs
from .library import elements as elements, extents as extents, unpacked as unpacked
from .library import is_torch_tensor as is_torch_tensor, python_function as python_function
from .numpy import NumpyLibrary as NumpyLibrary, NumpyMemory as NumpyMemory
from .numpy_calls import compiled_text as compiled_text
from .onednn import has_onednn as has_onednn, is_product as is_product, prepared as prepared
from .pool import BufferPool as BufferPool
from .surroundings import Surroundings as Surroundings
from .torch import LentArrays as LentArrays, TorchLibrary as TorchLibrary, TorchMemory as TorchMemory, as_torch_on_gpu as as_torch_on_gpu
from .torch import lent_by_torch as lent_by_torch, library_for as library_for
