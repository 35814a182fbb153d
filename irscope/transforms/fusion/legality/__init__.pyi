from .data_movement import (
    patched_range,
)
from .eligibility import (
    Rules,
)
from .group_domain import (
    MAX_PATCHES,
    Domain,
)
from .iteration_space import (
    told_space,
)
from .node_profile import (
    Fitness,
)
from .view_ops import (
    CUTS,
    PATCHES,
    SEEN_THROUGH,
    unpacked_cut,
)

__all__ = [
    "CUTS",
    "Domain",
    "Fitness",
    "MAX_PATCHES",
    "PATCHES",
    "Rules",
    "SEEN_THROUGH",
    "patched_range",
    "told_space",
    "unpacked_cut",
]
