from .alias_by_step import (
    AliasSteps,
)
from .node_lifetimes import (
    stretches,
)

__all__ = [
    "AliasSteps",
    "stretches",
]
