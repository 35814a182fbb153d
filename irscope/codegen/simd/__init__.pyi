from .function_builder import (
    Carry,
    FunctionBuilder,
    Loop,
)
from .instruction_text import (
    MEMORY,
    REGISTER,
    element,
    from_memory,
    to_memory,
)
from .reduction_text import (
    across_lanes,
    first_values,
    kinds,
    taken_in,
)
from .vector_builder import (
    VectorBuilder,
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
