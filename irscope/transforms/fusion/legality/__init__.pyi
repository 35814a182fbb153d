from .data_movement import (
    patched_range,
)
from .eligibility import (
    Eligibility,
)
from .group_domain import (
    MAX_PATCHES,
    Domain,
)
from .iteration_space import (
    format_space,
)
from .node_profile import (
    NodeProfiles,
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
    "NodeProfiles",
    "MAX_PATCHES",
    "PATCHES",
    "Eligibility",
    "SEEN_THROUGH",
    "patched_range",
    "format_space",
    "unpacked_cut",
]
