"""Builds the next graph from plans: each group becomes one node with a block, at a place that its dependences allow.

`irscope.transforms.grouping` describes groups; known numbers are the constants that are copied into them.

A plan can be carried out after any number of its merges. Parts that are the same at two steps are the same objects in
both graphs: a group is identified by its last node, keeps its id while it grows, and is built once for each size.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any, Final

from irscope._base.frozen import FrozenDict, fast_constructor
from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import Shapes
from irscope.ir import GROUPS, NOT_CONSTANT, Block, Edit, Graph, Merged, Node, TensorType, Value, count_uses
from irscope.ops.registry import bind, effect_of
from irscope.ops.traits import ALWAYS_SHARES, CUTS, JOINS, MAX_POOLS, in_space
from irscope.ops.type_rules import is_contiguous, static_shape
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup import constant_node, moves_on, ops_of_turn
from irscope.transforms.fusion.block_plan import BlockPlan
from irscope.transforms.fusion.domains import NodeProfiles, profiles_of
from irscope.transforms.fusion.eligibility import Eligibility, unpacked_cut
from irscope.transforms.fusion.planning import fusible_blocks
from irscope.transforms.grouping import (
    Constant,
    Identity,
    Partition,
    leaving_values,
    outline_nodes,
    outside_names,
    unused_constants,
    with_groups,
)

_make_merged = fast_constructor(Merged)


Grouped = tuple[Graph, tuple[Edit, ...], dict[Node, Node]]
"""The graph with groups, the edits, and the group of each grouped node of the old graph."""


class Groups:
    """Builds the groups of the plans of one graph."""

    def __init__(self, profiles: NodeProfiles, plans: Collection[BlockPlan], *, min_size: int) -> None:
        """`plans` may still grow."""
        self.outside_of: dict[Value, Value] = {}
        """Maps parameters and results inside groups to the outside values that they represent."""
        self._graph = profiles.rules.graph
        self._plans = plans
        self._profiles = profiles
        self._min_size = max(min_size, 2)
        self._identity: dict[Node, Identity] = {}
        self._made: dict[tuple[Node, int], Node] = {}
        self._constant = copies_of(profiles.rules.known)

    def carry_out(self) -> Grouped:
        """The graph after all merges; groups of fewer than `min_size` nodes are not built."""
        return self._grouped([plan.partition.schedule() for plan in self._plans], self._min_size)

    def after(self, merges: int) -> Graph:
        """The graph after so many merges, in the order of the plans and of their decisions.

        Merges of groups that are too small in the end do not count, and are not done.
        """
        schedules = []
        for plan in self._plans:
            schedules.append(plan.schedule_after(merges, self._min_size))
            merges = max(0, merges - len(plan.kept_merges(self._min_size)))
        return self._grouped(schedules, 1)[0]

    def _grouped(self, schedules: Sequence[Sequence[Sequence[int]]], min_size: int) -> Grouped:
        group_of: dict[Node, Node] = {}
        scheduled: dict[Block, Sequence[Node]] = {}
        for plan, schedule in zip(self._plans, schedules, strict=True):
            scheduled[plan.block] = self._placed(plan, schedule, min_size, group_of)
        unused = unused_constants(self._graph, group_of, self._profiles.rules.is_known, self._profiles.readings)
        merged = {plan.block: _merge_edits(plan, group_of) for plan in self._plans}
        return *with_groups(self._graph, scheduled, merged, unused), group_of

    def _placed(self, plan: BlockPlan, schedule: Sequence[Sequence[int]], min_size: int, group_of: dict[Node, Node]) -> list[Node]:
        """The nodes of a block in their new order."""
        nodes, is_view = plan.block.nodes, self._profiles.rules.is_view
        placed: list[Node] = []
        for members in schedule:
            if len(members) < 2 or sum(not is_view(nodes[index]) for index in members) < min_size:
                placed.extend(nodes[index] for index in members)
                continue
            key = nodes[members[-1]], len(members)
            group = self._made.get(key)
            if group is None:
                group = self._made[key] = self._group([nodes[index] for index in members], plan)
            for index in members:
                group_of[nodes[index]] = group
            placed.append(group)
        return placed

    def _group(self, members: list[Node], plan: BlockPlan) -> Node:
        """Build one group node that runs the members in their order."""
        identity = self._identity.setdefault(members[-1], Identity())
        attrs: FrozenDict[str, str] = FrozenDict(kind=plan.group(plan.index[members[-1]]).domain.kind)
        group = outline_nodes("prim::FusionGroup", members, plan.leaving(members), self._constant, identity=identity, attrs=attrs)
        self.outside_of |= outside_names(group)
        return group


def copies_of(known: Callable[[Value], Any]) -> Constant:
    """Copies the numbers that are known into a group."""

    def constant(value: Value, copy: Value, user: Node) -> Node | None:
        payload = known(value)
        return None if payload is NOT_CONSTANT else constant_node(copy, payload, like=user)

    return constant


def _merge_edits(plan: BlockPlan, group_of: dict[Node, Node]) -> list[Edit]:
    """The merges of a plan in the order in which they were decided."""
    edits: list[Edit] = []
    names, nodes = plan.rules.graph.names, plan.block.nodes
    text_of = cache(str)
    for merge in plan.merges:
        producer, consumer = nodes[merge.producer], nodes[merge.consumer]
        group = group_of.get(consumer)
        if group is None:
            continue
        space = text_of(merge.domain)
        a, b = names[producer.outputs[0]], names[consumer.outputs[0]]
        if merge.is_sibling:
            both = f" both read %{names[merge.shared]}" if merge.shared is not None else " become one kernel"
            reason, rule = f"%{a} and %{b}{both}; iteration space {space}", "sibling"
        else:
            reason, rule = f"%{a} feeds %{b}; iteration space {space}", "producer-consumer"
        edits.append(_make_merged((producer, consumer), group, reason, rule))
    return edits


# Groups views that follow one another into one node: nothing runs faster, as views cost nothing, but the picture is smaller.
#
# A group here has no kernel. Its nodes never copy, so its results share the memory of its inputs, as before. View groups are
# formed after all kernels, from the remaining nodes, and so never keep a node out of a kernel. A group is legal when the
# contraction of the block's dependences stays acyclic: see `irscope.transforms.grouping`.


@timed
def group_views(graph: Graph) -> PassRecord:
    """Group each maximal tree of views in the blocks of a graph, including those of ifs and loops, into one node.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(3, 2) = aten::t(%x)
    ...   %b : Float(3, 2) = aten::detach(%a)
    ...   return (%b)''')
    >>> print(group_views(g).remarks[0].because)
    2 nodes are views of the same memory: no kernel
    """
    rules, readings = profiles_of(graph).rules, count_uses(graph)
    group_of: dict[Node, Node] = {}
    scheduled: dict[Block, list[Node]] = {}
    merged: dict[Block, list[Edit]] = {}
    remarks: list[Remark] = []
    for block in fusible_blocks(graph):
        views = {node: index for index, node in enumerate(block.nodes) if _never_copies(graph, node)}
        if len(views) < 2:
            continue
        partition = Partition(dependences(graph, block).before)
        for node, index in views.items():
            producer = graph.producer.get(node.inputs[0])
            if producer in views:
                partition.merge(views[producer], index)
        placed: list[Node] = []
        for indexes in partition.schedule():
            members = [block.nodes[index] for index in indexes]
            if sum(node.op != "prim::ListUnpack" for node in members) < 2 or _cut_apart(graph, members):
                placed += members
                continue
            leaving = leaving_values(members, readings)
            group = outline_nodes("prim::FusionGroup", members, leaving, copies_of(rules.known), attrs=FrozenDict(kind="view"))
            group_of.update(dict.fromkeys(members, group))
            names = ", ".join(f"%{graph.names[value]}" for value in group.outputs)
            reason = f"only views lie between its inputs and {names}"
            merged.setdefault(block, []).append(Merged(tuple(members), group, reason, rule="view"))
            because = f"{len(members)} nodes are views of the same memory: no kernel"
            remarks.append(Remark("passed", "view", group, because, group.outputs))
            placed.append(group)
        scheduled[block] = placed
    after, edits = with_groups(graph, scheduled, merged, unused_constants(graph, group_of, rules.is_known, readings))
    return PassRecord("group-views", graph, after, edits, tuple(remarks))


def _never_copies(graph: Graph, node: Node) -> bool:
    """Whether a node is a view for all arguments, and its list of results, if it returns one, is only unpacked."""
    if node.op in CUTS or node.op == "prim::ListUnpack":
        return unpacked_cut(graph, node) is not None
    return node.op in ALWAYS_SHARES and effect_of(node) == "view"


def _cut_apart(graph: Graph, members: Sequence[Node]) -> bool:
    """Whether a list of tensors would cross the boundary of the group."""
    inside = set(members)
    pairs = (unpacked_cut(graph, node) for node in members if node.op in CUTS or node.op == "prim::ListUnpack")
    return any(pair is None or not inside.issuperset(pair) for pair in pairs)


# Gives each op of a loop a kernel, where kernels compute all else of a turn.
#
# A loop whose turns are only kernels runs in machine code (`irscope.runtime.program.loops`), in tens of nanoseconds a kernel. One op
# that is in no group would keep all of it in Python, at a microsecond or two for each op; the kernel of one op does as well elsewhere.


@timed
def group_turns(graph: Graph, refusal: Callable[[Node], object] | None = None) -> PassRecord:
    """Make each op outside of groups a group, in the loops of which a turn is then only kernels; `refusal` says of a node why it
    cannot be in one.
    """
    bodies = [block for block in fusible_blocks(graph) if (owner := graph.owner.get(block)) is not None and owner.op == "prim::Loop"]
    if not bodies:
        return PassRecord("group-turns", graph, graph)
    rules = profiles_of(graph).rules
    why_not, alone = refusal or rules.refusal, dict[Node, None]()
    for block in bodies:  # the ops outside of groups that kernels could compute, if all else in it is kernels or moves what these read
        rest = [node for node in ops_of_turn(block) if node.op not in GROUPS and not moves_on(node)]
        if not any(node.op in JOINS or why_not(node) is not None for node in rest):
            alone.update(dict.fromkeys(rest))
    reason = "a kernel of its own, so that all of a turn is kernels"

    record, groups = _groups_of_one("group-turns", graph, list(alone), reason, "turn", rules)
    remarks = [Remark("passed", "turn", group, f"{node.op} is {reason}", group.outputs) for node, group in groups.items()]
    return replace(record, remarks=tuple(remarks))


def _groups_of_one(
    name: str, graph: Graph, alone: Sequence[Node], reason: str, rule: str, rules: Eligibility | None = None
) -> tuple[PassRecord, dict[Node, Node]]:
    """Make each of these nodes a group; returns the record without remarks, and the groups. Each is a step of the history. `rules` know
    which nodes reduce."""
    known, uses = shapes_of(graph).known, count_uses(graph)
    constant = copies_of(known)

    def built(chosen: Mapping[Node, Node]) -> tuple[Graph, tuple[Edit, ...]]:
        blocks = dict.fromkeys(graph.block_of[node] for node in chosen)
        scheduled = {block: [chosen.get(node, node) for node in block.nodes] for block in blocks}
        merged = {block: [Merged((node,), chosen[node], reason, rule=rule) for node in block.nodes if node in chosen] for block in blocks}
        unused = unused_constants(graph, chosen, lambda value: known(value) is not NOT_CONSTANT, uses)
        return with_groups(graph, scheduled, merged, unused)

    groups: dict[Node, Node] = {}
    for node in alone:
        kind: FrozenDict[str, str] = FrozenDict(kind="reduction" if rules is not None and rules.axes(node) else "pointwise")
        groups[node] = outline_nodes("prim::FusionGroup", [node], node.outputs, constant, attrs=kind)
    after, edits = built(groups)
    order = [edit.nodes[0] for edit in edits if isinstance(edit, Merged)]
    steps = lambda count: built({node: groups[node] for node in order[:count]})[0]  # noqa: E731
    return PassRecord(name, graph, after, edits, after_merges=steps), groups


# Gives an op that no group takes a kernel of its own, where that is quicker than the library.
#
# An op between two products has nothing to be fused with. Its kernel moves the same bytes, but computes exp, erf or tanh in vectors, and
# torch's `gelu` and `layer_norm` check for microseconds before they begin. Copies, sums and `relu` are as quick in the library.

QUICKER_FROM: Final[Mapping[str, int]] = {
    **dict.fromkeys(in_space("aten", "gelu layer_norm"), 256),
    **dict.fromkeys(in_space("aten", "erf exp log mish sin softplus tanh"), 1024),
    **dict.fromkeys(in_space("aten", "sigmoid silu softmax"), 4096),
}
"""The ops of which a kernel is quicker than the library's op between two products, and from how many elements."""


@timed
def group_alone(graph: Graph, refusal: Callable[[Node], object] | None = None) -> PassRecord:
    """Make a group of each op outside of groups whose kernel is quicker than the library; `refusal` as for `group_turns`."""
    found = [node for block in fusible_blocks(graph) for node in block.nodes if node.op in QUICKER_FROM]
    if not found:
        return PassRecord("group-alone", graph, graph)
    rules, shapes, remarks, alone = profiles_of(graph).rules, shapes_of(graph), list[Remark](), list[Node]()
    why_not = refusal or rules.refusal
    for node in found:
        type, extents, axes = rules.tensor_type(node.inputs[0]), _extents(node.inputs[0], shapes), rules.axes(node)
        if type is None or extents is None or prod(extents) < QUICKER_FROM[node.op] or why_not(node) is not None:
            continue
        if axes and not (type.strides and is_contiguous(extents, type.strides) and max(axes) == len(extents) - 1):
            continue  # reduced along columns
        because = f"{node.op} of {prod(extents):,} elements is a kernel of its own: quicker than the library's op"
        remarks.append(Remark("passed", "alone", node, because, node.outputs))
        alone.append(node)
    reason = "its kernel is quicker than the library's op"
    record, _ = _groups_of_one("group-alone", graph, alone, reason, "alone", rules)
    return replace(record, remarks=tuple(remarks))


# Gives each max pooling a kernel of its own, which writes only its result.
#
# Torch's op also writes the indices of the maxima, 8 bytes for each element of the result, which are not visible. In a kernel a
# window is one read of the operand per element; windows cut off by the border have fewer, and are parts of the result computed
# separately.

_MOST_PARTS: Final = 25
"""The most parts of a result: more would be kernels for a few elements each."""


@timed
@starts_at("group-pools", MAX_POOLS)
def group_pools(graph: Graph) -> PassRecord:
    """Make a group of each max pooling whose extents are all known."""
    shapes, remarks, alone = shapes_of(graph), list[Remark](), list[Node]()
    for block in fusible_blocks(graph):
        for node in block.nodes:
            if node.op not in MAX_POOLS:
                continue
            if why_not := _refusal(node, shapes):
                remarks.append(Remark("missed", "pool-kernel", node, why_not, (node.inputs[0],)))
            else:
                saved = 8 * prod(_extents(node.output, shapes) or ())
                because = f"a kernel of its own leaves out the indices of the maxima: {saved:,} bytes"
                remarks.append(Remark("passed", "pool-kernel", node, because, (node.inputs[0],)))
                alone.append(node)
    reason = "its kernel reads the windows, and does not write the indices of the maxima"
    record, _ = _groups_of_one("group-pools", graph, alone, reason, "pool")
    return replace(record, remarks=tuple(remarks))


def _refusal(node: Node, shapes: Shapes) -> str:
    """Returns why a pooling stays an op of the library; empty if it need not."""
    given, made = _extents(node.inputs[0], shapes), _extents(node.output, shapes)
    if given is None or made is None:
        return "its extents are not all known before the run"
    known = {name: shapes.known(value) if isinstance(value, Value) else value for name, value in bind(node).items() if name != "self"}
    if not known or NOT_CONSTANT in known.values():
        return "its windows are not all known before the run"
    if known["stride"] in ((), []):
        known["stride"] = known["kernel_size"]
    axes = int(node.op[-2])
    parts = 1
    for axis in range(-axes, 0):  # one number is for all axes
        numbers = ([known[name]] if isinstance(known[name], int) else list(known[name]) for name in _SETTINGS)
        size, step, margin, gap = (each[axis] if len(each) == axes else each[0] for each in numbers)
        kinds = {
            tuple([0 <= index * step - margin + place * gap < given[axis] for place in range(size)]) for index in range(made[axis])
        }  # the ways in which windows along this axis are cut off by the border, including not at all
        parts *= max(len(kinds), 1)
    if parts > _MOST_PARTS:
        return f"the border cuts its windows off in {parts} ways, each of which would be a kernel"
    return ""


_SETTINGS: Final = ("kernel_size", "stride", "padding", "dilation")


def _extents(value: Value, shapes: Shapes) -> tuple[int, ...] | None:
    type = shapes.type(value)
    return static_shape(type) if isinstance(type, TensorType) and type.is_static else None
