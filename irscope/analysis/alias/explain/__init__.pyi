from .explainer import (
    Explainer,
)
from .graphviz import (
    MemoryClass,
    memory_classes,
    points_to_dot,
)
from .lazy_verdict import (
    lazy,
)

__all__ = [
    "Explainer",
    "lazy",
    "MemoryClass",
    "memory_classes",
    "points_to_dot",
]
