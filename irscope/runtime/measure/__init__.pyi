from .benchmark import (
    Comparison,
    compare,
)
from .side_by_side import (
    side_by_side,
)

__all__ = [
    "Comparison",
    "compare",
    "side_by_side",
]
