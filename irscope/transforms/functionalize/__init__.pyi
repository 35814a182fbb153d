from .functionalize_pass import (
    functionalize,
    why_in_place,
)

__all__ = [
    "functionalize",
    "why_in_place",
]
