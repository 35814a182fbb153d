from .dedup_pass import (
    Dedup,
    EquivalenceClass,
    dedup,
)

__all__ = [
    "Dedup",
    "EquivalenceClass",
    "dedup",
]
