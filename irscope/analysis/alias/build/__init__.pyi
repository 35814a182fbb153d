from .call_graph import (
    callees_of,
    summaries,
)
from .callee_summary import (
    NO_CALLEES,
)
from .conflict import (
    Kind,
    OrderConflict,
)
from .copies import (
    copy_flag,
    is_copy_by_types,
)
from .mod_ref import (
    EVERYTHING,
    WAITS,
    Access,
    Accesses,
    ModRef,
)
from .node_rules import (
    NodeRules,
)
from .schema_rules import (
    STATISTICS,
)
from .walk import (
    NOTHING,
    Walk,
    build,
    is_inlined,
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
