from .canonical import (
    fingerprint,
    is_told_by_form,
)
from .dedup_pass import (
    Dedup,
    EquivalenceClass,
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
)
from .sorting import (
    Unit,
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
    "Body",
    "Dedup",
    "EquivalenceClass",
    "Hole",
    "Match",
    "Piece",
    "Relation",
    "Site",
    "Unit",
    "dedup",
    "fingerprint",
    "is_told_by_form",
    "match",
    "pieces_of",
]
