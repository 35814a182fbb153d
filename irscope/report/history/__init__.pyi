from .alias_by_step import (
    AliasSteps,
)
from .node_lifetimes import (
    lifetimes,
)

__all__ = [
    "AliasSteps",
    "lifetimes",
]
