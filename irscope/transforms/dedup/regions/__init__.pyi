from .finding import (
    find_regions,
)
from .nesting import (
    outline_nested,
)
from .outline import (
    outline_regions,
)
from .pieces import (
    RegionPieces,
    region_pieces,
)
from .repeat import (
    Repeat,
)
from .scopes import (
    scope_pieces,
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
