from .device import CudaDevice as CudaDevice, CudaKernel as CudaKernel
from .graph_capture import Captured as Captured, CupyRecorder as CupyRecorder, TorchRecorder as TorchRecorder, captured as captured
