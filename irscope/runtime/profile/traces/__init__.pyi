from .chrome_trace import (
    chrome_trace,
)
from .speedscope import (
    speedscope,
)
from .torch_trace import (
    TraceReading,
    read,
)

__all__ = [
    "TraceReading",
    "chrome_trace",
    "read",
    "speedscope",
]
