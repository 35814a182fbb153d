from .builder import OutsideMemory, PointsToBuilder, Shared
from .elements import MIXED, TENSOR, Elements, Structure, Structures, class_name
from .graph import (
    Called,
    Label,
    MemoryClass,
    Place,
    PointsTo,
    Reachability,
    Reasons,
    Write,
    collapse_cycles,
    make_place,
    memory_classes,
    points_to_dot,
)

__all__ = [
    "Called", "Elements", "Label", "MIXED", "MemoryClass", "OutsideMemory", "Place", "PointsTo", "PointsToBuilder", "Reachability",
    "Reasons", "Shared", "Structure", "Structures", "TENSOR", "Write", "class_name", "collapse_cycles", "make_place",
    "memory_classes", "points_to_dot",
]  # fmt: skip
