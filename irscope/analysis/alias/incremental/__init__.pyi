from .delta import (
    CannotFollow,
)
from .update import (
    Knowledge,
    Record,
    follow,
)

__all__ = [
    "CannotFollow",
    "Knowledge",
    "Record",
    "follow",
]
