from .explain import (
    Cost,
)
from .fuse_pass import (
    fuse,
    fuse_groups,
    fuse_rebuilding,
    prepare_fusion,
)
from .fusion_result import (
    GROUPING,
    Fusion,
)
from .outline import (
    group_pools,
    group_views,
)
from .planning import (
    Named,
)
from .policies import (
    POLICIES,
    Score,
)

__all__ = [
    "Cost",
    "Fusion",
    "GROUPING",
    "Named",
    "POLICIES",
    "Score",
    "fuse",
    "fuse_groups",
    "fuse_rebuilding",
    "group_pools",
    "group_views",
    "prepare_fusion",
]
