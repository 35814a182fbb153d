from .callee_summary import (
    NO_CALLEES,
)
from .mod_ref import (
    EVERYTHING,
    WAITS,
    Access,
    Accesses,
    Kind,
    ModRef,
    OrderConflict,
)
from .node_rules import (
    STATISTICS,
    NodeRules,
    copy_flag,
    is_copy_by_types,
)
from .walk import (
    NOTHING,
    Walk,
    build,
    callees_of,
    is_inlined,
    summaries,
)

__all__ = [
    "Access",
    "Accesses",
    "EVERYTHING",
    "Kind",
    "NOTHING",
    "NO_CALLEES",
    "ModRef",
    "NodeRules",
    "OrderConflict",
    "STATISTICS",
    "WAITS",
    "Walk",
    "build",
    "callees_of",
    "copy_flag",
    "is_copy_by_types",
    "is_inlined",
    "summaries",
]
