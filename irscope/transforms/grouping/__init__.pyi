from .partition import (
    Partition,
)
from .refusal import (
    Refusal,
)

__all__ = [
    "Partition",
    "Refusal",
]
