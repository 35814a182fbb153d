from .explainer import (
    Explainer,
    lazy,
)
from .graphviz import (
    MemoryClass,
    memory_classes,
    points_to_dot,
)

__all__ = [
    "Explainer",
    "lazy",
    "MemoryClass",
    "memory_classes",
    "points_to_dot",
]
