from .box_tree import (
    BoxTree,
    writes_memory,
)
from .levels import (
    Levels,
)
from .line_numbers import (
    heading_lines,
    line_count,
    node_lines,
)
from .repeated_modules import (
    ModuleText,
)

__all__ = [
    "BoxTree",
    "Levels",
    "ModuleText",
    "heading_lines",
    "line_count",
    "node_lines",
    "writes_memory",
]
