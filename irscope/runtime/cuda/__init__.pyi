from .device import CudaDevice as CudaDevice, CudaKernel as CudaKernel
from .graph_capture import (
    Captured as Captured,
    CupyRecorder as CupyRecorder,
    Replays as Replays,
    TorchRecorder as TorchRecorder,
    captured as captured,
    why_not_replayed as why_not_replayed,
)
from .launch import CaptureArena as CaptureArena
