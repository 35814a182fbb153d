from .inference import (
    NodeSignature,
    Shapes,
    infer,
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
    "refine",
    "reshaped_objects",
]
