"""One colour for each op category, in every view, and the words of the legend."""

from __future__ import annotations

from typing import Final

__all__ = ["PALETTE", "WRITES"]

PALETTE: Final = {
    "pointwise": "#4c78a8",
    "reduction": "#f58518",
    "normalization": "#b279a2",
    "matmul": "#e45756",
    "convolution": "#9d4edd",
    "view": "#54a24b",
    "memory": "#72b7b2",
    "random": "#ff9da6",
    "container": "#9d9da1",
    "scalar": "#bab0ac",
    "control": "#eeca3b",
    "other": "#8c8c8c",
    "module": "#6b7280",
    "input": "#2f855a",
    "output": "#2f855a",
}
"""Category to colour; readable as a border on light and dark backgrounds."""
WRITES: Final = "#d62728"
"""The colour of an in-place write."""
