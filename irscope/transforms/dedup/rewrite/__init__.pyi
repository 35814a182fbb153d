from .canonical_body import (
    normal_form,
)
from .groups import (
    Choice,
    merge_groups,
    merge_groups_of_all,
)
from .modules import (
    merge_modules,
    obstacles,
)
from .parameters import (
    ClassHoles,
    HoleRow,
    class_holes,
    proof,
)
from .recommendation import (
    Cost,
    Price,
    Recommendation,
    compile_seconds,
    cost_of,
    measured_seconds,
    recommend,
    text_bytes,
)

__all__ = [
    "Choice",
    "ClassHoles",
    "Cost",
    "HoleRow",
    "Price",
    "Recommendation",
    "class_holes",
    "compile_seconds",
    "cost_of",
    "measured_seconds",
    "merge_groups",
    "merge_groups_of_all",
    "merge_modules",
    "normal_form",
    "obstacles",
    "proof",
    "recommend",
    "text_bytes",
]
