from .dce import (
    remove_dead_nodes,
)
from .fold import (
    constant_node,
    fold_constants,
    fold_tensors,
)

__all__ = [
    "constant_node",
    "fold_constants",
    "fold_tensors",
    "remove_dead_nodes",
]
