from .emit import (
    GENERIC,
    Target,
    emit_llvm,
    least_rows,
    vector_width,
)

__all__ = [
    "GENERIC",
    "Target",
    "emit_llvm",
    "least_rows",
    "vector_width",
]
