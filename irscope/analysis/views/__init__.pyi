from .assumed import (
    Layouts,
    demands_of,
    following,
    with_new_strides,
    with_strides_of,
)
from .byte_sets import (
    ByteSet,
    SymbolicBytes,
    byte_set,
)
from .demand import (
    Demand,
    as_demand,
)
from .layout import (
    Layout,
)
from .recommend import (
    Recommendation,
)
from .view_aliases import (
    ViewAliases,
)

__all__ = [
    "ByteSet",
    "Demand",
    "Layout",
    "Layouts",
    "Recommendation",
    "SymbolicBytes",
    "ViewAliases",
    "as_demand",
    "byte_set",
    "demands_of",
    "following",
    "with_new_strides",
    "with_strides_of",
]
