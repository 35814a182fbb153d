from .outline import (
    Identity,
    leaving_values,
    outline_nodes,
    outside_names,
    unused_constants,
    with_groups,
)
from .partition import (
    Partition,
)
from .refusal import (
    Refusal,
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
