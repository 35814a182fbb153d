from .builder import (
    Carry,
    FunctionBuilder,
    Loop,
    VectorBuilder,
)
from .instruction_text import (
    MEMORY,
    REGISTER,
    across_lanes,
    element,
    first_values,
    from_memory,
    kinds,
    taken_in,
    to_memory,
)

__all__ = [
    "Carry",
    "FunctionBuilder",
    "VectorBuilder",
    "Loop",
    "MEMORY",
    "REGISTER",
    "across_lanes",
    "element",
    "first_values",
    "from_memory",
    "kinds",
    "taken_in",
    "to_memory",
]
