from .benchmark import (
    Comparison,
    compare,
)
from .timer import (
    Measurement,
)

__all__ = [
    "Comparison",
    "Measurement",
    "compare",
]
