from .alias_maintenance import (
    AliasMaintenance,
    Upkeep,
    check_following,
    upkeep_of,
)
from .inplace_parts import (
    split_chains,
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
    "AliasMaintenance",
    "Grouped",
    "Groups",
    "Upkeep",
    "check_following",
    "group_views",
    "split_chains",
    "upkeep_of",
    "written_in_parts",
]
