from .canonical import (
    fingerprint,
    is_told_by_form,
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
    "is_told_by_form",
    "match",
    "pieces_of",
]
