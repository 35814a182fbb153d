"""The reads and writes of each node (mod/ref) in terms of the points-to graph, and the conflicts that keep two nodes in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from irscope.analysis.alias.points_to.elements import class_name
from irscope.analysis.alias.points_to.graph import Called, PointsTo, Reachability
from irscope.analysis.effects import Signatures, changes_random_state, reads_by_name
from irscope.ir import CONTROL_FLOW, GENERATOR, GROUPS, NOT_CONSTANT, Block, ClassType, Graph, Node, Value, constant_of, steps
from irscope.ops.op import draws_random_numbers, has_side_effects
from irscope.ops.registry import bind
from irscope.ops.traits import STOPS

# Only memory that some node writes is listed: reads of the rest conflict with nothing. Besides memory there are two
# orders that a program must keep: of effects on the world (print, raise, calls) and of random draws.

EVERYTHING: Final = -1
"""The class number of an access to all memory: waiting for a task that may have written anything."""


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of memory."""

    node: Node
    """The node that accesses memory; inside a structured node, the inner node."""
    value: Value | None
    """The operand through which the access happens; None if there is none (unseen code)."""
    place: int
    """The class of the points-to graph, or `EVERYTHING`."""
    shape: bool
    """For a read: of the shape alone. For a write: of the shape too."""


@dataclass(frozen=True, eq=False, slots=True)
class ModRef:
    """The accesses and effects of one node, its blocks included."""

    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    side_effect: Node | None
    """The first node in it with an effect on the world."""
    random: Node | None
    """The first node in it that draws random numbers."""
    uses: tuple[Value, ...]
    """The values of its own block that it or a node inside it uses; values defined inside it are not listed."""


_KNOWN: Final = CONTROL_FLOW | GROUPS | {"prim::GradOf", "prim::fork", "prim::FusedConcat"}
"""Ops without a schema whose behaviour is known."""
_MOST_OPERANDS: Final = 8
"""The most operands through which accesses to one class are told apart."""
TASKS: Final = frozenset({"prim::fork"})
"""Ops that start a task whose block is in the graph."""

WAITS: Final = frozenset({"aten::wait", "prim::awaitable_wait"})
"""Ops that wait for a task, which may have written anything; unseen code may also wait, if there are tasks."""


class Accesses:
    """The accesses of the nodes of one graph, computed on demand."""

    def __init__(self, graph: Graph, points_to: PointsTo, reach: Reachability) -> None:
        self._reach = reach
        self._graph = graph
        self._points_to = points_to
        self._signatures = Signatures()
        self._known: dict[Node, ModRef] = {}
        starts_in_callee = any(called.effects.starts for called in points_to.calls.values())
        self._has_tasks = starts_in_callee or any(node.op in TASKS for node in graph.nodes())
        self._deep: dict[int, tuple[int, ...]] = {}
        self._writes: dict[Node, list[tuple[int, bool]]] = {}
        for write in points_to.writes:
            self._writes.setdefault(write.node, []).append((points_to.class_of[write.element], write.to_shape))

    def of(self, node: Node) -> ModRef:
        """The accesses and effects of the node and all nodes inside it."""
        found = self._known.get(node)
        if found is None and not node.blocks:
            found = self._known[node] = self._own(node)
        if found is None:
            holders = [node]  # it and all unvisited nodes with blocks inside it, each before those inside it
            for holder in holders:  # grows
                inside = (inner for block in holder.blocks for inner in block.nodes)
                holders.extend(inner for inner in inside if inner.blocks and inner not in self._known)
            for holder in reversed(holders):
                found = self._known[holder] = self._with_blocks(holder)
        assert found is not None
        return found

    def _with_blocks(self, node: Node) -> ModRef:
        """The accesses and effects of a node whose inner nodes with blocks are known."""
        parts = [self._own(node)]
        for block in node.blocks:
            parts.extend(self._known.get(inner) or self._own(inner) for inner in block.nodes)
        return ModRef(
            _distinct([access for part in parts for access in part.reads]),
            _distinct([access for part in parts for access in part.writes]),
            next((part.side_effect for part in parts if part.side_effect is not None), None),
            next((part.random for part in parts if part.random is not None), None),
            tuple(dict.fromkeys([*node.inputs, *self._named_inside.get(node, ())])),
        )

    @cached_property
    def _named_inside(self) -> Mapping[Node, Mapping[Value, None]]:
        """Maps a node with blocks to the values of its own block that are used inside it.

        A use counts only for the one enclosing node that is in the value's block: otherwise, with ifs nested
        100,000 deep, each would list the uses of all nodes inside it.
        """
        graph = self._graph
        found: dict[Node, dict[Value, None]] = {}
        around: list[Node | None] = []  # the nodes whose blocks are open, by depth
        depth: dict[Block, int] = {}
        for step in steps(graph):
            if step.kind == "enter":
                depth[step.block] = len(around)
                around.append(step.node)
            named = step.node.inputs if step.kind == "node" and step.node is not None else ()
            if step.kind == "leave":
                named = step.block.returns
            here = len(around) - 1
            for value in named:
                level = depth.get(graph.block_of[value], here)
                if level < here and (holder := around[level + 1]) is not None:
                    found.setdefault(holder, {})[value] = None
            if step.kind == "leave":
                around.pop()
        return found

    def _own(self, node: Node) -> ModRef:
        """The accesses and effects of the node itself, without its blocks."""
        if node.op == "prim::Constant":
            return ModRef((), (), None, None, ())
        written = self._writes.get(node, ())
        writes = tuple(Access(node, value, place, shape) for place, shape in written for value in self._through(node, place))
        reads = [*self._reads(node), *(Access(node, write.value, write.place, False) for write in writes)]
        called = self._points_to.calls.get(node.id)
        if called is not None:
            side_effect, random, _, waits, _, is_unseen = called.effects
        else:
            waits, is_unseen = node.op in WAITS, node.op not in _KNOWN and self._is_opaque(node)
            side_effect, random = has_side_effects(node.op) or is_unseen, may_draw(self._graph, node, is_unseen)
        if waits or (is_unseen and self._has_tasks):
            reads.append(Access(node, None, EVERYTHING, False))
            writes += (Access(node, None, EVERYTHING, True),)
        return ModRef(_distinct(reads), _distinct(writes), node if side_effect else None, node if random else None, node.inputs)

    def _is_opaque(self, node: Node) -> bool:
        opaque = self._points_to.opaque
        return opaque is not None and any(place == self._points_to.class_of[opaque] for place, _ in self._writes.get(node, ()))

    def _through(self, node: Node, place: int) -> Sequence[Value | None]:
        """The operands through which the node may access a class that it writes: those that its schema writes, if it says so."""
        element_of, class_of = self._points_to.element_of, self._points_to.class_of
        found: dict[int, Value] = {}
        for index, value in enumerate(node.inputs):
            element = element_of.get(value)
            if element is not None and place in self._inside(class_of[element]):
                found[index] = value
        if len(found) > 1:
            named = {index for index, _ in self._signatures.of(node).writes}
            found = {index: value for index, value in found.items() if index in named} or found
        return list(dict.fromkeys(found.values())) or (None,)

    def _reads(self, node: Node) -> list[Access]:
        points_to = self._points_to
        if node.op in _KNOWN and node.blocks:
            return []
        called = points_to.calls.get(node.id)
        if called is not None:
            return self._reads_of_call(node, called)
        if node.op == "prim::GetAttr":
            holder = node.inputs[0].type
            slot = points_to.slots.get((class_name(holder), node.attrs.get("name", ""))) if isinstance(holder, ClassType) else None
            return [Access(node, node.inputs[0], points_to.class_of[slot], False)] if slot is not None else self._deep_reads(node)
        if points_to.opaque is not None and self._is_opaque(node):
            return [Access(node, None, points_to.class_of[points_to.opaque], False)]
        kind = reads_by_name(node.op) or self._signatures.of(node).reads
        reads = self._deep_reads(node) if kind == "deep" else []
        if kind in ("shape", "object"):
            only_shape = kind == "shape"
            marks = points_to.is_reshaped if only_shape else points_to.is_written
            for value in node.inputs:
                element = points_to.element_of.get(value)
                if element is not None and marks[place := points_to.class_of[element]]:
                    reads.append(Access(node, value, place, only_shape))
        if node.op in STOPS:
            reads.extend(Access(node, None, place, False) for place in points_to.outside if points_to.is_written[place])
        return reads

    def _reads_of_call(self, node: Node, called: Called) -> list[Access]:
        """Reads of everything that the operands hold, and of what the callee reaches in other ways."""
        class_of, is_written = self._points_to.class_of, self._points_to.is_written
        found = self._deep_reads(node)
        shared = dict.fromkeys(place for element in called.reads for place in self._inside(class_of[element]))
        if called.effects.stops:
            shared.update(dict.fromkeys(self._points_to.outside))
        found.extend(Access(node, None, place, False) for place in shared if is_written[place])
        return found

    def _deep_reads(self, node: Node) -> list[Access]:
        element_of, class_of, is_written = (self._points_to.element_of, self._points_to.class_of, self._points_to.is_written)
        found: list[Access] = []
        for value in node.inputs:
            element = element_of.get(value)
            if element is not None:
                found.extend(Access(node, value, place, False) for place in self._inside(class_of[element]) if is_written[place])
        return found

    def _inside(self, place: int) -> tuple[int, ...]:
        """The class and the classes of all its contents, at any depth."""
        inside = self._reach.inside
        if place not in inside:
            return (place,)
        known = self._deep.get(place)
        if known is None:
            seen, todo = {place: None}, [place]
            while todo:
                fresh = [held for held in inside.get(todo.pop(), ()) if held not in seen]
                seen.update(dict.fromkeys(fresh))
                todo.extend(fresh)
            known = self._deep[place] = tuple(seen)
        return known


def may_draw(graph: Graph, node: Node, is_unseen: bool) -> bool:
    """Whether a node may draw random numbers or set the random state; unseen code may."""
    if any(value.type == GENERATOR for value in node.inputs):
        return True
    if not draws_random_numbers(node.op):
        return changes_random_state(node.op) or is_unseen
    given = {name: constant_of(graph, value) if isinstance(value, Value) else value for name, value in bind(node).items()}
    return draws_random_numbers(node.op, {name: payload for name, payload in given.items() if payload is not NOT_CONSTANT})


def _distinct(accesses: Sequence[Access]) -> tuple[Access, ...]:
    """The first access for each class, each value of `shape`, and each operand: two views of one memory are other bytes of it. Many
    operands are one access to any bytes, so that ifs in ifs do not list all that is inside them."""
    if len(accesses) < 2:
        return tuple(accesses)
    kept: dict[tuple[int, bool], dict[Value | None, Access]] = {}
    for access in accesses:
        through = kept.setdefault((access.place, access.shape), {})
        if access.value not in through:
            value = access.value if len(through) < _MOST_OPERANDS else None
            through.setdefault(value, access if value is access.value else Access(access.node, None, access.place, access.shape))
    return tuple(access for through in kept.values() for access in through.values())


# The kinds of conflict that keep two nodes in their order.

Kind = Literal["data", "memory", "effect", "random"]
"""Data: one uses a result of the other. Memory: both access it, and one writes. Effect: both affect the world.
Random: both draw random numbers."""


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """The reason why a later node has to stay after an earlier one."""

    kind: Kind
    earlier: Node
    later: Node
    value: Value | None = None
    """Data: the result of the earlier node that the later one uses."""
    accesses: tuple[Access, Access] | None = None
    """Memory: the earlier access and the later one."""
