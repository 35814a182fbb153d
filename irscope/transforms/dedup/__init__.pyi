from .canonical import (
    fingerprint,
    has_stable_fingerprint,
)
from .constants import (
    find_constants,
    merge_constants,
)
from .matching import (
    Match,
    match,
)
from .piece import (
    Piece,
)
from .result import (
    Dedup,
    EquivalenceClass,
    dedup,
)
from .steps import (
    GIVES_UP,
    RANK,
    RELATIONS,
    Relation,
)
from .units import (
    pieces_of,
)

__all__ = [
    "GIVES_UP",
    "RANK",
    "RELATIONS",
    "Dedup",
    "EquivalenceClass",
    "Match",
    "Piece",
    "Relation",
    "dedup",
    "find_constants",
    "fingerprint",
    "has_stable_fingerprint",
    "match",
    "merge_constants",
    "pieces_of",
]
