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
    profiles_of,
)
from .view_ops import (
    unpacked_cut,
)

__all__ = [
    "Domain",
    "NodeProfiles",
    "MAX_PATCHES",
    "Eligibility",
    "profiles_of",
    "patched_range",
    "format_space",
    "unpacked_cut",
]
