from .lifetimes import (
    Buffer,
    Lifetimes,
    lifetimes,
)
from .memory_plan import (
    MemoryPlan,
    memory_plan,
)
from .placement import (
    Block,
    Place,
)

__all__ = [
    "Block",
    "Buffer",
    "Lifetimes",
    "MemoryPlan",
    "Place",
    "lifetimes",
    "memory_plan",
]
