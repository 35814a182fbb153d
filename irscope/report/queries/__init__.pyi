from .language import (
    parse_query,
)
from .search import (
    Queries,
)

__all__ = [
    "Queries",
    "parse_query",
]
