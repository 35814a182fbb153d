from .finding import (
    find_regions,
)
from .outline import (
    outline_regions,
)
from .pieces import (
    RegionPieces,
    region_pieces,
)
from .repeat import (
    RegionHole,
    Repeat,
)

__all__ = [
    "RegionHole",
    "RegionPieces",
    "Repeat",
    "find_regions",
    "outline_regions",
    "region_pieces",
]
