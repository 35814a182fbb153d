"""The alias db of a program; every answer is a verdict with its reason and the path that proves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pandas as pd

from irscope._base.results import Drawn, Verdict, no, yes
from irscope._base.words import listed, plural
from irscope.analysis.alias.points_to import (
    EVERYTHING,
    Access,
    CannotFollow,
    Kind,
    Knowledge,
    Label,
    ModRef,
    OrderConflict,
    PointsTo,
    Reachability,
    Record,
    build,
    callees_of,
    follow,
    points_to_dot,
    summaries,
)
from irscope.analysis.alias.questions import Questions, Values
from irscope.errors import ArgumentError, new_table, public
from irscope.ir import Graph, Module, Node, Value, graph_of

# The rows of an alias db's table: each value that is memory, its alias set, its locations, and its writers.
#
# Values of one class have the same answers, which are computed once. Classes of one region may each meet nearly all others
# (an if that merges a running value, again and again), so that all answers together can be quadratic in the program.
# Rows are exact as long as the work is within a fixed multiple of the program; later rows describe the whole region:
# `up to 5000 values`.

_MOST: Final = 20
"""The number of items shown of a longer list, followed by the number of the rest."""
_WORK: Final = 50
"""How many classes are visited per value of the program, on average, before rows become coarse."""


_Row = tuple[str, str, str]
"""The alias set, the locations and the writers of all values of a class, in words."""


class _Table:
    def __init__(self, db: AliasDb) -> None:
        self._db = db
        self._known: dict[int, _Row] = {}
        self._order = {value: index for index, value in enumerate(db.graph.values())}
        self._work = 10_000 + _WORK * len(self._order)

    def of(self, value: Value) -> _Row:
        place = self._db._place(value)
        if place is None:  # it has no other name
            return self._db.place_words(value), self._db.place_words(value), ""
        if place not in self._known:
            self._known[place] = self._exact(place) if self._work > 0 else self._coarse(place)
        return self._known[place]

    def _exact(self, place: int) -> _Row:
        db = self._db
        meeting, leaves = db.reach.all_meeting(place), sorted(db.reach.leaves(place))
        values = [value for other in meeting for _, value in db._held_by.get(other, ())]
        writers = {node for other in meeting for _, node in db._written.get(other, ())}
        self._work -= len(meeting) + len(values)
        return (
            listed(sorted(values, key=self._order.__getitem__), db.place_words, _MOST),
            listed(leaves, lambda leaf: db.place_words(db._explainer.paths.label_of(leaf)), _MOST),
            listed(sorted(writers, key=db.graph.position.__getitem__), db.node_words, _MOST),
        )

    def _coarse(self, place: int) -> _Row:
        """A row computed from the region as a whole, without visiting its classes."""
        db, (values, writers) = self._db, self._regions[self._db.region(place)]
        leaves = db.reach.few_leaves(place, _MOST)
        return (
            f"up to {plural(values, 'value')}",
            listed(leaves, lambda leaf: db.place_words(db._explainer.paths.label_of(leaf)), _MOST) if leaves else f"more than {_MOST}",
            f"up to {plural(writers, 'node')}" if db.sealed.is_written[place] else "",
        )

    @cached_property
    def _regions(self) -> Mapping[int, tuple[int, int]]:
        """For each region, the number of its values and of the nodes that write in it."""
        found: dict[int, tuple[int, int]] = {}
        held, written = self._db._held_by, self._db._written
        for place in {*held, *written}:
            values, writers = found.get(region := self._db.region(place), (0, 0))
            found[region] = (values + len(held.get(place, ())), writers + len({node for _, node in written.get(place, ())}))
        return found


# A growing set of nodes that checks whether the next node can cross it.
#
# Two accesses to one memory through tensors that have no byte in common do not conflict. So for each place the set records the
# values through which it was accessed, up to a few; beyond that, an access to the place may have been to any of its bytes.

_FEW: Final = 8
"""The number of values distinguished for each place."""
_Accesses = dict[int, dict[tuple[int, bool], dict[Value | None, tuple[Node, Access]]]]
"""Accesses by region, by place and whether only the shape is accessed, and by value; None means any bytes of the place."""


class WorkingSet:
    """A set of nodes that move together towards one end of their block."""

    def __init__(self, db: AliasDb, *, towards_end: bool) -> None:
        self._db = db
        self._towards_end = towards_end
        self.members: list[Node] = []
        self._values: dict[Value, Node] = {}
        """Moving to the end: the members' results. Moving to the start: the values that members use."""
        self._reads: _Accesses = {}
        self._writes: _Accesses = {}
        self._effect: Node | None = None
        self._random: Node | None = None

    def add(self, node: Node) -> None:
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
                for region in (self._db.region(access.place), EVERYTHING) if access.place != EVERYTHING else tuple(table):
                    for parts in table.get(region, {}).values():
                        for part, (member, other) in parts.items():
                            read, write = (other, access) if table is self._reads else (access, other)
                            if self._collide(read, write, part, access.value):
                                return self._between("memory", member, node, accesses=(other, access))
        return None

    def _collide(self, read: Access, write: Access, one: Value | None, other: Value | None) -> bool:
        """Whether a write may change what a read observes, if these are the values through which they happen. Few writes change shapes."""
        if read.shape and not write.shape:
            return False
        if EVERYTHING in (read.place, write.place):
            return True
        if not self._db.reach.meet(read.place, write.place):
            return False
        return one is None or other is None or not self._db.lie_apart(one, other)

    def _between(
        self, kind: Kind, member: Node, node: Node, value: Value | None = None, accesses: tuple[Access, Access] | None = None
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


def can_move(db: AliasDb, node: Node, point: Node, *, before: bool) -> Verdict:
    """Whether `node` can move directly before (or after) `point`."""
    return _can_move(db, node, point, before=before).in_words("can move", "cannot move")


def _can_move(db: AliasDb, node: Node, point: Node, *, before: bool) -> Verdict:
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
        return no(f"{db.node_words(node)} has a side effect", node)
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
        side = "before" if db.index_of(blocked) < db.index_of(node) else "after"
        dragged = "" if node is blocked else f", and {db.node_words(blocked)} must stay {side} {db.node_words(node)}"
        return no(f"{db.obstacle_words(obstacle)}{dragged}", point, blocked, *(obstacle.accesses or ()))
    if not followers:
        return yes("no node in between depends on it, nor it on them", node)
    verb = f"move{'s' if len(followers) == 1 else ''} {'out of the way' if already else 'along'}"
    return yes(f"{listed(followers, db.node_words, 3)} {verb}", node, *followers)


def _promise(graph: Graph) -> tuple[bool, Mapping[Value, int]]:
    """Whether a graph's inputs are distinct, and the known storages."""
    return graph.distinct_inputs or bool(graph.functional), graph.storages


_FOLLOWED: Final = no("the edits were followed").in_words("rebuilt", "not rebuilt")


class AliasDb(Questions, Drawn):
    """Aliases and writes of one graph.

    Any two inputs may be the same object, unless `distinct_inputs` promises that they share no memory or the program comes
    from a language without memory (ONNX, StableHLO: `graph.functional`). Parameters that `irs.load` bound have known
    storages (`graph.storages`): two of them share memory only if they are tied, and an argument shares memory with none. A call
    is unseen code, unless `callees` (a Module, or graphs by name) has its body. Every value or node may be given by its
    printed name; an unknown name raises UnknownName.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Tensor, %i : int):
    ...   %a : Tensor = aten::neg(%x)
    ...   %b : Tensor = aten::select(%a, %i, %i)
    ...   %c : Tensor = aten::relu_(%b)
    ...   return (%a)''')
    >>> db = AliasDb(g)
    >>> print(db.may_alias("a", "b"))
    may alias: %b is a view of %a (aten::select)
    >>> print(db.may_alias("a", "x"))
    no alias: they are different memory: %a is made by aten::neg, %x is an input
    >>> print(db.has_writers("a"))
    written: aten::relu_ (%c) writes %b, and %b is a view of %a (aten::select)

    >>> helper = parse('graph(%p : Tensor):\\n  %q : Tensor = aten::neg(%p)\\n  return (%q)')
    >>> g = parse('''graph(%x : Tensor):
    ...   %f : Function = prim::Constant[name="helper"]()
    ...   %a : Tensor = prim::CallFunction(%f, %x)
    ...   return (%a)''')
    >>> bool(AliasDb(g).may_alias("a", "x")), bool(AliasDb(g, callees={"helper": helper}).may_alias("a", "x"))
    (True, False)
    """

    @public
    def __init__(self, graph: Graph, *, distinct_inputs: bool = False, callees: Module | Mapping[str, Graph] | None = None) -> None:
        self.graph = graph = graph_of(graph, "AliasDb")
        self.callees = callees_of(callees)
        self.distinct_inputs = distinct_inputs or graph.distinct_inputs or bool(graph.functional)
        self.was_rebuilt: Verdict = no("it was built from the graph, not updated from another db").in_words("rebuilt", "not rebuilt")
        """Whether this db, which follows another, was rebuilt because of the edits, and why."""
        self._knowledge = Knowledge()
        known = summaries(graph, self.callees, self._knowledge.structures)
        self.sealed: PointsTo = build(graph, self._knowledge.structures, distinct_inputs=self.distinct_inputs, callees=known)
        self.reach = Reachability(self.sealed)

    @public
    def follow(self, record: Record) -> AliasDb:
        """Return the db of the graph after a pass, derived in time linear in the edits; this db is not changed.

        It answers as `AliasDb(record.after)` does. The db is rebuilt if ifs, loops, calls or objects come or go, or if the
        aliases of a value were merged with it: see `was_rebuilt`.

        >>> from irscope.ir.text.parser import parse
        >>> from irscope.ir.rewriter import Rewriter
        >>> from irscope.transforms.base import PassRecord
        >>> g = parse('''graph(%x : Tensor):
        ...   %a : Tensor = aten::neg(%x)
        ...   %b : Tensor = aten::neg(%x)
        ...   %t : Tensor = aten::t(%b)
        ...   return (%a, %t)''')
        >>> rewriter = Rewriter(g)
        >>> rewriter.replace(g.value("b"), g.value("a"), reason="the same computation")
        >>> rewriter.erase(g.node("b"), reason="nobody reads it")
        >>> db = AliasDb(g)
        >>> next_db = db.follow(PassRecord("cse", g, rewriter.finish(), rewriter.edits))
        >>> bool(db.may_alias("a", "t")), str(next_db.may_alias("a", "t"))
        (False, 'may alias: %t is a view of %a (aten::t)')
        """
        if record.before is not self.graph:
            raise ArgumentError(
                f"the record does not start from the graph of this AliasDb ({self.graph.name!r})",
                hint="follow the records of a history in order, each with the db of the graph before it",
            )
        if record.after is self.graph:
            return self
        try:
            if _promise(record.before) != _promise(record.after):
                raise CannotFollow("the assumptions about the inputs changed")
            points_to, reach = follow(self.sealed, self.reach, self._knowledge, record)
        except CannotFollow as why:
            rebuilt = AliasDb(record.after, distinct_inputs=self.distinct_inputs, callees=self.callees)
            rebuilt.was_rebuilt = yes(str(why)).in_words("rebuilt", "not rebuilt")
            return rebuilt
        found = AliasDb.__new__(AliasDb)
        found.graph, found.distinct_inputs, found.callees = record.after, self.distinct_inputs, self.callees
        found.was_rebuilt = _FOLLOWED
        found.sealed, found.reach, found._knowledge = points_to, reach, self._knowledge
        return found

    # Order

    @cached_property
    def _index(self) -> dict[Node, int]:
        return {node: index for block in self.graph.blocks() for index, node in enumerate(block.nodes)}

    def obstacle(self, earlier: Node, later: Node) -> OrderConflict | None:
        """The reason why two nodes of one block must keep their order, or None."""
        alone = WorkingSet(self, towards_end=True)
        alone.add(earlier)
        return alone.obstacle(later)

    @public
    def can_move_before(self, node: Node | str, point: Node | str) -> Verdict:
        """Whether `node` can move directly before `point`; the witness lists the nodes that move along."""
        return can_move(self, self._node(node), self._node(point), before=True)

    @public
    def can_move_after(self, node: Node | str, point: Node | str) -> Verdict:
        """Whether `node` can move directly after `point`; the witness lists the nodes that move along."""
        return can_move(self, self._node(node), self._node(point), before=False)

    @public
    def index_of(self, node: Node) -> int:
        """The node's position in its block."""
        known = node.__class__ is Node and node in self._index
        return self._index[node if known else self._node(node)]

    # For analyses and passes on top

    @public
    def region(self, place: int) -> int:
        """The region of a class: accesses in different regions never conflict; `EVERYTHING` is a region of its own."""
        return place if place == EVERYTHING else self.reach.region[place]

    @public
    def node_words(self, node: Node) -> str:
        """A node in a sentence: `aten::mul (%c)`."""
        return self._explainer.paths.node_words(node)

    @public
    def place_words(self, label: Label) -> str:
        """A value by its name, a place in words: `what %list holds`."""
        return self._explainer.paths.describe(label)

    @public
    def obstacle_words(self, obstacle: OrderConflict) -> str:
        """Why one node must come after another, as a sentence."""
        return self._explainer.obstacle_words(obstacle)

    # Tables

    @public
    def table(self, values: Iterable[Value | str] | None = None) -> pd.DataFrame:
        """One row per value that is memory: name, type, alias set, locations, writers; long lists are truncated.

        `alias_set`, `locations` and `writers` return the full lists. Linear in the program: if nearly everything may alias
        everything, rows after the first ones show upper bounds (`up to 5000 values`).
        """
        wanted = self.graph.values() if values is None else map(self._value, values)
        answers = _Table(self)
        rows = [(self.place_words(value), str(value.type), *answers.of(value)) for value in wanted if self.is_memory(value)]
        return new_table(rows, columns=["value", "type", "alias set", "locations", "writers"])

    @public
    def dot(self, values: Values | None = None) -> str:
        """The points-to graph in Graphviz's language, for some values and what they may be and hold, or for all.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::neg(%x)\\n  %b : Tensor = aten::t(%a)\\n  return (%b)")
        >>> print(AliasDb(g).dot("b"))
        digraph {
          node [shape=box style=rounded fontname="Helvetica" fontsize=10]
          c1 [label="%a\\n%b"]
        }
        """
        starts = None
        if values is not None:
            starts = {place for place in map(self._place, self._values(values)) if place is not None}
        return points_to_dot(self.sealed, self.reach, self._explainer.paths.describe, starts)

    @public
    def to_graphviz(self, values: Values | None = None) -> Any:
        """The same as a `graphviz.Source`, which shows itself in a notebook, with or without the program `dot`.

        Raises MissingExtra without `irscope[lab]`.
        """
        return type(self).drawing().points_to_graphviz(self, values)

    def memory_of(self, *values: Value | str) -> MemoryOf:
        """The memory of one value as a picture, or for two values the numbered path on which they may share memory."""
        return MemoryOf(self, tuple(map(self._value, values)))

    def __repr__(self) -> str:
        sealed = self.sealed
        counts = f"{plural(len(sealed.labels), 'element')}, {plural(len(sealed.writes), 'write')}"
        return f"<AliasDb of {self.graph.name!r}: {counts}>"


@dataclass(frozen=True)
class MemoryOf(Drawn):
    """A picture of the memory of some values: `db.memory_of("a")`."""

    db: AliasDb
    values: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"<the memory of {listed(self.values, lambda value: f'%{self.db.graph.names[value]}')}>"
