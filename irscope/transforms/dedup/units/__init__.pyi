from .kernels import (
    KernelPieces,
    kernel_pieces,
)
from .programs import (
    pieces_of,
)

__all__ = [
    "KernelPieces",
    "kernel_pieces",
    "pieces_of",
]
