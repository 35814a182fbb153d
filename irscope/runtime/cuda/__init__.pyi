from .device import CudaDevice, CudaKernel
from .graph_capture import Captured, CupyRecorder, TorchRecorder, captured

__all__ = ["Captured", "CudaDevice", "CudaKernel", "CupyRecorder", "TorchRecorder", "captured"]
