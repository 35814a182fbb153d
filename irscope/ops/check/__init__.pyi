from .extent_check import (
    wrong_extents,
)
from .node_check import (
    verify,
)
from .result_types import (
    named_operands,
)

__all__ = [
    "named_operands",
    "verify",
    "wrong_extents",
]
