from .compiler import (
    Host,
    loaded,
    object_file,
    with_llvm,
)
from .cost_model import (
    estimated_seconds,
)
from .device import (
    CpuDevice,
)

__all__ = [
    "CpuDevice",
    "Host",
    "estimated_seconds",
    "loaded",
    "object_file",
    "with_llvm",
]
