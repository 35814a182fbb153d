"""Checks whether a node can move next to another one without an observable difference, and which nodes must move along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from irscope._base.results import Verdict, no, yes
from irscope.analysis.alias.build import EVERYTHING, Access, Kind, ModRef, OrderConflict
from irscope.analysis.alias.points_to import Label, PointsTo, Reachability
from irscope.ir import Graph, Node, Value

# The interface of an alias db that code motion and tables use.


class Answers(Protocol):
    """The part of `AliasDb` that its own package uses. Places are classes of elements, as `Reachability` numbers them."""

    graph: Graph

    @property
    def sealed(self) -> PointsTo:
        """The points-to graph."""

    @property
    def reach(self) -> Reachability:
        """The reachability between places."""

    def accesses(self, node: Node | str) -> ModRef:
        """The accesses of a node: its reads and writes."""

    def region(self, place: int) -> int:
        """The region of a place: places of different regions never meet."""

    def index_of(self, node: Node) -> int:
        """The position of a node in its block."""

    def is_memory(self, value: Value) -> bool:
        """Whether a value is, or may hold, mutable memory."""

    def lie_apart(self, a: Value, b: Value) -> bool:
        """Whether two tensors that may be one memory have no byte in common."""

    def label_of(self, place: int) -> Label:
        """The value or place that names a class."""

    def node_words(self, node: Node) -> str:
        """A node in a sentence."""

    def place_words(self, label: Label) -> str:
        """A place in a sentence."""

    def obstacle_words(self, obstacle: OrderConflict) -> str:
        """Why two nodes must keep their order, as a sentence."""


# A growing set of nodes that checks whether the next node can cross it.
#
# Two accesses to one memory through tensors that have no byte in common do not conflict. So for each place the set records the
# values through which it was accessed, up to a few; beyond that, an access to the place may have been to any of its bytes.


_FEW: Final = 8
"""The number of values distinguished for each place."""
_Table = dict[int, dict[tuple[int, bool], dict[Value | None, tuple[Node, Access]]]]
"""Accesses by region, by place and whether only the shape is accessed, and by value; None means any bytes of the place."""


def _collide(reach: Reachability, read: Access, write: Access) -> bool:
    """Whether a write may change what a read observes. Few writes change shapes."""
    if read.shape and not write.shape:
        return False
    return EVERYTHING in (read.place, write.place) or reach.meet(read.place, write.place)


class WorkingSet:
    """A set of nodes that move together towards one end of their block."""

    def __init__(self, db: Answers, *, towards_end: bool) -> None:
        self._db = db
        self._towards_end = towards_end
        self.members: list[Node] = []
        self._values: dict[Value, Node] = {}
        """Moving to the end: the members' results. Moving to the start: the values that members use."""
        self._reads: _Table = {}
        self._writes: _Table = {}
        self._effect: Node | None = None
        self._random: Node | None = None

    def add(self, node: Node) -> None:
        """Add a node to the set."""
        accesses = self._db.accesses(node)
        self.members.append(node)
        for value in node.outputs if self._towards_end else accesses.uses:
            self._values.setdefault(value, node)
        for table, found in ((self._reads, accesses.reads), (self._writes, accesses.writes)):
            for access in found:
                kept = table.setdefault(self._db.region(access.place), {})
                parts = kept.setdefault((access.place, access.shape), {})
                parts.setdefault(access.value if len(parts) < _FEW else None, (node, access))
        self._effect = self._effect or (node if accesses.side_effect else None)
        self._random = self._random or (node if accesses.random else None)

    def obstacle(self, node: Node) -> OrderConflict | None:
        """The reason why the members cannot cross a node, or None."""
        accesses = self._db.accesses(node)
        for value in accesses.uses if self._towards_end else node.outputs:
            member = self._values.get(value)
            if member is not None:
                return self._between("data", member, node, value)
        found = self._memory(node, accesses)
        if found is not None:
            return found
        if self._effect is not None and accesses.side_effect is not None:
            return self._between("effect", self._effect, node)
        if self._random is not None and accesses.random is not None:
            return self._between("random", self._random, node)
        return None

    def _memory(self, node: Node, accesses: ModRef) -> OrderConflict | None:
        for table, found in ((self._reads, accesses.writes), (self._writes, accesses.reads)):
            for access in found:
                for region in (
                    (self._db.region(access.place), EVERYTHING) if access.place != EVERYTHING else tuple(table)
                ):
                    for parts in table.get(region, {}).values():
                        for part, (member, other) in parts.items():
                            read, write = (other, access) if table is self._reads else (access, other)
                            if _collide(self._db.reach, read, write) and not self._is_apart(part, access):
                                return self._between("memory", member, node, accesses=(other, access))
        return None

    def _is_apart(self, part: Value | None, access: Access) -> bool:
        """Whether an access and a value share no byte of a memory."""
        if part is None or access.value is None or access.place == EVERYTHING:
            return False
        return self._db.lie_apart(part, access.value)

    def _between(
        self,
        kind: Kind,
        member: Node,
        node: Node,
        value: Value | None = None,
        accesses: tuple[Access, Access] | None = None,
    ) -> OrderConflict:
        if self._towards_end:
            return OrderConflict(kind, member, node, value, accesses)
        return OrderConflict(kind, node, member, value, accesses and (accesses[1], accesses[0]))


# Checks whether a node can move next to another one without an observable difference, and which nodes must move along.
#
# As in TorchScript, only nodes between the two move, and they keep their order. On the walk from the node towards the
# point, every node that depends on a moving node, and so cannot be left behind, joins a working set. In
# the end the set has to cross the point. If the node is on the wanted side already, it stays, and only its followers
# have to cross.


def can_move(db: Answers, node: Node, point: Node, *, before: bool) -> Verdict:
    """Whether `node` can move directly before (or after) `point`."""
    block = db.graph.block_of[node]
    if block is not db.graph.block_of[point]:
        return no(f"{db.node_words(node)} and {db.node_words(point)} are in different blocks", node, point)
    if node is point:
        return yes("it is the same node", node)
    start, end = db.index_of(node), db.index_of(point)
    already = start < end if before else start > end
    step = 1 if start < end else -1
    if already and abs(start - end) == 1:
        return yes("it is already there", node)
    if db.accesses(node).side_effect is not None:
        return no(f"{db.node_words(node)} has a side effect and cannot move", node)
    company = WorkingSet(db, towards_end=step > 0)
    company.add(node)
    for index in range(start + step, end, step):
        if company.obstacle(block.nodes[index]) is not None:
            company.add(block.nodes[index])
    followers = company.members[1:]
    crossing = company
    if already:
        crossing = WorkingSet(db, towards_end=step > 0)
        for follower in followers:
            crossing.add(follower)
    obstacle = crossing.obstacle(point)
    if obstacle is not None:
        blocked = obstacle.later if obstacle.earlier is point else obstacle.earlier
        return no(
            f"{db.obstacle_words(obstacle)}{_dragged(db, node, blocked)}", point, blocked, *(obstacle.accesses or ())
        )
    return yes(_granted(db, node, followers, already), node, *followers)


def _dragged(db: Answers, node: Node, blocked: Node) -> str:
    """Words that link the node asked about to the blocked node, if they differ."""
    return "" if node is blocked else f", and {db.node_words(blocked)} cannot be separated from {db.node_words(node)}"


def _granted(db: Answers, node: Node, followers: Sequence[Node], already: bool) -> str:
    if not followers:
        return "no node in between depends on it, nor it on them"
    words = ", ".join(map(db.node_words, followers[:3])) + (
        f" and {len(followers) - 3} more" if len(followers) > 3 else ""
    )
    verb = "move out of the way" if already else "move along"
    return f"{words} {verb}" if len(followers) > 1 else f"{words} {verb.replace('move', 'moves', 1)}"
