from .device import (
    CudaDevice,
)
from .graph_capture import (
    Captured,
    CupyRecorder,
    TorchRecorder,
    captured,
)
from .kernel import (
    CudaKernel,
)

__all__ = [
    "Captured",
    "CudaDevice",
    "CudaKernel",
    "CupyRecorder",
    "TorchRecorder",
    "captured",
]
