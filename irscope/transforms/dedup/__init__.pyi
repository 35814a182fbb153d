from .classes import (
    Ladder,
    pieces_of,
)
from .constants import (
    find_constants,
    merge_constants,
)
from .form import (
    fingerprint,
    has_stable_fingerprint,
)
from .matching import (
    Match,
    match,
    meeting,
)
from .pairing import (
    same_bits,
)
from .piece import (
    GIVES_UP,
    RANK,
    RELATIONS,
    Piece,
    Relation,
    SlotPair,
    format_payload,
    operand_name,
)
from .result import (
    Dedup,
    EquivalenceClass,
    dedup,
)

__all__ = [
    "GIVES_UP",
    "RANK",
    "RELATIONS",
    "Dedup",
    "EquivalenceClass",
    "Ladder",
    "Match",
    "Piece",
    "Relation",
    "SlotPair",
    "dedup",
    "find_constants",
    "fingerprint",
    "has_stable_fingerprint",
    "match",
    "meeting",
    "merge_constants",
    "operand_name",
    "pieces_of",
    "same_bits",
    "format_payload",
]
