from .canonical import (
    fingerprint,
)
from .dedup_pass import (
    Dedup,
    EquivalenceClass,
    dedup,
)
from .holes import (
    Hole,
    Site,
)
from .matching import (
    Match,
    match,
)
from .piece import (
    Body,
    Piece,
    pieces_of,
)
from .steps import (
    RANK,
    RELATIONS,
    Relation,
)

__all__ = [
    "RANK",
    "RELATIONS",
    "Body",
    "Dedup",
    "EquivalenceClass",
    "Hole",
    "Match",
    "Piece",
    "Relation",
    "Site",
    "dedup",
    "fingerprint",
    "match",
    "pieces_of",
]
