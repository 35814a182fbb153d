from .fold import (
    constant_node,
    fold_constants,
    fold_tensors,
    remove_dead_nodes,
)

__all__ = [
    "constant_node",
    "fold_constants",
    "fold_tensors",
    "remove_dead_nodes",
]
