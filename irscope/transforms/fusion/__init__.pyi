from .fuse_pass import (
    fuse,
    fuse_groups,
)
from .fusion_result import (
    GROUPING,
    Fusion,
)
from .outline.pool_kernels import (
    group_pools,
)
from .outline.view_groups import (
    group_views,
)
from .prepare import (
    prepare_fusion,
)

__all__ = [
    "GROUPING",
    "Fusion",
    "fuse",
    "fuse_groups",
    "group_pools",
    "group_views",
    "prepare_fusion",
]
