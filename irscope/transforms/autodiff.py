"""Groups the parts of a program that are differentiated as one into `prim::DifferentiableGraph` nodes, and explains why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter

import pandas as pd

from irscope._base.nested import grouped
from irscope._base.results import Verdict, no, yes
from irscope._base.running import without_collector
from irscope._base.words import plural
from irscope.analysis.dependence import Dependences, dependences
from irscope.errors import ArgumentError, UnknownName, new_table, public
from irscope.ir import CONTROL_FLOW, Block, Edit, Graph, Merged, Node, Value, count_uses, graph_of, make_node, new_id
from irscope.ops.registry import effect_of
from irscope.transforms.base import History, PassRecord, Remark, Unpicklable
from irscope.transforms.gradient_rules import GradientRules
from irscope.transforms.grouping import (
    Identity,
    Partition,
    Refusal,
    explain_path,
    leaving_values,
    outline_nodes,
    outside_names,
    pull_producers,
    unused_constants,
    with_groups,
)

# Chooses the differentiable subgraphs of one block: which nodes are merged, and which leave their group again.
#
# *Merging.* Users bottom-up, and for each its producers from the latest to the earliest, as PyTorch's slicer does. A merge
# is legal if it closes no cycle (`partition`). In addition, groups are cut at nodes with side effects, so that what runs
# before a print or a raise still does; effects inside an if or a loop count.
#
# *Leaving.* An output that is the memory of an input, or of an earlier output, would be differentiated wrongly, so its
# producer leaves the group, with every member that depends on it; other members may become outputs then, and are checked
# again.
#
# *Why the rest is still legal.* Let L be the nodes that left group G, including all their dependents in G, and K the rest.
# A cycle through K would leave K and come back to it. If its way back led through L, it would have to get from L to K: not
# inside G, as L contains its dependents; and through a node outside G it would be a cycle of G, which had none. So K
# contracts, and L stays as single nodes. K is merged again in program order, where each step is legal for the same reason:
# the nodes still to be merged come after all that are merged.

_SWEEPS = 8


class BlockSlices:
    """The decisions about one block."""

    def __init__(self, ties: Dependences, rules: GradientRules, threshold: int) -> None:
        self.ties = ties
        self.block = ties.block
        self.rules = rules
        self.threshold = threshold
        nodes = ties.block.nodes
        self.index: Mapping[Node, int] = {node: index for index, node in enumerate(nodes)}
        self.fit = [rules.refusal(node) is None for node in nodes]
        self.segment = self._segments()
        """For each node, the number of nodes with effects before it; a group stays within one number."""
        self._fit_in: dict[int, int] = {}
        for segment, is_fit in zip(self.segment, self.fit, strict=True):
            self._fit_in[segment] = self._fit_in.get(segment, 0) + is_fit
        self._maker = {value: index for index, node in enumerate(nodes) if self.fit[index] for value in node.outputs}
        self._settled: Partition | None = None
        self.merges: list[tuple[int, int]] = []
        """Producer and user of each merge, in the order in which they were decided."""
        self.grouped: set[int] = set()
        """The nodes that have been merged with another."""
        self.paths: dict[tuple[int, int], list[int]] = {}
        """For a producer and a user that were not merged, the path that forbids it."""
        self.left: dict[int, Refusal] = {}
        """For each node that left its group, the reason."""

    @cached_property
    def partition(self) -> Partition:
        """The groups as merged, before any node leaves."""
        return Partition(self.ties.before)

    @property
    def settled(self) -> Partition:
        """The final groups, after nodes have left."""
        return self._settled or self.partition

    def _segments(self) -> list[int]:
        found, passed, db = [], 0, self.rules.db
        for node in self.block.nodes:
            found.append(passed)
            if node.blocks or effect_of(node) != "pure":
                passed += db.accesses(node).side_effect is not None
        return found

    def is_thin(self, index: int) -> bool:
        """Whether a node's segment has fewer fit nodes than the smallest group."""
        return self._fit_in[self.segment[index]] < self.threshold

    def producers(self, index: int) -> list[int]:
        """The fit producers of a node's inputs in the same segment."""
        here, maker = self.segment[index], self._maker
        found = [maker[value] for value in self.block.nodes[index].inputs if value in maker]
        return [producer for producer in found if self.segment[producer] == here]

    @cached_property
    def decided(self) -> tuple[tuple[int, ...], ...]:
        """The nodes of each merge that is carried out, in the order in which they were decided.

        A group that nodes had to leave is one merge of all remaining nodes, at the end; so is a group of one node.
        """
        if not self.merges and self.threshold > 1:
            return ()
        groups = [group for group in self._groups(self.settled) if len(group) >= self.threshold]
        whole = {group[0] for group in groups if 1 < len(group) == len(self.partition.members(group[0]))}
        first = {index: group[0] for group in groups for index in group}
        rest = [tuple(group) for group in groups if group[0] not in whole]
        return (*(merge for merge in self.merges if first.get(merge[1]) in whole), *rest)

    def after(self, count: int) -> Partition:
        """The groups after only the first `count` merges: nodes not merged yet are single, so no cycle can close."""
        return self.settled if count >= len(self.decided) else self._merged(self.decided[:count])

    def _groups(self, partition: Partition) -> list[list[int]]:
        """The groups with fit nodes, and the single ones of these, in order."""
        roots = {partition.find(index) for index in range(len(self.fit)) if self.fit[index]}
        return sorted(sorted(partition.members(root)) for root in roots)

    def _merged(self, groups: Iterable[Sequence[int]]) -> Partition:
        """The partition with these groups, or parts of groups, of which it is known that they close no cycle."""
        made = Partition(self.ties.before)
        for first, *rest in groups:
            for index in rest:
                path = made.merge(first, index)
                assert not path, "the rest of a group can still be a group, and fewer merges close no cycle"
        return made

    def grow(self, reader: int) -> None:
        """Merge producers into the group of a node, the latest first, until no candidate is left."""
        if self.producers(reader):  # else the partition may never be needed
            pull_producers(self.partition, reader, self.producers, self._merge)

    def _merge(self, producer: int, reader: int) -> bool:
        path = self.partition.merge(producer, reader)
        if path:
            self.paths[producer, reader] = path
        else:
            self.merges.append((producer, reader))
            self.grouped.update((producer, reader))
        return not path

    def settle(self) -> None:
        """Remove members that may not be in a group, and drop groups that are too small."""
        if not self.merges and self.threshold > 1:
            return
        kept, is_changed = [], False
        for members in self._groups(self.partition):
            staying = self._without_aliases(members) if len(members) >= self.threshold else []
            if len(staying) >= self.threshold:
                kept.append(staying)
            is_changed |= len(members) > 1 and (len(staying) < len(members) or len(staying) < self.threshold)
        if is_changed:
            self._settled = self._merged(kept)

    def _without_aliases(self, members: list[int]) -> list[int]:
        """The members that can stay so that no output may be the memory of an input or of an earlier output."""
        staying = members
        while True:
            leaving = self._sharing(staying)
            if not leaving:
                return staying
            removed = set(leaving)
            for index in staying:
                if index not in removed and not removed.isdisjoint(self.ties.before[index]):
                    removed.add(index)
                    self.left.setdefault(index, leaving[max(leaving)])
            self.left.update(leaving)
            staying = [index for index in staying if index not in removed]

    def _sharing(self, members: Sequence[int]) -> dict[int, Refusal]:
        """The members with an output that may be the memory of an input or of an earlier output, and why.

        Only results of ops that may pass memory on are compared, and only with values of their region; no op with a
        formula passes on the elements of a list.
        """
        nodes, rules = self.block.nodes, self.rules
        suspects = {index for index in members if rules.may_share(nodes[index])}
        if not suspects:
            return {}
        inside = {nodes[index] for index in members}
        made = {value for node in inside for value in node.outputs}
        read = dict.fromkeys(v for index in members for v in nodes[index].inputs if v not in made)
        known = grouped((self._region(value), value) for value in read)
        users, found = rules.graph.users, {}
        for index in members:
            for value in nodes[index].outputs:
                if all(use.user in inside for use in users.get(value, ())):
                    continue
                region = self._region(value)
                others = known.setdefault(region, [])
                refusal = self._shared(value, others) if index in suspects and region is not None else None
                if refusal is None:
                    others.append(value)
                else:
                    found[index] = refusal
        return found

    def _shared(self, value: Value, others: Sequence[Value]) -> Refusal | None:
        for other in others:
            verdict = self.rules.db.may_contain_alias(value, other)
            if verdict:
                names = self.rules.name(value), self.rules.name(other)
                what = f"{names[0]} would leave the subgraph, and may be the memory of {names[1]}: {verdict.because}"
                return Refusal("aliases", what, (value, other))
        return None

    def _region(self, value: Value) -> int | None:
        """The region of a value, or None for one that is its own memory; values of two regions never share memory."""
        sealed = self.rules.db.sealed
        element = sealed.element_of.get(value)
        return None if element is None else self.rules.db.region(sealed.class_of[element])


def slice_block(ties: Dependences, rules: GradientRules, threshold: int) -> BlockSlices:
    """Decide the differentiable subgraphs of a block; segments with fewer fit nodes than the threshold are skipped."""
    slices = BlockSlices(ties, rules, threshold)
    readers = [i for i in reversed(range(len(slices.fit))) if slices.fit[i] and not slices.is_thin(i)]
    for sweep in range(_SWEEPS):
        before = len(slices.merges)
        slices.paths.clear()
        for reader in readers:
            if sweep or reader not in slices.grouped:
                slices.grow(reader)
        if len(slices.merges) == before:
            break
    slices.settle()
    return slices


# Builds the next graph from slices: each group becomes one `prim::DifferentiableGraph` with the members in its block.


@dataclass(slots=True)
class Sliced:
    """The graph with its subgraphs, and where each node and value is in it."""

    graph: Graph
    edits: tuple[Edit, ...] = ()
    group_of: dict[Node, Node] = field(default_factory=dict)
    """The subgraph of each node of the old graph that is in one."""
    outside_of: dict[Value, Value] = field(default_factory=dict)
    """Maps parameters and results of the subgraphs' blocks to the outside values that they represent."""
    gone: set[Value] = field(default_factory=set)
    """Constants that were used only by subgraphs, which now have copies."""


class Slicer:
    """Builds the graph of some plans, after all merges or only some; ids are the same in all these graphs."""

    def __init__(self, plans: Sequence[BlockSlices], rules: GradientRules) -> None:
        self.plans = plans
        self.rules = rules
        self._uses = count_uses(rules.graph)
        self._identity: dict[object, Identity] = {}

    def carry_out(self, count: int | None = None) -> Sliced:
        """Build the groups of the first `count` merges, or of all merges without it.

        Values that leave a group, and values that are only read inside, stay the same Values; inside, new Values represent
        the group's inputs and the values that leave it.
        """
        done = Sliced(self.rules.graph)
        scheduled: dict[Block, list[Node]] = {}
        merged: dict[Block, list[Edit]] = {}
        for plan in self.plans:
            share = len(plan.decided) if count is None else min(count, len(plan.decided))
            count = None if count is None else count - share
            if share:
                scheduled[plan.block] = self._scheduled(plan, share, done)
                merged[plan.block] = _merge_edits(plan, share, done)
        unread = unused_constants(self.rules.graph, done.group_of, self.rules.is_number, self._uses)
        done.gone = {value for node in unread for value in node.outputs}
        done.graph, done.edits = with_groups(self.rules.graph, scheduled, merged, unread)
        return done

    def _scheduled(self, plan: BlockSlices, share: int, done: Sliced) -> list[Node]:
        """The block's nodes in their new order, with a node for each group; its first merge identifies a group."""
        partition = plan.after(share)
        earliest: dict[int, int] = {}
        for number, nodes in enumerate(plan.decided[:share]):
            earliest.setdefault(partition.find(nodes[0]), number)
        placed: list[Node] = []
        for members in partition.schedule():
            number = earliest.get(partition.find(members[0]), -1)
            found = [plan.block.nodes[index] for index in members]
            if number < 0:
                placed.extend(found)
                continue
            identity, leaving = self._identity.setdefault((plan, number), Identity()), leaving_values(found, self._uses)
            group = outline_nodes("prim::DifferentiableGraph", found, leaving, self._constant, identity=identity)
            done.outside_of |= outside_names(group)
            done.group_of |= dict.fromkeys(found, group)
            placed.append(group)
        return placed

    def _constant(self, value: Value, copy: Value, user: Node) -> Node | None:
        if not self.rules.is_number(value):
            return None
        node = self.rules.graph.producer[value]
        return make_node(new_id(), node.op, (), (copy,), node.attrs, (), node.location, node.scope)


def _merge_edits(plan: BlockSlices, share: int, done: Sliced) -> list[Edit]:
    edits: list[Edit] = []
    nodes, names = plan.block.nodes, plan.rules.graph.names
    merges = set(plan.merges)
    for indices in plan.decided[:share]:
        members = tuple([nodes[index] for index in indices])
        if indices in merges:
            a, b = members
            reason, rule = f"%{names[a.outputs[0]]} feeds %{names[b.outputs[0]]}", "producer-consumer"
        elif len(members) > 1:
            reason, rule = "the rest of a larger group, from which other nodes had to be removed", "remainder"
        else:
            reason, rule = "a subgraph of its own", "single"
        edits.append(Merged(members, done.group_of[members[0]], reason, rule=rule))
    return edits


# Remarks about slicing into differentiable subgraphs: what was grouped, and one remark per obstacle to remove.


def _passed(plan: BlockSlices, sliced: Sliced) -> Iterator[Remark]:
    groups = map(sliced.group_of.get, plan.block.nodes)
    for group, count in Counter(group for group in groups if group is not None).items():
        what = f"{plural(count, 'node')} became one differentiable subgraph"
        yield Remark("passed", "differentiable", group, what, group.outputs)


def _left(plan: BlockSlices) -> Iterator[Remark]:
    """Yields one remark for each aliasing that removed nodes from their group."""
    removed = grouped((plan.left[index], plan.block.nodes[index]) for index in sorted(plan.left))
    for refusal, nodes in removed.items():
        more = f" ({plural(len(nodes), 'node')} left with it)" if len(nodes) > 1 else ""
        yield Remark("missed", refusal.rule, nodes[0], refusal.because + more, refusal.evidence)


def _blocked(plan: BlockSlices) -> Iterator[Remark]:
    """Yields one remark for each write, or order of random numbers, that keeps producers apart from their users."""
    found: dict[object, tuple[Refusal, Node, int]] = {}
    for producer, reader in plan.paths:
        path = plan.settled.obstacle(producer, reader)
        if not path:
            continue
        refusal = explain_path(plan.ties, plan.settled, path)
        if refusal.rule != "cycle":
            key = refusal.rule, frozenset(refusal.evidence[:2])
            known = found.get(key)
            found[key] = (refusal, plan.block.nodes[reader], 1) if known is None else (*known[:2], known[2] + 1)
    for refusal, node, count in found.values():
        more = f" (and {count - 1} more)" if count > 1 else ""
        yield Remark("missed", refusal.rule, node, refusal.because + more, refusal.evidence)


def _without_gradient(plans: Sequence[BlockSlices]) -> Iterator[Remark]:
    """Yields one remark for all nodes that would be in a subgraph if one of their inputs required a gradient."""
    refusals = [(node, plan.rules.refusal(node)) for plan in plans for node in plan.block.nodes]
    found = [node for node, refusal in refusals if refusal is not None and refusal.rule == "no-gradient"]
    if found:
        what = f"nothing that it reads can require a gradient (this holds for {plural(len(found), 'node')} with formulas)"
        yield Remark("missed", "no-gradient", found[0], what, tuple(found[:8]))


# A just-in-time compiler that has gradient formulas for some ops passes maximal groups of these ops to its own
# differentiation and leaves the rest to the library's. This is PyTorch's pass of that kind, on the machinery of fusion:
# `partition` decides legality, and the result maps each value to its place in the new graph.


@dataclass(frozen=True, eq=False)
class AutodiffSubgraphs(Unpicklable):
    """A graph with its differentiable subgraphs, and the reasons for them."""

    graph: Graph
    """The program with each subgraph as a `prim::DifferentiableGraph` node."""
    original: Graph
    threshold: int
    groups: tuple[Node, ...]
    """The subgraphs that this pass made, in program order over all blocks."""
    history: History
    """One record, `autodiff-subgraphs`, in which each merge is a step."""
    _rules: GradientRules = field(repr=False)
    _plans: dict[Block, BlockSlices] = field(repr=False)
    _sliced: Sliced = field(repr=False)

    pickle_instead = "pickle subgraphs.original and find them again, or subgraphs.graph, which is the result"

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The subgraphs built (`passed`), and the nodes with formulas that had to stay out (`missed`)."""
        return self.history.remarks

    def table(self) -> pd.DataFrame:
        """One row per subgraph: its results, the number of nodes, their ops, and the numbers of inputs and outputs."""
        names = self.graph.names
        rows = []
        for index, group in enumerate(self.groups):
            ops = [node.op.partition("::")[2] for node in group.blocks[0].nodes if node.op != "prim::Constant"]
            results = ", ".join(f"%{names[value]}" for value in group.outputs)
            shown = ", ".join(ops[:8]) + (", …" if len(ops) > 8 else "")
            rows.append((index, results, len(ops), shown, len(group.inputs), len(group.outputs)))
        columns = ["group", "result", "nodes", "ops", "inputs", "outputs"]
        return new_table(rows, columns=columns).set_index("group")

    def group_of(self, subject: Node | Value | str) -> Node | None:
        """The subgraph that contains a node, or the producer of a value; None if there is none."""
        node = self._find(subject)
        return None if node is None else self._sliced.group_of.get(node)

    def forward(self, value: Value | str) -> Value | None:
        """The value of the new graph that corresponds to a value of the original one; None if it was removed.

        A value that leaves a subgraph or was never in one stays the same Value; one that only a subgraph reads is inside
        it. Only constants of which each subgraph now has its own copy are removed.
        """
        found = self.original.value(value)
        return None if found in self._sliced.gone else found

    def may_require_grad(self, value: Value | str) -> bool:
        """Whether a value of the original graph may require a gradient; False is certain."""
        return self.original.value(value) in self._rules.grads

    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two nodes (or the producers of two values) are in one subgraph, and why, or what keeps them apart."""
        first = self._find(a)
        last = None if first is None else self._find(b)
        if first is None or last is None:
            subject = a if first is None else b
            found = no(f"{subject!r} is an input or a block parameter: it has no producer", subject)
        else:
            found = self._why_not(first, last)
        return found.in_words("in one subgraph", "not in one subgraph")

    def _why_not(self, a: Node, b: Node) -> Verdict:
        if a is b:
            return yes("they are the same node", a)
        group = self._sliced.group_of.get(a)
        if group is not None and group is self._sliced.group_of.get(b):
            names = ", ".join(f"%{self.graph.names[value]}" for value in group.outputs)
            return yes(f"both are in the differentiable subgraph that produces {names or 'nothing'}", group, a, b)
        for node in (a, b):
            refusal = self._rules.refusal(node)
            if refusal is not None:
                return no(refusal.because, *refusal.evidence)
        blocks = self.original.block_of[a], self.original.block_of[b]
        if blocks[0] is not blocks[1]:
            return no("they are in different blocks", a, b)
        if blocks[0] not in self._plans:
            return no("their block is the body of a group already", a, b)
        return _apart(self._plans[blocks[0]], *sorted((a, b), key=self._plans[blocks[0]].index.__getitem__))

    def _find(self, subject: Node | Value | str) -> Node | None:
        """The node of the original graph that the subject names; None for a value without a producer."""
        if isinstance(subject, Node):
            found = self._by_id.get(subject.id)
            if found is None:
                what = f"{subject!r} is not a node of graph {self.original.name!r}"
                raise UnknownName(what, hint="ask the graph it came from")
            return found
        if isinstance(subject, str) and "::" in subject and not subject.startswith("%"):
            return self.original.node(subject)
        if isinstance(subject, Value):
            subject = self._sliced.outside_of.get(subject, subject)
        return self.original.producer.get(self.original.value(subject))

    @cached_property
    def _by_id(self) -> dict[int, Node]:
        """The original nodes by id: nodes are rebuilt when they move into a subgraph, but keep their ids."""
        return {node.id: node for node in self.original.nodes()}

    def __repr__(self) -> str:
        count = f"{plural(len(self._sliced.group_of), 'node')} in {plural(len(self.groups), 'group')}"
        return f"<AutodiffSubgraphs of {self.original.name!r}: {count}>"


def _apart(plan: BlockSlices, a: Node, b: Node) -> Verdict:
    """Returns why two differentiable nodes of one block are not in one subgraph; `a` comes first."""
    first, last = plan.index[a], plan.index[b]
    for index in (first, last):
        refusal = plan.left.get(index)
        if refusal is not None:
            return no(
                f"%{plan.rules.graph.names[plan.block.nodes[index].outputs[0]]} was taken out again: {refusal.because}", *refusal.evidence
            )
    if plan.segment[first] != plan.segment[last]:
        between = range(first + 1, last)
        wall = next(plan.block.nodes[i] for i in between if plan.segment[i] < plan.segment[i + 1])
        what = f"{wall.op} is between them and has a side effect, at which subgraphs are cut"
        return no(what, wall, a, b)
    if plan.is_thin(first):
        return no(
            f"between two effects there are fewer than {plan.threshold} nodes that could be in a subgraph; threshold=1 takes them", a, b
        )
    path = plan.settled.obstacle(first, last)
    if path:
        refusal = explain_path(plan.ties, plan.settled, path)
        return no(refusal.because, *refusal.evidence)
    if plan.partition.find(first) == plan.partition.find(last):
        size = len(plan.partition.members(first))
        return no(f"their subgraph would have fewer than {plan.threshold} nodes; threshold={size} keeps it", a, b)
    return no("neither subgraph reads from the other, and only producers are merged with their users", a, b)


@public
def autodiff_subgraphs(graph: Graph, threshold: int = 2, *, requires_grad: Iterable[Value | str] | None = None) -> AutodiffSubgraphs:
    """Put maximal groups of nodes that have gradient formulas into `prim::DifferentiableGraph` nodes.

    Groups have at least `threshold` nodes, constants not counted; nested blocks have their own. `requires_grad` names the
    inputs that require a gradient; without it, an input does unless its type (`requires_grad=0`) or its bound tensor says
    no. A node without an input that may require a gradient stays out. The meaning of the program is preserved.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor, %w : Tensor):
    ...   %a : Tensor = aten::mm(%x, %w)
    ...   %b : Tensor = aten::tanh(%a)
    ...   %c : Tensor = aten::atan2(%b, %b)
    ...   return (%c)''')
    >>> s = autodiff_subgraphs(g)
    >>> print(s.graph)
    graph(%x : Tensor,
          %w : Tensor):
      %b : Tensor = prim::DifferentiableGraph(%x, %w)
        block0(%x.1 : Tensor, %w.1 : Tensor):
          %a : Tensor = aten::mm(%x.1, %w.1)
          %b.1 : Tensor = aten::tanh(%a)
          -> (%b.1)
      %c : Tensor = aten::atan2(%b, %b)
      return (%c)
    >>> print(s.why_not("b", "c"))
    not in one subgraph: there is no gradient formula for aten::atan2
    """
    graph = graph_of(graph, "autodiff_subgraphs")
    if type(threshold) is not int or threshold < 1:
        raise ArgumentError(f"the threshold is a number of nodes from 1, not {threshold!r}", hint="autodiff_subgraphs(graph, threshold=2)")
    asked = None if requires_grad is None else list(_inputs(graph, requires_grad))
    with without_collector():
        return _sliced(graph, threshold, asked)


def _sliced(graph: Graph, threshold: int, requires_grad: list[Value] | None) -> AutodiffSubgraphs:
    started = perf_counter()
    rules = GradientRules(graph, requires_grad)
    owners = {block: graph.owner.get(block) for block in graph.blocks()}
    own = [block for block, owner in owners.items() if owner is None or owner.op in CONTROL_FLOW]  # a group's body belongs to the group
    plans = {block: slice_block(dependences(graph, block), rules, threshold) for block in own}
    slicer = Slicer(list(plans.values()), rules)
    sliced = slicer.carry_out()
    passed = [remark for plan in slicer.plans for remark in _passed(plan, sliced)]
    missed = [remark for plan in slicer.plans for remark in (*_left(plan), *_blocked(plan))]
    remarks = (*passed, *missed, *_without_gradient(slicer.plans))
    record = PassRecord(
        "autodiff-subgraphs", graph, sliced.graph, sliced.edits, remarks, perf_counter() - started,
        lambda count: slicer.carry_out(count).graph,
    )  # fmt: skip
    made = set(sliced.group_of.values())
    groups = tuple(node for node in sliced.graph.nodes() if node in made)
    return AutodiffSubgraphs(sliced.graph, graph, threshold, groups, History(graph, (record,)), rules, plans, sliced)


def _inputs(graph: Graph, names: Iterable[Value | str]) -> Iterator[Value]:
    if isinstance(names, str | Value):
        names = (names,)
    for name in names:
        value = graph.value(name)
        if value not in graph.inputs:
            raise ArgumentError(f"%{graph.names[value]} is not an input", hint="say which inputs require a gradient")
        yield value
