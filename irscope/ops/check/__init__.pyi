from .node_check import (
    verify,
)

__all__ = [
    "verify",
]
