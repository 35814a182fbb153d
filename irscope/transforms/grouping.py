"""Groups nodes without closing a cycle, for fusion and autodiff: partitions of a block, groups outlined into one node, and refusals."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise, takewhile
from typing import Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.analysis.alias import SAME_OBJECT
from irscope.analysis.dependence import Dependence, Dependences
from irscope.ir import Block, Edit, Erased, Graph, Node, Rewriter, TensorType, Value, make_block, make_node, make_value, new_id, reads_of
from irscope.ir.module import renamed_body
from irscope.ir.structural import free_values
from irscope.ir.text import copy_name, named_as
from irscope.ops.registry import effect_of, lookup
from irscope.ops.traits import OVERWRITES, PACKS_SEQUENCE


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not fused."""

    rule: str
    """The stable name of the rule."""
    because: str
    """A sentence without a full stop."""
    evidence: tuple[Value | Node, ...] = ()
    """The values and nodes that the sentence names."""


# Outlines nodes into a group: one node with a block that holds them, and the graph in which it replaces them.
#
# Values that leave a group stay the same Values; inside the group, new Values represent them and the group's inputs.
# Constants that the group reads are copied into it, and are removed outside where only groups read them.

MAKES_NUMBERS: Final = PACKS_SEQUENCE | {"prim::Constant"}
"""Ops that can be removed when their results are unused."""

Constant = Callable[[Value, Value, Node], Node | None]
"""Maps a value, the new Value for it inside the group, and the node that reads it, to the constant node that defines it
there; None if the group takes the value as an input."""


@dataclass(slots=True)
class Identity:
    """What stays the same while a group grows step by step: its ids, and which inside Value represents each outside one."""

    node: int = field(default_factory=new_id)
    block: int = field(default_factory=new_id)
    inside: dict[Value, Value] = field(default_factory=dict)
    constants: dict[Value, Node] = field(default_factory=dict)

    def stand_in(self, value: Value) -> Value:
        """The Value that represents an outside value inside the group."""
        copy = self.inside.get(value)
        if copy is None:
            copy = self.inside[value] = make_value(new_id(), value.type, copy_name(value.name))
        return copy


def leaving_values(members: Sequence[Node], uses: Mapping[Value, int]) -> list[Value]:
    """The values that these nodes produce and other nodes read, in program order; `uses` counts the whole program's uses."""
    inside = Counter(value for node in members for value in reads_of(node))
    return [v for node in members for v in node.outputs if uses.get(v, 0) > inside.get(v, 0)]


def outline_nodes(
    op: str, members: Sequence[Node], leaving: Sequence[Value], constant: Constant, *, identity: Identity | None = None,
    attrs: FrozenDict[str, str] = EMPTY,
) -> Node:  # fmt: skip
    """Returns one node of this op whose block runs the members in their order; its outputs are the values that leave."""
    identity = identity or Identity()
    standing = {value: value for node in members for value in node.outputs}
    standing.update((value, identity.stand_in(value)) for value in leaving)
    params: dict[Value, Value] = {}
    body: list[Node] = []
    for node in members:
        for value in (*node.inputs, *free_values(node)) if node.blocks else node.inputs:
            if value in standing:
                continue
            made = identity.constants.get(value) or constant(value, identity.stand_in(value), node)
            if made is None:
                params[value] = standing[value] = identity.inside[value]
            else:
                identity.constants[value] = made
                standing[value] = made.outputs[0]
                body.append(made)
        inputs = tuple([standing[value] for value in node.inputs])
        outputs = tuple([standing[value] for value in node.outputs])
        if node.blocks or inputs != node.inputs or outputs != node.outputs:
            blocks = tuple([renamed_body(inner, standing) for inner in node.blocks])
            node = make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope)
        body.append(node)
    returns = tuple([standing[value] for value in leaving])
    block = make_block(identity.block, tuple(params.values()), tuple(body), returns)
    scope = common_scope({node.scope for node in members})
    return make_node(
        identity.node, op, tuple(params), tuple(leaving), attrs, (block,), members[-1].location, scope
    )  # fmt: skip


def outside_names(group: Node) -> dict[Value, Value]:
    """Maps the parameters and results of a group's block to the outside values that they represent."""
    (block,) = group.blocks
    return dict(zip((*block.params, *block.returns), (*group.inputs, *group.outputs), strict=True))


def common_scope(scopes: Iterable[str]) -> str:
    """The innermost module that contains all of the scopes.

    >>> common_scope(["net.head.conv", "net.head.norm"]), common_scope(["net.body", "net.head"])
    ('net.head', 'net')
    """
    levels = zip(*(scope.split(".") for scope in scopes), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def unused_constants(graph: Graph, members: Iterable[Node], is_known: Callable[[Value], bool], uses: Mapping[Value, int]) -> set[Node]:
    """The producers of known numbers, and of lists of them, whose only users are members of groups, which now have copies."""
    inside: Counter[Value] = Counter()
    inside.update(
        value for node in members for value in node.inputs if value.type.__class__ is not TensorType
    )  # a constant tensor is an argument, and has no copy
    unused: set[Node] = set()
    pending = [value for value in inside if is_known(value)]
    while pending:
        value = pending.pop()
        producer = graph.producer.get(value)
        if producer is None or producer in unused or producer.op not in MAKES_NUMBERS or inside[value] < uses[value]:
            continue
        unused.add(producer)
        inside.update(producer.inputs)
        pending.extend(producer.inputs)
    return unused


def with_groups(
    graph: Graph, scheduled: Mapping[Block, Sequence[Node]], merged: Mapping[Block, Sequence[Edit]], unused: Collection[Node]
) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph with these nodes in these blocks and without the `unused` constants, and all the edits."""
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        erased = [Erased(node, "only groups read it, and have their own copy") for node in block.nodes if node in unused]
        edits = [*merged.get(block, ()), *erased]
        if edits:
            nodes = [node for node in scheduled.get(block, block.nodes) if node not in unused]
            rewriter.set_nodes(block, nodes, edits)
    after = rewriter.finish()
    return named_as(after, graph), rewriter.edits


# An order-maintenance list: decides in constant time which of two items comes first, while items move to any place.
#
# Each item has an integer label that grows along the line. An item that moves between two others gets the middle of
# their labels; where no integer is left between them, the labels behind the place are spread until the gaps are wide
# again. That costs O(log n) a move, amortised over any sequence of moves (P. Dietz and D. Sleator, "Two algorithms for
# maintaining order in a list", 1987; Python's integers spare us their circular arithmetic).

_GAP = 1 << 20


class OrderedList:
    """A line of the numbers 0 … n-1, initially in this order."""

    def __init__(self, size: int) -> None:
        self.label = [_GAP * place for place in range(1, size + 1)]
        """The labels, to compare which of two items comes first; a label means nothing else, and moves change it."""
        self.end = size  # a sentinel before the first and after the last item
        self.label.append(0)
        self._next = [*range(1, size + 1), 0]
        self._previous = [size, *range(size)]

    def move_after(self, item: int, anchor: int) -> None:
        """Put an item directly behind another."""
        assert item != anchor
        self.remove(item)
        self._insert_after(item, anchor)

    def move_before(self, item: int, anchor: int) -> None:
        """Put an item directly in front of another."""
        assert item != anchor
        self.remove(item)
        self._insert_after(item, self._previous[anchor])

    def previous(self, item: int) -> int | None:
        """The item directly in front of an item, if there is one; in front of `end`, the last item."""
        found = self._previous[item]
        return None if found == self.end else found

    def remove(self, item: int) -> None:
        """Take an item out for good; its label no longer means anything."""
        before, after = self._previous[item], self._next[item]
        self._next[before] = after
        self._previous[after] = before

    def _insert_after(self, item: int, anchor: int) -> None:
        if self._label_behind(anchor) - self.label[anchor] < 2:
            self._spread(anchor)
        after = self._next[anchor]
        self.label[item] = (self.label[anchor] + self._label_behind(anchor)) // 2
        self._next[anchor] = self._previous[after] = item
        self._previous[item], self._next[item] = anchor, after

    def _label_behind(self, item: int) -> int:
        after = self._next[item]
        return self.label[item] + 2 * _GAP if after == self.end else self.label[after]

    def _spread(self, anchor: int) -> None:
        """Widen the gaps behind the anchor, over the shortest run that ends more than its squared length away."""
        base = self.label[anchor]
        run: list[int] = []
        item = self._next[anchor]
        while item != self.end and self.label[item] - base <= (len(run) + 1) ** 2:
            run.append(item)
            item = self._next[item]
        parts = len(run) + 1
        span = (self.label[item] if item != self.end else base + parts * _GAP) - base
        for place, moved in enumerate(run, 1):
            self.label[moved] = base + place * span // parts


# Decides which nodes may share a group: partitions of a block whose contraction stays acyclic.
#
# *Domain.* The nodes of one block, numbered in program order, under a dependence relation: `u` before `v` whenever `v`
# reads a result of `u`, or exchanging them could be observed (memory, effects, random state). Program order is a
# topological order of it.
#
# *The claim.* A partition can be executed group by group, each group as one step, if and only if the graph that has one
# node per group, and an edge from A to B when some node of A comes before some node of B, has no cycle: an acyclic
# graph has a topological order, and executing in that order, with program order inside each group, puts every `u`
# before its `v`; along a cycle there is no first step. So a merge is legal exactly when it closes no cycle, and no
# other question about memory remains.
#
# *One merge.* Given an acyclic contraction, contracting A and B closes a cycle if and only if a path leads from A to B
# (or from B to A) through a third group. We keep the groups in a line that respects all edges. Say A is in front of B.
# Then no path leads back, and a path from A to B runs entirely between them. We search forward from A and backward from
# B, between the two in the line, alternately, one edge each. If the searches meet, they have found the path, which is
# the witness of the refusal. If one runs dry, there is no path: when the forward one runs dry, all groups that it found
# move behind B, where the merged group stays; when the backward one does, all groups that it found move in front of A.
# Either way the line respects all edges again. Nothing is changed before the decision, so a refusal leaves no trace.
#
# *Precondition.* The caller gives complete dependences (a transitive reduction will do: only paths matter), numbered
# along program order.
#
# *Cost.* A search costs at most twice its cheaper side, and moves are O(log n) amortised. Adjacency is never rebuilt:
# the shorter list is appended to the longer one, O(e log n) over all merges. Greedy fusion tries producers directly in
# front of their group, where one side runs dry after a few edges; that makes a pass near-linear in practice. An
# adversary can make searches long.
#
# *Source.* The line and the region between two ends: D. Pearce and P. Kelly, "A dynamic topological sort algorithm for
# directed acyclic graphs", 2006. Alternating search: B. Haeupler, T. Kavitha, R. Mathew, S. Sen and R. Tarjan,
# "Incremental cycle detection, topological ordering, and strong component maintenance", 2012. PyTorch's fusers instead
# move nodes first and check afterwards.

_SHORT: Final = 8
"""The most edges of a group that are inspected one by one before a search begins."""

_NONE: Final[list[int]] = []
"""The members and edges of a group that was united with another."""


class Partition:
    """Groups of the nodes 0 … n-1, initially one each; a group is identified by the number of one of its nodes.

    >>> parts = Partition([[], [0], [0, 1]])  # 0 → 1 → 2 and 0 → 2
    >>> parts.merge(0, 2)                     # 1 would have to run inside the group
    [0, 1, 2]
    >>> parts.merge(0, 1), parts.merge(1, 2), parts.schedule()
    ([], [], [[0, 1, 2]])
    """

    def __init__(self, predecessors: Sequence[Sequence[int]]) -> None:
        """`predecessors[v]`: the nodes that must come before `v`, all less than `v`."""
        size = len(predecessors)
        self._before = [list(sources) for sources in predecessors]
        self._after: list[list[int]] = [[] for _ in range(size)]
        for node, sources in enumerate(predecessors):
            for source in sources:
                assert source < node, "dependences follow program order"
                self._after[source].append(node)
        self._parent = list(range(size))
        self._members = [[node] for node in range(size)]
        self._line = OrderedList(size)
        self._place = list(range(size))  # of each group: its item in the line

    def find(self, node: int) -> int:
        parent = self._parent
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    def members(self, node: int) -> Sequence[int]:
        """The nodes of a node's group, in no particular order."""
        return self._members[self.find(node)]

    def merge(self, a: int, b: int) -> list[int]:
        """Merge the groups of two nodes, or return the path that forbids it, as one node of each group along it.

        An empty list says that they are now in one group (or already were).
        """
        first, last = self._in_order(a, b)
        if first == last:
            return []
        after, parent = self._after[first], self._parent
        for node in after if len(after) <= _SHORT else (first,):
            if parent[node] != last and self.find(node) != last:
                break
        else:  # all successors of the first group are in the last: the most frequent case, decided without a search
            self._after[first] = []
            self._line.remove(self._place[first])
            item = self._place[last]
            self._place[self._unite(first, last)] = item
            return []
        ahead, behind, path = self._search(first, last)
        if path:
            return path
        line, place = self._line, self._place  # what was found moves out of the way
        if ahead is not None:
            self._move_behind(last, ahead, first)
        for group in sorted((group for group in behind or () if group != last), key=self._label):
            line.move_before(place[group], place[first])
        kept, freed = (first, last) if ahead is None else (last, first)
        item = place[kept]
        line.remove(place[freed])
        place[self._unite(first, last)] = item
        return []

    def unite(self, a: int, b: int) -> None:
        """Unite two groups that were merged before in another partition of the same nodes, without a search.

        Afterwards only `find`, `members`, `unite`, `schedule` and `stuck` may be called.
        """
        a, b = self.find(a), self.find(b)
        if a != b:
            self._unite(a, b)

    def bring(self, a: int, b: int) -> list[int]:
        """Move the front group directly before the other, and its successors between the two directly behind the other;
        or return the path that forbids it.

        It decides as `merge` does, by a search in one direction, which may take longer; PyTorch moves nodes this way.
        """
        first, last = self._in_order(a, b)
        if first == last:
            return []
        ahead: dict[int, tuple[int, int]] = {first: (-1, first)}
        if last in self._walk(self._after, first, last, ahead):
            return _joined(ahead, {last: (-1, last)}, last)
        self._move_behind(last, ahead, first)
        self._line.move_before(self._place[first], self._place[last])
        return []

    def place(self, node: int) -> int:
        """The label of a node's group, which grows along the line as long as nothing moves."""
        return self._line.label[self._place[self.find(node)]]

    def last(self) -> int | None:
        """A node of the group at the end of the line."""
        return self._line.previous(self._line.end)

    def in_front_of(self, node: int) -> int | None:
        """A node of the group in front of a node's group in the line."""
        return self._line.previous(self._place[self.find(node)])  # an item is a node of the group that it represents

    def obstacle(self, a: int, b: int) -> list[int]:
        """The path that forbids a merge, or an empty list; nothing is changed."""
        first, last = self._in_order(a, b)
        return self._search(first, last)[2] if first != last else []

    def schedule(self) -> list[list[int]]:
        """The groups in an order that respects every dependence, each a sorted list, as close to program order as
        possible.

        Of the groups that are ready, the one whose last node comes first in the program goes next, so that
        without merges this is program order. Computed from the dependences alone, not from the line: a second proof.
        """
        order, waiting = self._run_down()
        assert not waiting, "the contraction has a cycle"
        return order

    def stuck(self) -> list[list[int]]:
        """The groups that can never run, as each waits for another of them, or for one that does; empty if the contraction has no cycle.

        >>> parts = Partition([[], [0], [1]])
        >>> parts.unite(0, 2)  # 1 comes after a part of the group, and before another
        >>> parts.stuck()
        [[0, 2], [1]]
        """
        return [sorted(self._members[group]) for group in self._run_down()[1]]

    def _run_down(self) -> tuple[list[list[int]], list[int]]:
        """The groups in the order in which they become ready, and those that never do."""
        groups = [node for node in range(len(self._parent)) if self._parent[node] == node]
        waiting = dict.fromkeys(groups, 0)
        for group in groups:
            for target in self._after[group]:
                other = self.find(target)
                if other != group:
                    waiting[other] += 1
        ready = [(max(self._members[group]), group) for group in groups if not waiting[group]]
        heapify(ready)
        order: list[list[int]] = []
        while ready:
            _, group = heappop(ready)
            order.append(sorted(self._members[group]))
            for target in self._after[group]:
                other = self.find(target)
                if other != group:
                    waiting[other] -= 1
                    if not waiting[other]:
                        heappush(ready, (max(self._members[other]), other))
        return order, [group for group in groups if waiting[group]]

    def _in_order(self, a: int, b: int) -> tuple[int, int]:
        a, b = self.find(a), self.find(b)
        label, place = self._line.label, self._place
        return (a, b) if label[place[a]] <= label[place[b]] else (b, a)

    def _search(self, first: int, last: int) -> tuple[dict[int, tuple[int, int]] | None, dict[int, tuple[int, int]] | None, list[int]]:
        """Search from both ends alternately; return the side that ran dry (the other is None), or the path where they met.

        A side maps each group that it found to the group it was reached from and the node by which it was entered.
        """
        ahead: dict[int, tuple[int, int]] = {first: (-1, first)}
        behind: dict[int, tuple[int, int]] = {last: (-1, last)}
        forward = self._walk(self._after, first, last, ahead)
        backward = self._walk(self._before, last, first, behind)
        while True:
            met = next(forward, None)
            if met is None:
                return ahead, None, []
            if met in behind:
                return None, None, _joined(ahead, behind, met)
            met = next(backward, None)
            if met is None:
                return None, behind, []
            if met in ahead:
                return None, None, _joined(ahead, behind, met)

    def _walk(self, edges: list[list[int]], start: int, goal: int, found: dict[int, tuple[int, int]]) -> Iterator[int]:
        """Yield, for each edge of the groups found between start and goal in the line, the group at its end; -1 if that
        group was found before or is out of bounds."""
        label, place, find = self._line.label, self._place, self.find
        here_label, goal_label = label[place[start]], label[place[goal]]
        low, high = min(here_label, goal_label), max(here_label, goal_label)
        stack = [start]
        while stack:
            here = stack.pop()
            for node in edges[here]:
                there = find(node)
                if there == goal:
                    if here == start:
                        yield -1  # an edge from one end to the other is not an obstacle
                        continue
                elif there in found or not low < label[place[there]] < high:
                    yield -1
                    continue
                else:
                    stack.append(there)
                found[there] = (here, node)
                yield there

    def _move_behind(self, last: int, ahead: dict[int, tuple[int, int]], first: int) -> None:
        """Move all groups found on the way from the first group behind the last one, in their order."""
        place = self._place
        for group in sorted((group for group in ahead if group != first), key=self._label, reverse=True):
            self._line.move_after(place[group], place[last])

    def _label(self, group: int) -> int:
        return self._line.label[self._place[group]]

    def _unite(self, a: int, b: int) -> int:
        members, after, before = self._members, self._after, self._before
        large, small = a, b
        if len(members[a]) + len(after[a]) + len(before[a]) < len(members[b]) + len(after[b]) + len(before[b]):
            large, small = b, a
        self._parent[small] = large
        members[large] += members[small]
        after[large] += after[small]
        before[large] += before[small]
        members[small] = after[small] = before[small] = _NONE
        return large


def _joined(ahead: dict[int, tuple[int, int]], behind: dict[int, tuple[int, int]], met: int) -> list[int]:
    """The path through the group where two searches met, from the front end to the back end."""
    path: list[int] = []
    here = met
    while here != -1:
        here, node = ahead[here]
        path.append(node)
    path.reverse()
    here = behind[met][0]
    while here != -1:
        here, node = behind[here]
        path.append(node)
    return path


# What fusion and autodiff do alike with the partition of a block: grow a group, and say what lies between two.


def pull_producers(parts: Partition, consumer: int, producers: Callable[[int], Iterable[int]], merge: Callable[[int, int], bool]) -> None:
    """Merge producers into the group of a node, the latest first, until no candidate is left; `merge` takes a producer and the node
    that reads it, and returns whether they are in one group now."""
    heap = [(-producer, consumer) for producer in producers(consumer)]
    heapify(heap)
    asked: set[int] = set()
    while heap:
        negative, reader = heappop(heap)
        producer = -negative
        if producer in asked:
            continue
        asked.add(producer)
        group = parts.find(producer)
        if group == parts.find(consumer):
            continue
        is_alone = len(parts.members(group)) == 1
        if merge(producer, reader) and is_alone:  # the producers of a larger group were its candidates already
            for earlier in producers(producer):
                heappush(heap, (-earlier, producer))


def ties_along(ties: Dependences, parts: Partition, path: Sequence[int]) -> list[Dependence]:
    """A dependence of each group of a path on the group before it; the path holds one node of each."""
    nodes, found = ties.block.nodes, list[Dependence]()
    for a, b in pairwise(path):
        before = {nodes[index] for index in parts.members(a)}
        found.append(next(tie for i in sorted(parts.members(b)) for tie in ties.predecessors[nodes[i]] if tie.node in before))
    return found


def explain_path(ties: Dependences, parts: Partition, path: Sequence[int]) -> Refusal:
    """Describes a path between two groups through a third one: blocked by a write, an effect, random numbers, or by data alone."""
    found, words = ties_along(ties, parts, path), ties.db.node_words
    nodes = tuple(dict.fromkeys(node for tie in found for node in (tie.node, tie.obstacle.later)))
    for kind, rule in (("memory", "blocked-by-write"), ("effect", "side-effect-between"), ("random", "random-order")):
        tie = next((tie for tie in found if tie.kind == kind), None)
        if tie is not None:
            named, (first, *_, last) = (tie.node, tie.obstacle.later), nodes
            known = first in named and last in named  # then the sentence names the ends of the path already
            because = tie.because if known else f"between {words(first)} and {words(last)}, {tie.because}"
            if kind == "memory":
                write = _without_the_write(*named)
                promise = "irs.load(…, distinct_inputs=True) promises that they are not" if because.endswith(SAME_OBJECT) else ""
                because += f"{write}, and {promise}" if write and promise else write or f"; {promise}" * bool(promise)
            return Refusal(rule, because, (*named, *nodes))
    return Refusal("cycle", f"fusing them would create a cycle: {' → '.join(map(words, nodes))}", nodes)


def with_place(words: Callable[[Node], str], refusal: Refusal) -> str:
    """The reason of a refusal, with the results and the line of the op that it begins with."""
    subject, because = refusal.evidence[0] if refusal.evidence else None, refusal.because
    if isinstance(subject, Node) and because.startswith(f"{subject.op} ") and not because.startswith(f"{subject.op} (%"):
        return because.replace(subject.op, words(subject), 1)
    return because


def apart_in_blocks(graph: Graph, words: Callable[[Node], str], a: Node, b: Node) -> Refusal | None:
    """The refusal for two nodes of different blocks; None if one block holds both."""
    owners = [graph.owner.get(graph.block_of[node]) for node in (a, b)]
    if graph.block_of[a] is graph.block_of[b]:
        return None
    places = [f"in a block of {owner.op}" if owner else "in the top block" for owner in owners]
    first, second = (f"{words(node)} {place}" for node, place in zip((a, b), places, strict=True))
    return Refusal("different-blocks", f"they are in different blocks: {first}, {second}", (a, b))


def _without_the_write(*tied: Node) -> str:
    """Says which op would leave the memory alone that ties two nodes; nothing if both write, or there is no such op."""
    writes = [node.op for node in tied if effect_of(node) == "in-place" and node.op.endswith("_")]
    if len(writes) != 1 or writes[0] in OVERWRITES or lookup(writes[0][:-1]) is None:
        return ""
    return f"; {writes[0][:-1]} in place of {writes[0]} writes nothing"
