from .finding import (
    find_regions,
)
from .outline import (
    outline_nested,
    outline_regions,
)
from .pieces import (
    RegionPieces,
    region_pieces,
    scope_pieces,
)
from .repeat import (
    Repeat,
)

__all__ = [
    "RegionPieces",
    "Repeat",
    "find_regions",
    "outline_nested",
    "outline_regions",
    "region_pieces",
    "scope_pieces",
]
