from .kernels import (
    Generated,
    KernelPieces,
    kernel_pieces,
)
from .programs import (
    pieces_of,
)

__all__ = [
    "Generated",
    "KernelPieces",
    "kernel_pieces",
    "pieces_of",
]
