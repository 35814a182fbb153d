from .inference import (
    NodeSignature,
    Shapes,
    infer,
    infer_after,
    refine,
    refined,
)
from .list_writes import (
    list_writes,
)
from .reshaped_tensors import (
    CallerVisible,
    reshaped_objects,
)

__all__ = [
    "NodeSignature",
    "CallerVisible",
    "Shapes",
    "infer",
    "infer_after",
    "list_writes",
    "refine",
    "refined",
    "reshaped_objects",
]
