from .nested import (
    Layout,
    Rect,
    Route,
    lay_out,
)

__all__ = [
    "Layout",
    "Rect",
    "Route",
    "lay_out",
]
