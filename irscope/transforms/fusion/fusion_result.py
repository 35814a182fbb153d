"""The result of a fusion: the groups, their costs, and explanations of why nodes are together or apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from irscope._base.results import Drawn, Verdict, no
from irscope._base.words import listed, plural
from irscope.analysis.alias import AliasDb
from irscope.analysis.per_graph import alias_db_of, assume
from irscope.errors import ArgumentError, UnknownName, public
from irscope.ir import CONTROL_FLOW, GROUPS, Block, Graph, Node, Value, nodes_called
from irscope.ops.accuracy import Exact, is_exact
from irscope.ops.view_steps import Num
from irscope.transforms.base import History, Remark, Unpicklable
from irscope.transforms.fusion.block_plan import BlockPlan, Subject
from irscope.transforms.fusion.domains import DEFAULT_BANDWIDTH
from irscope.transforms.fusion.eligibility import Eligibility
from irscope.transforms.fusion.explain import Cost, group_table, memory_of, program_cost, why_apart
from irscope.transforms.fusion.planning import (
    FusionOptions,
    Named,
    Plans,
    Score,
    Sides,
    Wishes,
    policy_of,
    read_wishes,
    some,
    subject_of,
    with_cause,
)
from irscope.transforms.grouping import Refusal, apart_in_blocks, with_place

if TYPE_CHECKING:
    import pandas as pd

GROUPING = "fuse-groups"
"""The name of the pass in a history that forms the groups."""


@dataclass(frozen=True, eq=False)
class Fusion(Unpicklable, Drawn):
    """A graph with its fusion groups, and the explanations for them."""

    graph: Graph
    """The program with each group as a `prim::FusionGroup` node; the values outside groups are the original ones."""
    original: Graph
    policy: str
    groups: tuple[Node, ...]
    """The group nodes that this pass built, in program order over all blocks."""
    history: History
    """`fold-constants`; `functionalize`, `dce` and `fold-tensors` if they found something to do; then `fuse-groups`, whose
    edits are the merges in the order in which they were decided; then `group-views` if it was wanted and found some."""
    _plans: Plans = field(repr=False)
    _group_of: Mapping[Node, Node] = field(repr=False)
    """Maps each grouped node of the planned graph to its group."""
    _outside_of: Mapping[Value, Value] = field(repr=False)
    """Maps parameters and results inside groups to the outside values that they represent."""
    _again: Callable[[FusionOptions, Graph | None], Fusion] = field(repr=False)
    """Groups the same program, or one with other assumptions about its inputs, by other options."""

    pickle_instead = "pickle f.original and fuse it again, or f.graph, which is the result"

    @property
    def rules(self) -> Eligibility:
        """The properties of the nodes and values of the program, by irscope's rules: sizes, spaces, operations."""
        return self._plans.rules

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The fusions done (`passed`), and those that look possible but were not done (`missed`)."""
        return self.history.remarks

    @cached_property
    def alias_db(self) -> AliasDb:
        """The alias db of the fused graph, which is updated from the original's by the merges."""
        return alias_db_of(self.graph)

    @property
    def exact(self) -> bool:
        """Whether its kernels must return torch's bits."""
        return self._plans.options.exact

    def exactly(self, exact: Exact) -> Fusion:
        """The same program fused by the same policy, with only those ops in kernels that keep torch's bits; this fusion
        itself if `exact` is None, or if it is exact already."""
        return self._again(replace(self._plans.options, exact=True), None) if is_exact(exact) and not self.exact else self

    @property
    def refused(self) -> tuple[Remark, ...]:
        """The forced merges that would be wrong, each with the reason; they are also among the remarks."""
        return tuple(self._plans.refused)

    @public
    def what_if(
        self, *, step: int | None = None, policy: str | Score | None = None, forbid: Iterable[Iterable[Named]] = (),
        force: Iterable[Iterable[Named]] = (), opaque: Iterable[Named] = (), distinct: bool | Iterable[Value | str] | None = None,
        channels_last: Iterable[Value | str] = (),
    ) -> Fusion:  # fmt: skip
        """The same program grouped differently; earlier wishes still apply, except those that the new ones contradict.

        With a `step` of the history, the merges up to it are done first, as here. `policy`, `forbid`, `force` and `opaque` are
        those of `fuse`; a group means its members: `forbid=[f.groups[0]]` takes it apart. `distinct=True` is your promise that no
        two inputs share memory, `False` says that any two may, and names are inputs that share memory with no other;
        `channels_last` inputs have that layout. A merge that would be wrong is not done: `refused` says why.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(1000)):
        ...   %a : Float(1000) = aten::relu(%x)
        ...   %b : Float(1000) = aten::tanh(%a)
        ...   %c : Float(1000) = aten::exp(%b)
        ...   return (%c)''')
        >>> f = irs.fuse(g)
        >>> f.cost(), f.what_if(forbid=[("a", "b")]).cost()
        (Cost(kernels=1, calls=0, bytes=8000), Cost(kernels=1, calls=1, bytes=16000))
        >>> f.what_if(step=1, opaque=["c"]).groups == f.groups, f.what_if(distinct=True).original.distinct_inputs
        (False, True)
        """
        options, graphs = self._plans.options, (self.rules.graph, self.original)
        new, before = read_wishes(self._meant, graphs, forbid, force, opaque), options.wishes
        wishes = Wishes(
            forbid=(*(each for each in before.forbid if not any(self._opposed(each, other) for other in new.force)), *new.forbid),
            force=(*(each for each in before.force if not any(self._opposed(other, each) for other in new.forbid)), *new.force),
            opaque=tuple(dict.fromkeys((*before.opaque, *new.opaque))),
            kept=before.kept if step is None else self._kept(step),
        )
        options = replace(options, wishes=wishes, policy=options.policy if policy is None else policy_of(policy))
        lying = some(channels_last)
        same = distinct is None and not lying
        return self._again(options, None if same else assume(self.original, distinct=distinct, channels_last=lying))

    def _meant(self, named: Named) -> list[Subject]:
        """The nodes that a name means; a group means its members."""
        found = []
        members: Sequence[Named] | None = self._inside(named)
        for each in members or [named]:
            node = self._find(each)
            if not isinstance(node, Verdict):
                found.append(subject_of(self.rules.graph, node))
                continue
            removed = each if isinstance(each, Node) else self._maker(each)
            if removed is None or removed not in self.original.position:
                raise ArgumentError(node.because, hint="name a value that the program computes when it runs")
            found.append(subject_of(self.original, removed))
        return found

    def _opposed(self, apart: Sides, together: tuple[Subject, ...]) -> bool:
        """Whether two nodes that one wish puts together are on two sides of another wish, in the current graph."""

        def now(subject: Subject) -> Node | Verdict:
            return self._find(subject.node.outputs[0] if subject.node.outputs else subject.node)

        place = {now(subject): side for side, several in enumerate(apart) for subject in several}
        return len({place[node] for subject in together if (node := now(subject)) in place}) > 1

    def _kept(self, step: int) -> tuple[tuple[Subject, Subject], ...]:
        """The merges done up to a step of the history. Raises ArgumentError for a step that does not exist."""
        last, plans = self.history.count, self._plans
        if step not in range(-last - 1, last + 1):
            raise ArgumentError(f"there is no step {step!r}", hint=f"the history has steps 0 to {last}")
        done = max(0, step % (last + 1) - self.history.ends[self._fused_at])
        merges = (
            (subject_of(plans.rules.graph, producer), subject_of(plans.rules.graph, consumer))
            for plan in plans.by_block.values() for merge in plan.kept_merges(max(plans.options.min_size, 2))
            for producer, consumer in [plan.nodes(merge.producer, merge.consumer)]
        )  # fmt: skip
        return tuple(islice(merges, done))

    def cost(self) -> Cost:
        """The cost of a run: kernels, library calls, and the bytes that they move; loop bodies count once."""
        return self._cost

    @cached_property
    def _cost(self) -> Cost:
        return program_cost(self.graph, self._members, self.rules)

    @public
    def table(self, bandwidth: str | float = DEFAULT_BANDWIDTH) -> pd.DataFrame:
        """One row per group: its ops, its iteration space, and its cost.

        Bytes before are those that its nodes move if each runs alone: what its operands occupy in memory, each byte once, and its
        results; a write by indices, what these name; a write of a part that became a copy of the whole, that copy. A view moves
        nothing; nor, here, does what copies or not by strides that are not declared. Where a view is an operand, it counts as the bytes
        that it shows. Bytes after are those of the kernel: what it needs of memory that others have made, each byte once, and the
        results that leave it. Where views cut a value that the kernel makes, or too many parts overlap, that is an upper bound. They
        are formulas where extents are unknown. Flops are additions and multiplications, as in a profile: an `exp` counts as the 21 of
        its float32 code. The time is that of moving the bytes at a memory bandwidth, `"20 GB/s"` or a number of bytes per second, which
        the column names: the time of a memory-bound kernel.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(1000, 1000)):
        ...   %a : Float(1000, 1000) = aten::relu(%x)
        ...   %b : Float(1000, 1000) = aten::mul(%a, %x)
        ...   return (%b)''')
        >>> irs.fuse(g).table(bandwidth="10 GB/s").loc[0, ["bytes before", "bytes after", "flops", "µs at 10 GB/s"]].astype(float).tolist()
        [20000000.0, 8000000.0, 2000000.0, 800.0]
        """
        return group_table(self.graph, self._members, self._plans.by_block, self.rules, self.traffic, bandwidth)

    def traffic(self, group: Node | Value | str) -> tuple[Num, Num]:
        """The bytes that a group's nodes move if each runs alone, and those that its kernel moves, as in `table`; of a node, those of
        its group, or twice those that it moves in none. A constant moves none. Raises ArgumentError for an input."""
        node = group if isinstance(group, Node) and group in self._members else self._find(group)
        if isinstance(node, Verdict):
            raise ArgumentError(node.because, hint="ask about a group, or a node that runs")
        node = node if node in self._members else self._group(node) or node
        memory = memory_of(self.rules)
        return memory.traffic(node, self._members[node]) if node in self._members else (memory.alone(node),) * 2

    def group_of(self, subject: Node | Value | str) -> Node | None:
        """The group that contains a node, or the producer of a value; None if there is none."""
        node = self._find(subject)
        return self._group(node) if isinstance(node, Node) else None

    @public
    def made(self, node: Node) -> bool:
        """Whether a node is one of `groups`, in constant time."""
        return node in self._members

    @cached_property
    def _given(self) -> dict[Block, Node | None]:
        """The outermost group or unknown op around each block of the folded graph, other than ifs and loops; None for a block that is
        fused."""
        graph = self.rules.graph
        around: dict[Block, Node | None] = {graph.body: None}
        for node in graph.nodes():  # a node before those of its blocks
            for block in node.blocks:
                around[block] = around[graph.block_of[node]] or (None if node.op in CONTROL_FLOW else node)
        return around

    def _plan_of(self, node: Node) -> BlockPlan:
        return self._plans.by_block[self.rules.graph.block_of[node]]

    def _group(self, node: Node) -> Node | None:
        """The group that contains a node of the folded graph: one that this fusion built, or one that existed before."""
        made = self._group_of.get(node)
        given = self._given[self.rules.graph.block_of[node]] if made is None else None
        return given if given is not None and given.op in GROUPS else made

    @public
    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two nodes (or the producers of two values) are in one group, and why, or what keeps them apart.

        A name may also be that of a module, of an op or of a line (`"blocks.0"`, `"gelu"`, `"model.py:12"`). For these and for groups the
        answer is about members, if possible two of which one feeds the other.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(3)):
        ...   %a : Float(3) = aten::relu(%x)
        ...   %b : Float(3) = aten::tanh(%a)
        ...   return (%b)''')
        >>> print(irs.fuse(g).why_not("a", "b"))
        fused: both are in the fusion group that makes %b
        """
        found = []
        members = self._stand_ins(a, b)
        for subject in members:
            node = self._find(subject)
            if isinstance(node, Verdict):
                return _apart(node.because, *node.witness)
            found.append(node)
        answer = self._why_not(*found, remedy=members == (a, b))
        if not any(isinstance(each, str) and self._inside(each) for each in (a, b)):
            return answer
        asked = " and ".join(map(self.rules.db.node_words, dict.fromkeys(found)))
        return replace(answer, because=f"{answer.because} (asked of {asked})")

    def _stand_ins(self, a: Node | Value | str, b: Node | Value | str) -> tuple[Node | Value | str, Node | Value | str]:
        """The subjects with groups replaced by members: a group is not a node of the planned graph, its members are."""
        one, other = self._inside(a), self._inside(b)
        if one is None and other is None:
            return a, b
        if a is b and one and not isinstance(a, str):
            return one[-1], one[-1]
        graph = self.rules.graph
        left, right = (
            inside or [node for node in [self._find(subject)] if isinstance(node, Node)] for inside, subject in ((one, a), (other, b))
        )
        for first, second in ((left, right), (right, left)):
            order, makers = {node: place for place, node in enumerate(first)}, graph.producer
            fed = ((makers.get(value), user) for user in second for value in user.inputs)
            links = [(order[node], graph.position.get(user, 0), node, user) for node, user in fed if node in order]
            if links:
                *_, node, user = min(links, key=lambda link: link[:2])
                return (node, user) if first is left else (user, node)
        if not left or not right:
            return left[-1] if left else a, right[0] if right else b
        place, ours, theirs, beside = graph.position, set(left), set(right), list[tuple[Node, Node]]()
        for node, user in pairwise(sorted(ours | theirs, key=lambda each: place.get(each, 0))):
            beside += [(x, y) for x, y in ((node, user), (user, node)) if x in ours and y in theirs]
        return min(beside, key=lambda pair: abs(place.get(pair[0], 0) - place.get(pair[1], 0)), default=(left[-1], right[0]))

    def _inside(self, subject: Node | Value | str) -> list[Node] | None:
        """The nodes that a group, or the name of a module, op or line means; None for one node or value."""
        if not isinstance(subject, str):
            return self._members.get(subject) if isinstance(subject, Node) else None
        known = self.original.names.values(), self.graph.names.values()
        if "#" in subject or any(subject.strip().removeprefix("%") in names for names in known):
            return None
        called = nodes_called(self.original, subject)
        return [found for node in called if isinstance(found := self._find(node), Node)] or [*called] or None

    def _why_not(self, a: Node, b: Node, *, remedy: bool = False) -> Verdict:
        if a is b:
            return _fused("they are the same node", a)
        found = self._obstacle(a, b, remedy=remedy)
        if found is None:
            group = self._group(a)
            assert group is not None  # nothing keeps them apart
            names = listed(group.outputs, lambda value: f"%{self.graph.names[value]}")
            return _fused(f"both are in the fusion group that makes {names}", group, a, b)
        return _apart(with_place(self.rules.db.node_words, found), *found.evidence)

    def obstacle(self, a: Node | Value | str, b: Node | Value | str) -> Refusal | None:
        """The obstacle that keeps two nodes apart, with the stable name of its rule; None for nodes of one group.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(3)):
        ...   %a : Float(3) = aten::relu(%x)
        ...   %b : Float(3), %i : Long(3) = aten::sort(%a)
        ...   return (%b)''')
        >>> irs.fuse(g).obstacle("a", "b").rule
        'not-pointwise'
        """
        nodes = []
        for subject in self._stand_ins(a, b):
            node = self._find(subject)
            if isinstance(node, Verdict):
                return Refusal("no-node", node.because, node.witness)
            nodes.append(node)
        return self._obstacle(*nodes)

    def _obstacle(self, a: Node, b: Node, *, remedy: bool = False) -> Refusal | None:
        group = self._group(a)
        if a is b or (group is not None and group is self._group(b)):
            return None
        options = self._plans.options
        min_size = options.min_size if remedy else None
        return self._never(a, b) or why_apart(self._plan_of(a), options.policy, a, b, min_size=min_size)

    def _never(self, a: Node, b: Node) -> Refusal | None:
        """Why two nodes can be in one group by no policy: one is in a group that was given, or unfit, or they are in different blocks."""
        folded = self.rules.graph
        for node in (a, b):
            given = self._given[folded.block_of[node]]
            if given is not None:
                what = f"{self.rules.db.node_words(node)} is inside {given.op}, which the program had already and which stays as it is"
                return Refusal("given-group", what, (node, given))
        for node in (a, b):
            refusal = self._plans.refusal(node)
            if refusal is not None:
                return with_cause(folded, node, refusal)
        return apart_in_blocks(folded, self.rules.db.node_words, a, b)

    def why_alone(self, subject: Node | Value | str) -> Verdict:
        """Why a node is in no group: a property of its own, or what keeps it apart from a neighbour that could be fused."""
        node = self._find(self._stand_ins(subject, subject)[0])
        if isinstance(node, Verdict):
            return _apart(node.because, *node.witness)
        graph, group = self.rules.graph, self._group(node)
        if group is not None and group.attrs.get("kind") == "view":
            return _fused("it is in a group of views, which needs no kernel", group, node)
        if group is not None and len(self._members.get(group, ())) == 1:
            return _fused("it is a kernel of its own, so that all of a turn of its loop is kernels", group, node)
        if group is not None and group not in self._members:
            return _fused("it is in a group that the program had already", group, node)
        if group is not None:
            names = listed(group.outputs, lambda value: f"%{self.graph.names[value]}")
            return _fused(f"it is in the fusion group that makes {names}", group, node)
        refusal = self._plans.refusal(node)
        if refusal is not None:
            refusal = with_cause(graph, node, refusal)
            return _apart(refusal.because, *refusal.evidence)
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        for user in users:  # a view only joins what reads it
            if isinstance(user, Node) and self.rules.is_view(user):
                users += [use.user for value in user.outputs for use in graph.users.get(value, ())]
        beside = [other for other in (*users, *map(graph.producer.get, node.inputs)) if isinstance(other, Node)]
        for other in sorted(beside, key=self.rules.is_view):
            if self.rules.refusal(other) is None:
                return self._why_not(node, other)
        return _apart("none of its producers and users can be part of a kernel", node)

    def _find(self, subject: Node | Value | str) -> Node | Verdict:
        """The node of the folded graph that the subject names, or why there is none."""
        node = subject if isinstance(subject, Node) else self._maker(subject)
        if node is None:
            name = subject if isinstance(subject, str) else repr(subject)
            return no(f"%{name.removeprefix('%')} is an input or a block parameter: it has no producer", subject).in_words("", "not fused")
        found = self._by_id.get(node.id) or (self._twin(node) if node in self.original.position else None)
        if found is None and node not in self.original.position and node not in self.graph.position:
            what = f"{node!r} is not a node of graph {self.original.name!r}"
            raise UnknownName(what, hint="ask the graph it came from")
        if found is None:
            return no(self._where_gone(node), node).in_words("", "not fused")
        return found

    def _where_gone(self, node: Node) -> str:
        """What became of a node of the program that its folded graph does not have."""
        graph, name = self.rules.graph, alias_db_of(self.original).node_words(node)
        kept = [self.history.forward(value, 0, self._fused_at) for value in node.outputs]
        new = next((value for value in kept if value is not None), None)
        if new is None:
            return f"{name} is gone: its result was known before the run, or unused"
        maker = graph.producer.get(new)
        if maker is not None and maker.op == "prim::Constant":
            return f"{name} is gone: its result is the constant %{graph.names[new]}, known before the run"
        return f"{name} is gone: its result is %{graph.names[new]}; ask about that one"

    def _maker(self, subject: Value | str) -> Node | None:
        """The producer of a value of the original or the fused graph, or the node of the given name."""
        if isinstance(subject, str) and "::" in subject and not subject.startswith("%"):
            return self.original.node(subject)
        try:
            value = self.original.value(subject)
        except UnknownName as unknown:
            try:
                value = self.graph.value(subject)
            except UnknownName:
                raise unknown from None
        value = self._outside_of.get(value, value)
        kept = self.history.forward(value, 0, self._fused_at) or value
        made = self.original.producer.get(value)
        return self.rules.graph.producer.get(kept) or (made and self._twin(made)) or made

    def _twin(self, write: Node) -> Node | None:
        """The functional variant that took the place and the name of an in-place op; None if there is none."""
        planned, names = self.rules.graph, [self.original.names[value] for value in write.outputs]
        found = planned.producer.get(planned.value(names[0])) if names and names[0] in planned.names.values() else None
        return found if found is not None and found.op == write.op.removesuffix("_") != write.op else None

    @property
    def _fused_at(self) -> int:
        """The number of passes that ran before the groups were formed."""
        return next(step for step, record in enumerate(self.history.records) if record.name == GROUPING)

    @cached_property
    def _by_id(self) -> dict[int, Node]:
        """The planned nodes by id: nodes are rebuilt when their operands or blocks change, but keep their ids."""
        return {node.id: node for node in self.rules.graph.nodes()}

    @cached_property
    def _members(self) -> dict[Node, list[Node]]:
        members: dict[Node, list[Node]] = {group: [] for group in self.groups}
        for node in self.rules.graph.nodes():
            group = self._group_of.get(node)
            if group is not None:
                members[group].append(node)
        return members

    def __repr__(self) -> str:
        nodes = sum(map(len, self._members.values()))
        given = sum(node.op in GROUPS and node not in self._members for node in self.graph.nodes())
        more = f", {plural(given, 'group')} given" if given else ""
        return f"<Fusion of {self.original.name!r}: {plural(nodes, 'node')} in {plural(len(self.groups), 'group')}{more}>"


def _fused(because: str, *witness: Any) -> Verdict:
    return Verdict(True, because, witness, "fused")


def _apart(because: str, *witness: Any) -> Verdict:
    return Verdict(False, because, witness, "not fused")
