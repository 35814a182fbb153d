"""Grows equal regions side by side, from one node in each.

*Columns.* A region is a list of columns; a column has one node in each place, and the nodes of a column look the same. A new
column consists of the nodes that the same edge from one column leads to in all places: the producer of an operand, or the n-th
user of a result that has a given look and reads it as a given operand.

*Invariant.* No node is in two columns or places. Between any two columns there are the same edges in every place: a column is
refused if one of its operands comes from a column in one place, and not from that column in another, or if the users of its
results in the columns differ. So the map from the nodes of one place to those of another, column by column, is an isomorphism of
the induced graphs, and only the paired nodes themselves remain to be proved equal, payload by payload.

*Termination.* An edge that leads to different looks, to one node twice, or to a node of another place, is the border: its value
becomes a parameter or a result. Refusals are final, as columns only grow: each edge is tried once, and the total cost is the
number of edges of the grown regions and of their border. Users are tried before producers, so that layers end where the next one
begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from irscope.transforms.dedup.regions.block_index import OUTSIDE, BlockIndex

__all__ = ["Growth", "grow"]

_Edge = tuple[int, int, int]
"""The user's column, the place among its operands, and the number of the producer's result."""


@dataclass(eq=False)
class Growth:
    """The state of growing regions."""

    index: BlockIndex
    taken: Sequence[int]
    """Nonzero for the nodes that belong to regions found before."""
    count: int
    """The number of places."""
    columns: list[list[int]] = field(default_factory=list)
    home: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The place and the column of each node of the regions."""
    _wanted: dict[tuple[int, int], list[_Edge]] = field(default_factory=dict)
    """By place and node, the edges from a node outside to columns of the place."""
    _forwards: deque[int] = field(default_factory=deque)
    _backwards: deque[int] = field(default_factory=deque)

    def run(self, seeds: Sequence[int]) -> None:
        """Grow from one node in each place until no column can be added."""
        self._add(list(seeds))
        while self._forwards or self._backwards:
            if self._forwards:
                self._try_readers(self._forwards.popleft())
            else:
                self._try_producers(self._backwards.popleft())

    def _try_readers(self, column: int) -> None:
        """Try columns of the nodes that read the results of a column in the same way in all places."""
        rows = [self._readers(node) for node in self.columns[column]]
        first = rows[0]
        for key, readers in first.items():
            others = [row.get(key, ()) for row in rows]
            if all(len(other) == len(readers) for other in others):
                for nodes in zip(*others, strict=True):
                    self._add(list(nodes))

    def _readers(self, node: int) -> dict[tuple[int, int, int], list[int]]:
        looks = self.index.looks
        found: dict[tuple[int, int, int], list[int]] = {}
        for number, slot, reader in self.index.users[node]:
            found.setdefault((number, slot, looks[reader]), []).append(reader)
        return found

    def _try_producers(self, column: int) -> None:
        rows = [self.index.producers[node] for node in self.columns[column]]
        for made in zip(*rows, strict=True):
            if made[0][0] != OUTSIDE:
                self._add([producer for producer, _ in made])

    def _add(self, nodes: list[int]) -> bool:
        """Add a column if the invariant allows it, and return whether it was added."""
        if not self._can_add(nodes):
            return False
        column = len(self.columns)
        self.columns.append(nodes)
        for place, node in enumerate(nodes):
            self.home[node] = (place, column)
        for place, node in enumerate(nodes):
            for slot, (producer, number) in enumerate(self.index.producers[node]):
                if producer != OUTSIDE and producer not in self.home:
                    self._wanted.setdefault((place, producer), []).append((column, slot, number))
        self._forwards.append(column)
        self._backwards.append(column)
        return True

    def _can_add(self, nodes: list[int]) -> bool:
        looks, taken, home = self.index.looks, self.taken, self.home
        look = looks[nodes[0]] if nodes[0] != OUTSIDE else -1
        for node in nodes:
            if node == OUTSIDE or node in home or taken[node] or looks[node] != look:
                return False
        if len(set(nodes)) != len(nodes):
            return False
        edges = self._edges(0, nodes[0])
        return all(self._edges(place, node) == edges for place, node in enumerate(nodes))

    def _edges(self, place: int, node: int) -> tuple[list[tuple[int, int, int]], list[_Edge]]:
        """The edges between a node and the columns of its place: to its operands, and to its users."""
        operands = []
        for slot, (producer, number) in enumerate(self.index.producers[node]):
            home = self.home.get(producer)
            if home is not None and home[0] == place:
                operands.append((home[1], slot, number))
        return operands, self._wanted.get((place, node), [])


def grow(index: BlockIndex, taken: Sequence[int], seeds: Sequence[int]) -> Growth:
    """Returns the largest equal regions that contain one seed each and no taken nodes."""
    growth = Growth(index, taken, len(seeds))
    growth.run(seeds)
    return growth
