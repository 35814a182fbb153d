from .canonical import (
    fingerprint,
    is_told_by_form,
)
from .dedup_pass import (
    Dedup,
    EquivalenceClass,
)
from .matching import (
    Match,
    match,
)
from .piece import (
    Piece,
)
from .sorting import (
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
    "fingerprint",
    "is_told_by_form",
    "match",
    "pieces_of",
]
