from .inference import (
    NodeSignature,
    Shapes,
    infer,
    infer_after,
    refine,
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
    "reshaped_objects",
]
