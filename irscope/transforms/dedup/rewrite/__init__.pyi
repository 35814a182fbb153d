from .groups import (
    Choice,
    merge_groups,
)
from .parameters import (
    ClassHoles,
    HoleRow,
    class_holes,
)

__all__ = [
    "Choice",
    "ClassHoles",
    "HoleRow",
    "class_holes",
    "merge_groups",
]
