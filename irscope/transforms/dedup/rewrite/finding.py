"""Finds the repeated regions of a graph: hashes neighbourhoods, grows regions from the most promising, and proves them.

1. *Seeds.* `seed_classes` returns classes of nodes with equal neighbourhoods. Twelve layers lead to many classes of twelve; so the
   sizes of classes are ranked by trial: a region is grown from a few of a size's seeds (adjacent places, so that they bound each
   other), and its saving over all seeds is estimated.
2. *Growth.* From the best size on, regions are grown from each class of that size whose seeds are still free (`grow`), and cut
   until they are convex (`convex_columns`).
3. *Proof.* Each place is matched with the first one payload by payload (`same_region`), and must allow the order of the first.
4. Of regions that wait for each other, those that save least are given up.

A grown region is maximal: no edge leads from it to nodes that are free and the same in all places. Choosing the best of several
overlapping sets of regions is a problem of grammar compression (NP-hard); this is greedy by nodes saved.

*Cost.* Colours, trials (`_SIZES` sizes, `_TRIALS` classes, `_PLACES` places each) and growth visit each edge a constant number of
times; a class that is grown and refused was small. Nothing recurses.

*Colours* of seeds are iterated along the data flow. A colour of radius r encodes the look of a node, and r steps backwards its
producers, or r steps forwards its users. Each round, linear in the edges, renumbers the pairs of a node's colour and its neighbours'
colours; equal numbers mean equal neighbourhoods, as the pairs themselves are compared and not their hashes. Short radii suffice, since
growth decides in the end; long ones would distinguish the first and last layers, whose surroundings differ.

*Columns.* Regions grow side by side, from one node in each. A region is a list of columns; a column has one node in each place, and
the nodes of a column look the same. A new column consists of the nodes that the same edge from one column leads to in all places: the
producer of an operand, or the n-th user of a result that has a given look and reads it as a given operand.

*Invariant.* No node is in two columns or places. Between any two columns there are the same edges in every place: a column is
refused if one of its operands comes from a column in one place, and not from that column in another, or if the users of its
results in the columns differ. So the map from the nodes of one place to those of another, column by column, is an isomorphism of
the induced graphs, and only the paired nodes themselves remain to be proved equal, payload by payload.

*Termination.* An edge that leads to different looks, to one node twice, or to a node of another place, is the border: its value
becomes a parameter or a result. Refusals are final, as columns only grow: each edge is tried once. Users are tried before producers,
so that layers end where the next one begins.

*Convex.* A region can be one step of the program if no path of dependences (data, memory, effects, random numbers) leads out of it
and back in. One walk from its first node to its last finds the nodes outside that depend on it, and the nodes inside that depend on
these: either they are cut off, or all nodes where such paths begin, whichever are fewer. A column cut in one place is cut in all. The
remaining nodes depend on no node that was cut (or no node that was cut depends on them), so a cut makes the place convex for good, but
may break another; the walk is repeated until all places pass, at most `_ROUNDS` times.

*All regions together.* Convex regions may still wait for each other (A's second half for B's first, B's second for A's first). The
dependences with each region contracted to a point have an order exactly when there is no cycle, as for fusion groups
(`irscope.transforms.grouping`). One topological sort finds the regions on cycles.

*Order inside.* Places have the same data edges, but a place may have more memory edges. Nodes are listed in the order of the
first place, so each place must allow that order (`is_place`).

A walk costs the span of a place. Interleaved places (attention heads written side by side) are walked over once each; where the
spans add up to more than `_SPANS` times the program, the region is given up.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from operator import lt
from typing import Final

from irscope._base.nested import grouped
from irscope.ir import CONTROL_FLOW, Graph
from irscope.transforms.dedup.rewrite.block_index import OUTSIDE, BlockIndex, same_region
from irscope.transforms.dedup.rewrite.repeat import Repeat

# --- seeds ------------------------------------------------------------------------------------------------------------

_BACKWARDS: Final = 3
_FORWARDS: Final = 2
"""The radii; three backwards is what it takes to distinguish the steps of an LSTM whose gates are all written alike."""


def seed_classes(index: BlockIndex) -> Iterator[list[list[int]]]:
    """Yields, for each colouring, from the coarsest on, its classes of two nodes or more, each in textual order."""
    backwards = list(index.looks)
    yield _classes(backwards)
    for _ in range(_BACKWARDS):
        backwards = _backwards(index, backwards)
        yield _classes(backwards)
    forwards = list(index.looks)
    for _ in range(_FORWARDS):
        forwards = _forwards(index, forwards)
        yield _classes(forwards)
    yield _classes(_number(list(zip(backwards, forwards, strict=True))))


def _classes(colours: Sequence[int]) -> list[list[int]]:
    found = grouped((colour, place) for place, colour in enumerate(colours))
    return [places for places in found.values() if len(places) > 1]


def _backwards(index: BlockIndex, colours: list[int]) -> list[int]:
    return _number([
        (colours[place], tuple([(colours[producer], number) if producer != OUTSIDE else OUTSIDE for producer, number in row]))
        for place, row in enumerate(index.producers)
    ])  # fmt: skip


def _forwards(index: BlockIndex, colours: list[int]) -> list[int]:
    return _number([
        (colours[place], tuple(sorted([(number, slot, colours[reader]) for number, slot, reader in row])))
        for place, row in enumerate(index.users)
    ])  # fmt: skip


def _number(keys: Sequence[tuple[object, ...]]) -> list[int]:
    known: dict[tuple[object, ...], int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


# --- growth -----------------------------------------------------------------------------------------------------------

_Edge = tuple[int, int, int]
"""The user's column, the place among its operands, and the number of the producer's result."""


@dataclass(eq=False)
class Growth:
    """The state of growing regions."""

    index: BlockIndex
    taken: Sequence[int]
    """Nonzero for the nodes that belong to regions found before."""
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
                continue
            rows = [self.index.producers[node] for node in self.columns[self._backwards.popleft()]]
            for made in zip(*rows, strict=True):
                if made[0][0] != OUTSIDE:
                    self._add([producer for producer, _ in made])

    def _try_readers(self, column: int) -> None:
        """Try columns of the nodes that read the results of a column in the same way in all places."""
        looks = self.index.looks
        rows: list[dict[tuple[int, int, int], list[int]]] = [{} for _ in self.columns[column]]
        for row, node in zip(rows, self.columns[column], strict=True):
            for number, slot, reader in self.index.users[node]:
                row.setdefault((number, slot, looks[reader]), []).append(reader)
        for key, readers in rows[0].items():
            others = [row.get(key, ()) for row in rows]
            if all(len(other) == len(readers) for other in others):
                for nodes in zip(*others, strict=True):
                    self._add(list(nodes))

    def _add(self, nodes: list[int]) -> None:
        """Add a column if the invariant allows it."""
        if not self._can_add(nodes):
            return
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


def grow(index: BlockIndex, taken: Sequence[int], seeds: Sequence[int]) -> list[list[int]]:
    """Returns the columns of the largest equal regions that contain one seed each and no taken nodes."""
    growth = Growth(index, taken)
    growth.run(seeds)
    return growth.columns


# --- convexity and order ----------------------------------------------------------------------------------------------

_ROUNDS: Final = 6
_SPANS: Final = 32

Columns = list[list[int]]


def convex_columns(index: BlockIndex, columns: Columns) -> Columns:
    """Returns as many of the columns as can be a region in every place; an empty list if none can."""
    for _ in range(_ROUNDS):
        whole = len(columns)
        places = list(zip(*columns, strict=True))
        if sum(max(place) - min(place) for place in places) > _SPANS * len(index.nodes):
            return []
        for place in range(len(places)):
            lost = _lost(index, [column[place] for column in columns])
            if lost:
                columns = [column for number, column in enumerate(columns) if number not in lost]
        if len(columns) == whole or not columns:
            return columns
    return []


def _lost(index: BlockIndex, nodes: Sequence[int]) -> set[int]:
    """The columns to cut off so that no path leaves the nodes and comes back."""
    inside = set(nodes)
    span = range(min(nodes), max(nodes) + 1)
    if len(span) == len(inside):
        return set()
    before = index.before
    follows: set[int] = set()
    late: set[int] = set()
    for node in span:
        row = before[node]
        if node in inside:
            if not follows.isdisjoint(row) or not late.isdisjoint(row):
                late.add(node)
        elif not inside.isdisjoint(row) or not follows.isdisjoint(row):
            follows.add(node)
    if not late:
        return set()
    early = _early(before, inside, span)
    cut = late if len(late) <= len(early) else early
    return {column for column, node in enumerate(nodes) if node in cut}


def _early(before: Sequence[Sequence[int]], inside: set[int], span: range) -> set[int]:
    """The nodes inside from which a path leaves and comes back."""
    leads: set[int] = set()
    returns: set[int] = set()
    for node in reversed(span):
        if node in inside or node in leads:
            for earlier in before[node]:
                if earlier < span.start:
                    continue
                if earlier not in inside:
                    leads.add(earlier)
                elif node in leads or node in returns:
                    returns.add(earlier)
    return returns


def is_place(index: BlockIndex, leader: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether nodes can be a place of a region: the same as those of the first place, and free to run in their order."""
    if not same_region(index, leader, nodes):
        return False
    if all(all(map(lt, each, each[1:])) for each in (leader, nodes)):
        return True  # both are in program order
    rank = {node: leader[column] for column, node in enumerate(nodes)}
    return all(rank[earlier] < rank[node] for node in nodes for earlier in index.before[node] if earlier in rank)


def waiting_regions(index: BlockIndex, regions: Sequence[Sequence[int]]) -> set[int]:
    """Returns the numbers of regions on cycles, through other regions or through nodes between."""
    if all(max(nodes) - min(nodes) < len(nodes) for nodes in regions):
        return set()  # without nodes in between, program order is also an order of the regions
    unit = list(range(len(index.nodes)))
    point_of: dict[int, int] = {}
    for number, nodes in enumerate(regions):
        for node in nodes:
            unit[node] = nodes[0]
        point_of[nodes[0]] = number
    order = TopologicalSorter[int]()
    for node, row in enumerate(index.before):
        order.add(unit[node], *(unit[earlier] for earlier in row if unit[earlier] != unit[node]))
    with suppress(CycleError):  # what is on no cycle is given even so
        order.prepare()
    while ready := order.get_ready():
        for one in ready:
            point_of.pop(one, None)
        order.done(*ready)
    return set(point_of.values())


_SIZES: Final = 24
_TRIALS: Final = 3
_PLACES: Final = 12


def find_regions(graph: Graph, *, min_nodes: int = 3) -> tuple[Repeat, ...]:
    """Returns the regions of at least `min_nodes` nodes that occur at least twice, by the nodes saved by writing them once.

    Searches the top block and the bodies of ifs and loops; near-linear in the nodes.
    """
    found: list[Repeat] = []
    for block in graph.blocks():
        owner = graph.owner.get(block)
        if (owner is None or owner.op in CONTROL_FLOW) and len(block.nodes) >= 2 * min_nodes:
            found += _Search(BlockIndex(graph, block), min_nodes).run()
    return tuple(sorted(found, key=lambda repeat: -repeat.nodes_saved))


class _Search:
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
        return [Repeat.of(self._index, region) for region in self._found]

    def _promise(self, size: int, classes: Sequence[Sequence[int]]) -> int:
        """The estimated saving of the classes of a size, by a trial with a few places of a few of them."""
        best = 0
        for chosen in {0, len(classes) // 2, len(classes) - 1} if len(classes) > _TRIALS else range(len(classes)):
            columns = len(grow(self._index, self._taken, _sample(classes[chosen])))
            best = max(best, (size - 1) * columns - size)
        return best

    def _take(self, seeds: Sequence[int]) -> None:
        """Grow a region from the seeds that are still free, and keep it if it saves nodes."""
        free = [node for node in seeds if not self._taken[node]]
        if len(free) < 2:
            return
        columns = grow(self._index, self._taken, free)
        if len(columns) >= self._least:
            columns = convex_columns(self._index, columns)
        if len(columns) < self._least:
            return
        columns.sort(key=lambda column: column[0])
        leader, *others = [list(place) for place in zip(*columns, strict=True)]
        places = [leader, *(place for place in others if is_place(self._index, leader, place))]
        if (len(places) - 1) * len(columns) <= len(places):
            return
        self._found.append(places)
        for place in places:
            for node in place:
                self._taken[node] = 1

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


def _sample(places: Sequence[int]) -> list[int]:
    """Runs of adjacent places: at the beginning, in the middle and at the end."""
    if len(places) <= _PLACES:
        return list(places)
    run = _PLACES // 3
    middle = len(places) // 2
    return [*places[:run], *places[middle : middle + run], *places[-run:]]
