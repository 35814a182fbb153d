"""The dependences between the nodes of one block: through data, memory, effects on the world, and draws of random numbers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from irscope._base.results import Verdict, no, yes
from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to import EVERYTHING, WAITS, Access, Kind, ModRef, OrderConflict
from irscope.analysis.effects import changes_random_state
from irscope.analysis.per_graph import alias_db_of, once
from irscope.ir import GENERATOR, Block, Graph, Node, TensorType, Value
from irscope.ops.op import draws_random_numbers, has_side_effects
from irscope.ops.traits import STOPS

# A node here means the node and everything in its blocks. A node *directly depends* on an earlier one if it uses a result of
# that one, or if both access one memory and one of them writes it, or if both have effects on the world (print,
# raise, calls), or both draw random numbers. Any order of the nodes that keeps all direct dependences is the
# same program.
#
# Listing every pair would be quadratic, so dependences that follow from others are left out. In memory, a read is tied
# to the last write before it, and a write to the last write and the reads since. Effects and random draws form chains. "One
# memory" is a location of the points-to graph if each access has few locations, and a whole region if some access
# has many (which may add unneeded order, and never omits any). Reads of a shape are tied only to writes that change
# shapes.
#
# A location that is accessed through several tensors is several memories, its *parts*: up to a few written tensors of which no two
# have a byte in common (`AliasDb.may_overlap`), and the rest. An access through one of these tensors is to that part alone. Any other
# access is to the rest and to the parts with which it may share a byte. So two accesses that may share a byte have a part in common.
#
# Most nodes are *reorderable* and tied by data alone, which is read off their operands; the records
# that explain these dependences are created on demand.

_FEW: Final = 16
"""An access with more locations than this makes its whole region one memory."""
_MOST_PARTS: Final = 16
"""The most parts of one location, which bounds the overlap queries of an access."""
_REST: Final = -1
_Key = tuple[str, int] | tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Dependence:
    """One reason why a node must stay after an earlier one."""

    node: Node
    """The earlier node."""
    kind: Kind
    """data, memory, effect or random."""
    obstacle: OrderConflict
    _db: AliasDb = field(repr=False)

    @property
    def because(self) -> str:
        """The reason in words, computed on demand."""
        return self._db.obstacle_words(self.obstacle)


@dataclass(frozen=True, eq=False)
class Dependences:
    """The direct dependences of one block that do not follow from others."""

    graph: Graph
    block: Block
    db: AliasDb
    predecessors: Mapping[Node, tuple[Dependence, ...]]
    """Each node's dependences, one for each earlier node that it is tied to; empty for a node tied to none."""
    before: Sequence[Sequence[int]]
    """The same as positions in the block: for each node, those of the earlier nodes that it is tied to."""
    by_data_alone: bool
    """Whether all nodes are reorderable, so that only data ties any two of them."""

    def reason(self, a: Node | str, b: Node | str) -> Verdict:
        """Whether `b`, the later one, must stay after `a`, and by which chain of dependences."""
        first, last = self.graph.node(a), self.graph.node(b)
        came_from: dict[Node, Dependence] = {}
        earliest = self.db.index_of(first)
        todo = [last]
        for here in todo:
            for tie in self.predecessors.get(here, ()):
                if tie.node not in came_from and self.db.index_of(tie.node) >= earliest:
                    came_from[tie.node] = tie
                    todo.append(tie.node)
            if first in came_from:
                break
        else:
            why = f"no dependence joins {self.db.node_words(last)} to {self.db.node_words(first)}"
            return no(why, first, last).in_words("depends", "independent")
        chain, here = list[Dependence](), first
        while here is not last:
            chain.append(came_from[here])
            here = chain[-1].obstacle.later
        words = [tie.because for tie in chain]
        if len(words) > 3:
            words = [words[0], f"after {len(words) - 2} more dependences", words[-1]]
        found = yes(", and ".join(words), first, *(tie.obstacle.later for tie in chain))
        return found.in_words("depends", "independent")

    def chain_through(self, first: Node, last: Node, wanted: Callable[[Node], bool]) -> list[Node]:
        """A chain of nodes from one to a later one, each tied to the one before, that has one of the wanted; empty if there is none."""
        x, y, nodes = self.db.index_of(first), self.db.index_of(last), self.block.nodes
        came, leads, todo = dict[int, int](), dict[int, int](), [y]
        for here in range(x + 1, y + 1):
            tied = next((earlier for earlier in self.before[here] if earlier == x or earlier in came), None)
            if tied is not None:
                came[here] = tied
        for here in todo:
            new = [earlier for earlier in self.before[here] if earlier in came and earlier not in leads]
            leads.update(dict.fromkeys(new, here))
            todo += new
        path = [here for here in sorted(leads) if wanted(nodes[here])][:1]
        while path and path[0] != x:
            path.insert(0, came[path[0]])
        while path and path[-1] != y:
            path.append(leads[path[-1]])
        return [nodes[here] for here in path]


def dependences(graph: Graph, block: Block | None = None) -> Dependences:
    """The dependences of a block of a graph, by default its top block; computed once, in near-linear time in the nodes."""
    here = block or graph.body
    return once(graph, (Dependences, here), lambda: dependences_by(alias_db_of(graph), here))


def dependences_by(db: AliasDb, block: Block) -> Dependences:
    """The dependences of a block, computed with an alias db of its graph."""
    visit = _Visit(block, db)
    before = visit.run()
    ties = _Predecessors(block, db, visit.index, visit.found)
    return Dependences(db.graph, block, db, ties, before, not visit.found)


def _are_reorderable(db: AliasDb, nodes: Iterable[Node]) -> list[bool]:
    """For each node, whether it is reorderable: no effect, no write, no random draw, and no read of memory that is written.

    Only data ties such a node to others, so most of a program needs no further analysis. The check is cheap and conservative: if
    it does not establish this at once, the answer is no.
    """
    sealed, holds, known = db.sealed, db.reach.inside, dict[str, bool]()
    element_of, class_of, is_written, calls = sealed.element_of, sealed.class_of, sealed.is_written, sealed.calls
    active = {write.node for write in sealed.writes}

    def is_reorderable(node: Node) -> bool:
        op = node.op
        if op not in known:
            restless = has_side_effects(op) or op in STOPS or draws_random_numbers(op) or changes_random_state(op)
            known[op] = not restless and op not in WAITS and op != "prim::GetAttr"
        if not known[op] or node.blocks or node in active or node.id in calls:
            return False
        for value in node.inputs:
            element = element_of.get(value)
            if element is not None and (is_written[class_of[element]] or class_of[element] in holds):
                return False
            if value.type.__class__ is not TensorType and value.type == GENERATOR:
                return False
        return True

    return [is_reorderable(node) for node in nodes]


class _Predecessors(Mapping[Node, tuple[Dependence, ...]]):
    """The dependences of each node; those of reorderable nodes are created on demand."""

    def __init__(self, block: Block, db: AliasDb, index: Mapping[Node, int], found: dict[Node, tuple[Dependence, ...]]) -> None:
        self._block, self._db, self._index, self._found = block, db, index, found

    def __getitem__(self, node: Node) -> tuple[Dependence, ...]:
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = self._by_data(node)
        return found

    def _by_data(self, node: Node) -> tuple[Dependence, ...]:
        here = self._index[node]
        makers: dict[Node, Value] = {}
        for value in node.inputs:
            maker = self._db.graph.producer.get(value)
            if maker is not None and self._index.get(maker, here) < here:
                makers.setdefault(maker, value)
        return tuple(Dependence(maker, "data", OrderConflict("data", maker, node, value), self._db) for maker, value in makers.items())

    def __iter__(self) -> Iterator[Node]:
        return iter(self._block.nodes)

    def __len__(self) -> int:
        return len(self._block.nodes)


@dataclass(slots=True)
class _Memory:
    """The accesses to one memory so far."""

    write: tuple[Node, Access] | None = None
    """The last write."""
    shape_write: tuple[Node, Access] | None = None
    """The last write that may change shapes."""
    reads: list[tuple[Node, Access]] = field(default_factory=list)
    """Reads since the last write."""
    shape_reads: list[tuple[Node, Access]] = field(default_factory=list)
    """Reads of shapes alone since the last write to a shape."""


class _Visit:
    """Visits the nodes of a block in order, and ties each to the earlier ones it depends on."""

    def __init__(self, block: Block, db: AliasDb) -> None:
        self._db = db
        self._block = block
        self.index: dict[Node, int] = {}
        """The positions of the nodes."""
        self.found: dict[Node, tuple[Dependence, ...]] = {}
        """The dependences of the nodes that are not reorderable."""
        self._maker: dict[Value, Node] = {}
        self._memory: dict[_Key, _Memory] = {}
        self._parts: dict[int, list[Value]] = {}
        """The values that are parts of each location that has some."""
        self._part_keys: dict[tuple[int, Value | None], list[_Key]] = {}
        self._effect: Node | None = None
        self._random: Node | None = None
        self._barrier: tuple[Node, Access] | None = None
        self._since_barrier: list[tuple[Node, Access]] = []

    def run(self) -> list[list[int]]:
        """For each node, the positions of the earlier ones that it is tied to."""
        free = _are_reorderable(self._db, self._block.nodes)
        tied = [node for node, is_free in zip(self._block.nodes, free, strict=True) if not is_free]
        self._keys = self._memories_of(tied)
        self._find_parts(tied)
        place: dict[Value, int] = {}
        rows: list[list[int]] = []
        index, maker = self.index, self._maker
        for here, node in enumerate(self._block.nodes):
            if free[here]:
                row = [place[value] for value in node.inputs if value in place]
                rows.append(row if len(row) < 2 else list(dict.fromkeys(row)))
            else:
                ties = self.found[node] = self._visit(node)
                rows.append([index[tie.node] for tie in ties])
            index[node] = here
            for value in node.outputs:
                place[value] = here
                maker[value] = node
        return rows

    def _visit(self, node: Node) -> tuple[Dependence, ...]:
        """The node's dependences, the first found reason for each earlier node."""
        accesses = self._db.accesses(node)
        found: dict[Node, OrderConflict] = {}
        for value in accesses.uses:
            maker = self._maker.get(value)
            if maker is not None and maker not in found:
                found[maker] = OrderConflict("data", maker, node, value)
        if accesses.reads or accesses.writes:
            for (other, theirs), mine in self._collisions(node, accesses):
                if other is not node and other not in found:
                    found[other] = OrderConflict("memory", other, node, accesses=(theirs, mine))
        if accesses.side_effect is not None:
            if self._effect is not None and self._effect not in found:
                found[self._effect] = OrderConflict("effect", self._effect, node)
            self._effect = node
        if accesses.random is not None:
            if self._random is not None and self._random not in found:
                found[self._random] = OrderConflict("random", self._random, node)
            self._random = node
        return tuple(Dependence(other, obstacle.kind, obstacle, self._db) for other, obstacle in found.items())

    def _collisions(self, node: Node, accesses: ModRef) -> list[tuple[tuple[Node, Access], Access]]:
        """The earlier accesses that this node's accesses must come after; records its own for later nodes."""
        found: list[tuple[tuple[Node, Access], Access]] = []
        first = (accesses.writes or accesses.reads)[0]
        if self._barrier is not None:
            found.append((self._barrier, first))
        waiting = next((access for access in accesses.writes if access.place == EVERYTHING), None)
        if waiting is not None:
            found.extend((earlier, waiting) for earlier in self._since_barrier)
            self._barrier, self._since_barrier = (node, waiting), []
            return found
        self._since_barrier.append((node, first))
        for read in accesses.reads:
            for memory in self._memories(read):
                last = memory.shape_write if read.shape else memory.write
                if last is not None:
                    found.append((last, read))
        for write in accesses.writes:
            for memory in self._memories(write):
                found.extend((earlier, write) for earlier in memory.reads)
                found.extend((earlier, write) for earlier in (memory.shape_reads if write.shape else ()))
                if memory.write is not None:
                    found.append((memory.write, write))
        self._note(node, accesses)
        return found

    def _note(self, node: Node, accesses: ModRef) -> None:
        for read in accesses.reads:
            for memory in self._memories(read):
                (memory.shape_reads if read.shape else memory.reads).append((node, read))
        for write in accesses.writes:
            for memory in self._memories(write):
                memory.write, memory.reads = (node, write), []
                if write.shape:
                    memory.shape_write, memory.shape_reads = (node, write), []

    def _memories(self, access: Access) -> Iterable[_Memory]:
        found: list[_Memory] = []
        for key in self._keys[access.place]:
            if key[1] in self._parts and key[0] == "location":
                found += [self._memory.setdefault(part, _Memory()) for part in self._parts_of(key[1], access.value)]
            else:
                found.append(self._memory.setdefault(key, _Memory()))
        return found

    def _parts_of(self, location: int, value: Value | None) -> list[_Key]:
        """The parts of a location that an access through a value may be to."""
        known = self._part_keys.get((location, value))
        if known is None:
            parts = self._parts[location]
            if value in parts:
                known = [("part", location, parts.index(value))]
            else:
                meeting = [place for place, part in enumerate(parts) if value is None or not self._db.lie_apart(part, value)]
                known = [("part", location, _REST), *(("part", location, place) for place in meeting)]
            self._part_keys[location, value] = known
        return known

    def _find_parts(self, nodes: Sequence[Node]) -> None:
        """Choose the parts of the locations that are written through several tensors."""
        written: dict[int, dict[Value, None]] = {}
        for place, value in [(w.place, w.value) for node in nodes for w in self._db.accesses(node).writes if w.value is not None]:
            for kind, location, *_ in self._keys.get(place, ()):
                if kind == "location":
                    written.setdefault(location, {})[value] = None
        for location, values in written.items():
            chosen: list[Value] = []
            for value in values:
                if len(chosen) < _MOST_PARTS and all(self._db.lie_apart(value, part) for part in chosen):
                    chosen.append(value)
            if len(chosen) > 1:
                self._parts[location] = chosen

    def _memories_of(self, nodes: Iterable[Node]) -> dict[int, tuple[_Key, ...]]:
        """For each class that the nodes access, its locations, or its region if some class of the region has too many."""
        db = self._db
        places = {a.place for node in nodes for acc in (db.accesses(node),) for a in (*acc.reads, *acc.writes)}
        places.discard(EVERYTHING)
        locations = {place: db.reach.few_leaves(place, _FEW) for place in places}
        coarse = {db.region(place) for place, found in locations.items() if found is None}
        return {
            place: tuple(("location", leaf) for leaf in found)
            if found is not None and db.region(place) not in coarse
            else (("region", db.region(place)),)
            for place, found in locations.items()
        }
