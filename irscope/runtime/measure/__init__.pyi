from .benchmark import (
    Comparison,
    compare,
    side_by_side,
)

__all__ = [
    "Comparison",
    "compare",
    "side_by_side",
]
