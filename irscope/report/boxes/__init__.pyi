from .box_tree import BoxTree, Levels, heading_lines, line_count, node_lines, writes_memory
from .layout import Layout, Rect, Route, lay_out
from .repeats import ModuleText

__all__ = [
    "BoxTree", "Layout", "Levels", "ModuleText", "Rect", "Route", "heading_lines", "lay_out", "line_count",
    "node_lines", "writes_memory",
]  # fmt: skip
