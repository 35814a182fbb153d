from .builder import (
    PointsToBuilder,
    Shared,
)
from .elements import (
    Elements,
)
from .external_memory import (
    OutsideMemory,
)
from .memory_structure import (
    MIXED,
    TENSOR,
    Structure,
    Structures,
    class_name,
)
from .reachability import (
    Reachability,
)
from .records import (
    Called,
    Label,
    Place,
    PointsTo,
    Reasons,
    Write,
    make_place,
)
from .solver import (
    collapse_cycles,
)

__all__ = [
    "Called",
    "Elements",
    "Label",
    "MIXED",
    "OutsideMemory",
    "Place",
    "PointsTo",
    "PointsToBuilder",
    "Reachability",
    "Reasons",
    "Shared",
    "Structure",
    "Structures",
    "TENSOR",
    "Write",
    "class_name",
    "collapse_cycles",
    "make_place",
]
