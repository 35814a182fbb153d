from .assumed import (
    Layouts,
    demands_of,
    following,
    with_new_strides,
    with_strides_of,
)
from .demand import (
    Demand,
    as_demand,
)
from .recommend import (
    Recommendation,
)
from .view_aliases import (
    ViewAliases,
)

__all__ = [
    "Demand",
    "Layouts",
    "Recommendation",
    "ViewAliases",
    "as_demand",
    "demands_of",
    "following",
    "with_new_strides",
    "with_strides_of",
]
