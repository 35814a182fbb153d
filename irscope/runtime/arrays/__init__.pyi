from .array_memory import (
    NO_MEMORY,
    Allocate,
    Memory,
    NumpyMemory,
    TorchMemory,
    extents,
)
from .buffer_pool import (
    BufferPool,
)
from .cupy_import import imported_cupy
from .cupy_library import (
    CupyLibrary,
    is_cupys,
    off_the_gpu,
)
from .cupy_memory import (
    CupyMemory,
    as_torch_on_gpu,
)
from .dlpack import (
    borrow,
    host_array,
    is_foreign,
    on_host,
    on_processor,
    return_arrays,
)
from .library import (
    Library,
    TorchLibrary,
    are_torchs,
    is_torch_tensor,
    lent_by_torch,
    library_for,
)

__all__ = [
    "imported_cupy",
    "BufferPool",
    "CupyLibrary",
    "CupyMemory",
    "Library",
    "Allocate",
    "Memory",
    "NO_MEMORY",
    "NumpyMemory",
    "TorchLibrary",
    "TorchMemory",
    "are_torchs",
    "as_torch_on_gpu",
    "borrow",
    "extents",
    "return_arrays",
    "host_array",
    "is_cupys",
    "is_foreign",
    "is_torch_tensor",
    "lent_by_torch",
    "library_for",
    "off_the_gpu",
    "on_host",
    "on_processor",
]
