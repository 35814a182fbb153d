from .call_sites import (
    CALLS,
    callee_of,
    calls_in,
    operands_of,
)
from .memory_signatures import (
    OBJECT,
    MemorySignature,
    Signatures,
    Source,
    fits,
    is_type_variable,
)
from .op_effects import (
    ReadKind,
    changes_random_state,
    is_fully_opaque,
    is_stopping,
    reads_by_name,
)

__all__ = [
    "CALLS",
    "MemorySignature",
    "OBJECT",
    "ReadKind",
    "Signatures",
    "Source",
    "callee_of",
    "calls_in",
    "changes_random_state",
    "fits",
    "is_fully_opaque",
    "is_stopping",
    "is_type_variable",
    "operands_of",
    "reads_by_name",
]
