from .functionalize_pass import (
    functionalize,
)

__all__ = [
    "functionalize",
]
