from .inference import (
    Form,
    Shapes,
    infer,
    refine,
)
from .reshaped_tensors import (
    HeldObjects,
    reshaped_objects,
)

__all__ = [
    "Form",
    "HeldObjects",
    "Shapes",
    "infer",
    "refine",
    "reshaped_objects",
]
