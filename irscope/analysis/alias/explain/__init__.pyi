from .explainer import (
    Explainer,
)
from .graphviz import (
    points_to_dot,
)
from .lazy_verdict import (
    lazy,
)

__all__ = [
    "Explainer",
    "lazy",
    "points_to_dot",
]
