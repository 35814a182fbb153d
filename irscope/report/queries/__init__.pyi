from .search import (
    Queries,
)

__all__ = [
    "Queries",
]
