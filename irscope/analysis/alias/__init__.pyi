from .query import (
    AliasDb,
)

__all__ = [
    "AliasDb",
]
