from .trace_function import (
    trace,
)

__all__ = [
    "trace",
]
