from .dce import (
    remove_dead_nodes,
)
from .fold import (
    constant_node,
)

__all__ = [
    "constant_node",
    "remove_dead_nodes",
]
