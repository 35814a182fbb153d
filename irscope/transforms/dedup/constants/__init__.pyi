from .classes import (
    ConstantClass,
    ConstantDedup,
    ConstantStep,
    constant_classes,
)
from .merging import (
    merge_constants,
)
from .sharing import (
    Constants,
    Sharing,
    find_constants,
)
from .stored import (
    Stored,
)

__all__ = [
    "ConstantClass",
    "ConstantDedup",
    "ConstantStep",
    "Constants",
    "constant_classes",
    "Sharing",
    "Stored",
    "find_constants",
    "merge_constants",
]
