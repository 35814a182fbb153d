"""The edges drawn inside each box.

An edge between two boxes belongs to the innermost box around both, where it connects the two children that contain its
ends; equal edges are merged. The edges of all levels are computed together, one nesting depth at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irscope.report.boxes.box_tree import BoxTree
from irscope.report.view_models import Edge

__all__ = ["Levels"]

_MOST_VALUES = 12
"""The most values listed for one drawn edge."""


class Levels:
    """The drawn edges of a tree of boxes, level by level."""

    def __init__(self, tree: BoxTree) -> None:
        self._tree = tree
        a, b, values = tree.sources, tree.targets, tree.values
        self.reads = np.zeros(len(tree), bool)
        """Boxes that use a value from outside their parent."""
        self.feeds = np.zeros(len(tree), bool)
        """Boxes that produce a value used outside their parent."""
        depth = _depths(tree.parent)
        parent = np.append(tree.parent, -1)  # makes the top, -1, its own parent
        holds = np.zeros(len(a), bool)
        while (deeper := depth[a] > depth[b]).any():
            self.feeds[a[deeper]] = True
            a = np.where(deeper, parent[a], a)
        while (deeper := depth[b] > depth[a]).any():
            self.reads[b[deeper]] = True
            b = np.where(deeper, parent[b], b)
        holds = a == b
        while (apart := ~holds & (parent[a] != parent[b])).any():
            self.feeds[a[apart]] = True
            self.reads[b[apart]] = True
            a, b = np.where(apart, parent[a], a), np.where(apart, parent[b], b)
        a, b, values = a[~holds], b[~holds], values[~holds]
        level = parent[a]
        order = np.lexsort((b, a, level))
        self._a, self._b, self._values, self._level = a[order], b[order], values[order], level[order]

    def edges_in(self, box: int) -> Iterator[Edge]:
        """The edges between the children of a box (-1: the outermost), each with a few of its values."""
        first, last = np.searchsorted(self._level, [box, box + 1])
        ids = self._tree.ids
        before, told = (-1, -1), 0
        for k in range(int(first), int(last)):
            ends = int(self._a[k]), int(self._b[k])
            told = told + 1 if ends == before else 0
            before = ends
            if told < _MOST_VALUES:
                yield Edge(source=ids[ends[0]], target=ids[ends[1]], value=int(self._values[k]))


def _depths(parent: np.ndarray) -> np.ndarray:
    """The nesting depth of each box; parents come first."""
    depth = [0] * len(parent)
    for box, around in enumerate(parent.tolist()):
        if around >= 0:
            depth[box] = depth[around] + 1
    return np.array(depth, np.int64)
