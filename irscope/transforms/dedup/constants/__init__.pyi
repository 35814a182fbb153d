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
    "Constants",
    "Sharing",
    "Stored",
    "find_constants",
    "merge_constants",
]
