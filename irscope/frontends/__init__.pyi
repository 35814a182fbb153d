from .registry import (
    FRONTENDS,
    Frontend,
    load,
)

__all__ = [
    "FRONTENDS",
    "Frontend",
    "load",
]
