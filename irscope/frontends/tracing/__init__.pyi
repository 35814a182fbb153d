from .source import (
    trace,
)

__all__ = [
    "trace",
]
