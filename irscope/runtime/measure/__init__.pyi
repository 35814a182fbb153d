from .benchmark import (
    Comparison,
    compare,
)

__all__ = [
    "Comparison",
    "compare",
]
