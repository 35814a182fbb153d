from .fuse_pass import (
    Fusion,
    fuse,
)

__all__ = [
    "Fusion",
    "fuse",
]
