from .node_check import (
    named_operands,
    verify,
    wrong_extents,
)

__all__ = [
    "named_operands",
    "verify",
    "wrong_extents",
]
