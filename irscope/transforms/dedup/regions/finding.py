"""Finds the repeated regions of a graph: hashes neighbourhoods, grows regions from the most promising, and proves them.

1. *Seeds.* `seed_classes` returns classes of nodes with equal neighbourhoods. Twelve layers lead to many classes of twelve; so the
   sizes of classes are ranked by trial: a region is grown from a few of a size's seeds (adjacent places, so that they bound each
   other), and its saving over all seeds is estimated.
2. *Growth.* From the best size on, regions are grown from each class of that size whose seeds are still free (`growth`), and cut
   until they are convex (`convexity`).
3. *Proof.* Each place is matched with the first one payload by payload (`matching`), and must allow the order of the first.
4. Of regions that wait for each other, those that save least are given up.

A grown region is maximal: no edge leads from it to nodes that are free and the same in all places. Choosing the best of several
overlapping sets of regions is a problem of grammar compression (NP-hard); this is greedy by nodes saved.

*Cost.* Colours, trials (`_SIZES` sizes, `_TRIALS` classes, `_PLACES` places each) and growth visit each edge a constant number of
times; a class that is grown and refused was small. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope.ir import CONTROL_FLOW, Graph
from irscope.transforms.dedup.regions.block_index import BlockIndex
from irscope.transforms.dedup.regions.convexity import convex_columns, keeps_order, waiting_regions
from irscope.transforms.dedup.regions.growth import grow
from irscope.transforms.dedup.regions.matching import same_region
from irscope.transforms.dedup.regions.neighbourhoods import seed_classes
from irscope.transforms.dedup.regions.repeat import Repeat

__all__ = ["find_regions"]

_SIZES: Final = 24
_TRIALS: Final = 3
_PLACES: Final = 12


def find_regions(graph: Graph, *, min_nodes: int = 3) -> tuple[Repeat, ...]:
    """Returns the regions of at least `min_nodes` nodes that occur at least twice, by the nodes saved by writing them once.

    Searches the top block and the bodies of ifs and loops; near-linear in the nodes.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4), %a : Float(4), %b : Float(4)):
    ...   %p : Float(4) = aten::mul(%x, %a)
    ...   %q : Float(4) = aten::tanh(%p)
    ...   %r : Float(4) = aten::relu(%q)
    ...   %s : Float(4) = aten::mul(%r, %b)
    ...   %t : Float(4) = aten::tanh(%s)
    ...   %u : Float(4) = aten::relu(%t)
    ...   return (%u)''')
    >>> [repeat] = find_regions(g)
    >>> repeat, [hole.values for hole in repeat.holes]
    (<Repeat: 3 nodes ×2>, [('%x', '%r'), ('%a', '%b')])
    """
    found: list[Repeat] = []
    for block in graph.blocks():
        owner = graph.owner.get(block)
        if (owner is None or owner.op in CONTROL_FLOW) and len(block.nodes) >= 2 * min_nodes:
            found += _Search(BlockIndex(graph, block), min_nodes).run()
    return tuple(sorted(found, key=lambda repeat: -repeat.nodes_saved))


class _Search:
    """The search in one block."""

    def __init__(self, index: BlockIndex, min_nodes: int) -> None:
        self._index = index
        self._least = min_nodes
        self._taken = bytearray(len(index.nodes))
        self._found: list[list[list[int]]] = []
        """The regions found, each as its places."""

    def run(self) -> list[Repeat]:
        by_size: dict[int, list[list[int]]] = {}
        weight: dict[int, int] = {}
        for classes in seed_classes(self._index):
            here: dict[int, int] = {}
            for places in classes:
                by_size.setdefault(len(places), []).append(places)
                here[len(places)] = here.get(len(places), 0) + len(places) - 1
            for size, count in here.items():
                weight[size] = max(weight.get(size, 0), count)
        promising = sorted(weight, key=lambda size: (-weight[size], size))
        ranked = sorted(promising[:_SIZES], key=lambda size: -self._promise(size, by_size[size]))
        for size in [*ranked, *promising[_SIZES:]]:
            for places in by_size[size]:
                self._take(places)
        self._untangle()
        return [self._repeat(region) for region in self._found]

    def _promise(self, size: int, classes: Sequence[Sequence[int]]) -> int:
        """The estimated saving of the classes of a size, by a trial with a few places of a few of them."""
        best = 0
        for chosen in {0, len(classes) // 2, len(classes) - 1} if len(classes) > _TRIALS else range(len(classes)):
            columns = len(grow(self._index, self._taken, _sample(classes[chosen])).columns)
            best = max(best, (size - 1) * columns - size)
        return best

    def _take(self, seeds: Sequence[int]) -> None:
        """Grow a region from the seeds that are still free, and keep it if it saves nodes."""
        free = [node for node in seeds if not self._taken[node]]
        if len(free) < 2:
            return
        columns = grow(self._index, self._taken, free).columns
        if len(columns) < self._least:
            return
        columns = convex_columns(self._index, columns)
        if len(columns) < self._least:
            return
        columns.sort(key=lambda column: column[0])
        leader, *others = [list(place) for place in zip(*columns, strict=True)]
        places = [leader, *(place for place in others if self._is_same(leader, place))]
        if (len(places) - 1) * len(columns) <= len(places):
            return
        self._found.append(places)
        for place in places:
            for node in place:
                self._taken[node] = 1

    def _is_same(self, leader: Sequence[int], place: Sequence[int]) -> bool:
        return same_region(self._index, leader, place) and keeps_order(self._index, leader, place)

    def _untangle(self) -> None:
        """Give up regions that wait for each other, the poorer half at a time, which keeps the rounds few."""
        while self._found:
            every = [(number, place) for number, region in enumerate(self._found) for place in region]
            waiting = {every[one][0] for one in waiting_regions(self._index, [place for _, place in every])}
            if not waiting:
                return
            poorest = sorted(waiting, key=lambda number: (len(self._found[number]) - 1) * len(self._found[number][0]))
            dropped = set(poorest[: (len(poorest) + 1) // 2])
            self._found = [region for number, region in enumerate(self._found) if number not in dropped]

    def _repeat(self, region: Sequence[Sequence[int]]) -> Repeat:
        index = self._index
        nodes = tuple([tuple([index.nodes[node] for node in place]) for place in region])
        operands = tuple([tuple([index.operands[node] for node in place]) for place in region])
        return Repeat(index.graph, index.block, nodes, operands)


def _sample(places: Sequence[int]) -> list[int]:
    """Runs of adjacent places: at the beginning, in the middle and at the end."""
    if len(places) <= _PLACES:
        return list(places)
    run = _PLACES // 3
    middle = len(places) // 2
    return [*places[:run], *places[middle : middle + run], *places[-run:]]
