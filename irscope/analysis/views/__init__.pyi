from .byte_sets import (
    NOTHING,
    ByteSet,
    are_disjoint,
    byte_set,
)
from .layout import (
    Layout,
)
from .placement import (
    Placement,
)
from .view_aliases import (
    ViewAliases,
)

__all__ = [
    "NOTHING",
    "ByteSet",
    "Layout",
    "Placement",
    "ViewAliases",
    "are_disjoint",
    "byte_set",
]
