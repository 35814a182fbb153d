from .in_place import (
    Offers,
)
from .live_ranges import (
    Buffer,
    Lifetimes,
    lifetimes,
)
from .placement import (
    Block,
    Place,
    stacked,
)
from .plan import (
    MemoryPlan,
    memory_plan,
)

__all__ = [
    "Block",
    "Buffer",
    "Lifetimes",
    "MemoryPlan",
    "Offers",
    "Place",
    "lifetimes",
    "memory_plan",
    "stacked",
]
