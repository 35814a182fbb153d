from .alias_maintenance import (
    AliasUpkeep,
    Upkeep,
    check_following,
    upkeep_of,
)
from .inplace_parts import (
    torn,
    written_in_parts,
)
from .outline import (
    Grouped,
    Groups,
)
from .view_groups import (
    group_views,
)

__all__ = [
    "AliasUpkeep",
    "Grouped",
    "Groups",
    "Upkeep",
    "check_following",
    "group_views",
    "torn",
    "upkeep_of",
    "written_in_parts",
]
