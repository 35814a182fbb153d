from .inference import (
    NodeSignature,
    Shapes,
    infer,
    infer_after,
    refine,
    refined,
    retyped,
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
    "refine",
    "refined",
    "retyped",
    "reshaped_objects",
]
