from .inplace_parts import (
    parts_copied,
    split_chains,
)
from .outline import (
    Grouped,
    Groups,
)
from .view_groups import (
    group_views,
)

__all__ = [
    "Grouped",
    "Groups",
    "group_views",
    "parts_copied",
    "split_chains",
]
