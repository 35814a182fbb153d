from .chrome_trace import (
    chrome_trace,
)
from .speedscope import (
    speedscope,
)
from .torch_trace import (
    map_trace,
)

__all__ = [
    "chrome_trace",
    "map_trace",
    "speedscope",
]
