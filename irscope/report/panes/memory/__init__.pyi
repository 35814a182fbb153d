from .buffer_view import (
    buffer_view,
    buffers_with_views,
    layout_view,
)
from .memory_view import (
    memory_view,
)
from .tensor_layouts import (
    LayoutViews,
)

__all__ = [
    "LayoutViews",
    "buffer_view",
    "buffers_with_views",
    "layout_view",
    "memory_view",
]
