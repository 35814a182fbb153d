from .assumed import (
    Layouts,
    demands_of,
    following,
    with_new_strides,
    with_strides_of,
)
from .byte_sets import (
    NOTHING,
    ByteSet,
    SymbolicBytes,
    are_disjoint,
    byte_set,
)
from .demand import (
    Demand,
    as_demand,
)
from .explain import (
    StrideDemand,
)
from .layout import (
    Layout,
)
from .placement import (
    Placement,
)
from .recommend import (
    Recommendation,
)
from .view_aliases import (
    ViewAliases,
)

__all__ = [
    "NOTHING",
    "ByteSet",
    "Demand",
    "Layout",
    "Layouts",
    "Placement",
    "Recommendation",
    "StrideDemand",
    "SymbolicBytes",
    "ViewAliases",
    "are_disjoint",
    "as_demand",
    "byte_set",
    "demands_of",
    "following",
    "with_new_strides",
    "with_strides_of",
]
