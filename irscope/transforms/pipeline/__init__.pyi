from .registry import (
    PASSES,
)
from .runner import (
    Pipeline,
    Pipelined,
)

__all__ = [
    "PASSES",
    "Pipeline",
    "Pipelined",
]
