from .classes import (
    ConstantDedup,
    ConstantStep,
    constant_classes,
)
from .merging import (
    merge_constants,
)
from .sharing import (
    find_constants,
)

__all__ = [
    "ConstantDedup",
    "ConstantStep",
    "constant_classes",
    "find_constants",
    "merge_constants",
]
