from .assumed import (
    Layouts,
    demands_of,
    with_strides_of,
)
from .byte_sets import (
    NOTHING,
    ByteSet,
    are_disjoint,
    byte_set,
)
from .demand import (
    Demand,
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
    "ViewAliases",
    "are_disjoint",
    "byte_set",
    "demands_of",
    "with_strides_of",
]
