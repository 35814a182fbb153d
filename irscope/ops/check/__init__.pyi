from .extent_check import (
    wrong_extents,
)
from .node_check import (
    verify,
)

__all__ = [
    "verify",
    "wrong_extents",
]
