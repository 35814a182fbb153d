from .builder import OutsideMemory, PointsToBuilder, Shared
from .elements import MIXED, TENSOR, Elements, Structure, Structures, class_name
from .graph import (
    Called,
    Effects,
    Label,
    MemoryClass,
    Place,
    PointsTo,
    Reachability,
    Reasons,
    Write,
    closure,
    collapse_cycles,
    make_place,
    memory_classes,
    points_to_dot,
)

__all__ = [
    "Called", "Effects", "Elements", "Label", "MIXED", "MemoryClass", "OutsideMemory", "Place", "PointsTo", "PointsToBuilder",
    "Reachability", "Reasons", "Shared", "Structure", "Structures", "TENSOR", "Write", "class_name", "closure", "collapse_cycles",
    "make_place", "memory_classes", "points_to_dot",
]  # fmt: skip
