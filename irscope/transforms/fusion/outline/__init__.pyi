from .inplace_parts import (
    profitable_copies,
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
    "profitable_copies",
    "split_chains",
]
