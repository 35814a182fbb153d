from .in_place import (
    Offers,
)
from .live_ranges import (
    Buffer,
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
    "MemoryPlan",
    "Offers",
    "Place",
    "memory_plan",
    "stacked",
]
