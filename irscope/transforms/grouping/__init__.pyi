from .outline import (
    Identity,
    Refusal,
    leaving_values,
    outline_nodes,
    outside_names,
    unused_constants,
    with_groups,
)
from .partition import (
    Partition,
)

__all__ = [
    "Identity",
    "Partition",
    "Refusal",
    "leaving_values",
    "outline_nodes",
    "outside_names",
    "unused_constants",
    "with_groups",
]
