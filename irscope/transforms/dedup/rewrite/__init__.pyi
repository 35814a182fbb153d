from .applied import (
    Applied,
    apply_classes,
)
from .cost import (
    Cost,
    compile_seconds,
    cost_of,
    measured_seconds,
    text_bytes,
)
from .groups import (
    merge_groups,
)
from .modules import (
    obstacles,
)
from .normal_form import (
    normal_form,
)
from .parameters import (
    ClassHoles,
    HoleRow,
    class_holes,
    proof,
)
from .recommend import (
    Price,
    Recommendation,
    recommended,
)

__all__ = [
    "Applied",
    "ClassHoles",
    "Cost",
    "HoleRow",
    "Price",
    "Recommendation",
    "apply_classes",
    "class_holes",
    "compile_seconds",
    "cost_of",
    "measured_seconds",
    "merge_groups",
    "normal_form",
    "obstacles",
    "proof",
    "recommended",
    "text_bytes",
]
