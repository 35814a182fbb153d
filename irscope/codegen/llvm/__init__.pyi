from .emit import GENERIC, emit_llvm, least_rows, vector_width
from .kernel_base import Target

__all__ = ["GENERIC", "Target", "emit_llvm", "least_rows", "vector_width"]
