"""Groups that another compiler formed, as a `Fusion`: what explores, runs, measures or compares fusions takes them like irscope's own.

Nothing of the other compiler is believed. Its groups are sets of nodes of one graph. A node may be in several of them: then that compiler
computes it in each, and so does the program here, after a pass that puts copies beside the node. Copies are made of ops without effects
only, directly behind the node that they copy, so that operands and memory are the same there, and no reader sees a difference. Then the
groups are contracted under irscope's own dependences. They are built only if the contraction is acyclic, which is what makes the order in
which they run right, whatever order the other compiler had (`irscope.transforms.grouping`).

Why two nodes are apart is asked in this order: the other compiler's own reason, if it gave one; then irscope's rules, on irscope's groups
inside the given ones. Each answer says whose it is.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from irscope._base.frozen import FrozenDict
from irscope._base.nested import grouped
from irscope._base.results import Verdict
from irscope._base.running import without_collector
from irscope._base.words import listed, plural
from irscope.analysis.dependence import Dependences, dependences
from irscope.errors import ArgumentError, PassError
from irscope.ir import Block, Created, Edit, Graph, Merged, Node, Rewriter, Value, make_value, new_id
from irscope.ops.registry import category_of, effect_of
from irscope.ops.view_steps import Num, byte_words, is_unknown
from irscope.transforms.base import History, PassRecord, Remark
from irscope.transforms.fusion.block_plan import PlacedWishes, Subject
from irscope.transforms.fusion.explain import Cost, memory_of
from irscope.transforms.fusion.fuse_pass import form_groups, prepare
from irscope.transforms.fusion.fusion_result import GROUPING, Fusion
from irscope.transforms.fusion.outline import copies_of
from irscope.transforms.fusion.planning import FusionOptions, Plans, Policy, place_wishes, plans_of
from irscope.transforms.grouping import Partition, Refusal, explain_path, outline_nodes, outside_names, unused_constants, with_groups


@dataclass(frozen=True, slots=True)
class GivenGroup:
    """One kernel of another compiler, as nodes of the program that it compiled."""

    name: str
    """The kernel's name in that compiler."""
    nodes: tuple[Node, ...]
    """The nodes that it computes, all in one block."""
    is_library: bool = False
    """Whether it is a call of a library. A call that computes one node stays that node, as in irscope's own fusions."""
    stores: frozenset[Node] | None = None
    """The nodes whose results it writes to memory, if that compiler says so; None: those that others read."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a compiler did not make one kernel of two parts of a program."""

    a: frozenset[Node]
    b: frozenset[Node]
    because: str
    """The reason, in terms of the program's nodes."""
    said: str = ""
    """The compiler's own words, if they are others."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GivenFusion(Fusion):
    """A program with the groups of another compiler, whose name is the `policy`."""

    group_nodes: tuple[Node | None, ...]
    """The group node of each group that was given, in that order; None for a library call of one node."""
    reasons: tuple[Reason, ...] = ()
    silence: str = "gave no reason"
    """What is said of the compiler where it has no reason: `never tried it` if it tells of every pair that it tried."""
    told_cost: Cost | None = None
    """What that compiler's kernels cost, where some are no groups: an op whose parts others write in place is no call."""
    told_bytes: Mapping[Node, Num] = field(default_factory=FrozenDict)
    """For a group, the bytes that its kernel moves, as that compiler or its reader counts them."""
    assembled: frozenset[Node] = frozenset()
    """Nodes that no kernel computes, because those of their operands write the result, each its part: a `cat`."""
    _copies: Mapping[Node, tuple[Node, ...]] = field(repr=False)
    """The nodes of the planned graph that compute a node of the original, if these are not just that node."""

    def cost(self) -> Cost:
        """The cost of a run as that compiler runs it."""
        return self.told_cost or super().cost()

    def traffic(self, group: Node | Value | str) -> tuple[Num, Num]:
        """The bytes that a group's nodes move if each runs alone, and those that its kernel moves, as that compiler runs it."""
        before, after = super().traffic(group)
        return before, next((self.told_bytes[each] for each in self.groups_of(group) if each in self.told_bytes), after)

    def groups_of(self, subject: Node | Value | str) -> tuple[Node, ...]:
        """All groups that compute a node: several if that compiler computes it again instead of reading it."""
        found = (self._group(node) for node in self._computing(subject))
        return tuple(dict.fromkeys(group for group in found if group is not None))

    @cached_property
    def known_kernels(self) -> dict[Node, Set[Node]]:
        """The answers of `kernels_of` so far: an op that a thousand kernels compute is asked of with each of its users."""
        return {}

    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two nodes are in one kernel of that compiler; if not, its own reason, or else what irscope's rules say."""
        others = {self._group(node): node for node in self._computing(b)}
        for node in self._computing(a):
            group = self._group(node)
            if group is not None and group in others:
                return self._why_not(node, others[group])
        return super().why_not(a, b)

    def _computing(self, subject: Node | Value | str) -> Sequence[Node]:
        """The nodes of the planned graph that compute a node, or the members of a group."""
        node = self._find(subject) if self._inside(subject) is None else None
        return self._inside(subject) or (self._copies.get(self._source(node), (node,)) if isinstance(node, Node) else ())

    def _source(self, node: Node) -> Node:
        """The node of the original graph that a node of the planned graph is, or is a copy of."""
        return self._sources.get(node, node)

    @cached_property
    def _sources(self) -> Mapping[Node, Node]:
        return {copy: node for node, copies in self._copies.items() for copy in copies}

    def _kept(self, step: int) -> tuple[tuple[Subject, Subject], ...]:
        what = f"the groups are those of {self.policy}, which irscope did not form merge by merge"
        raise ArgumentError(what, hint='leave step out; policy="greedy" groups the same program by irscope\'s rules')

    def _obstacle(self, a: Node, b: Node, *, remedy: bool = False) -> Refusal | None:
        group = self._group(a)
        if a is b or (group is not None and group is self._group(b)):
            return None
        told = self._told(a, b)
        tried = told is not None and told.because.startswith("it tried")  # and said nothing
        if told is not None and not tried:
            return Refusal("told", f"{self.policy} says: {told.because}", (a, b))
        silence = told.because[3:] if told is not None else self.silence
        found = self._never(a, b) or self._by_rules(a, b)
        if found is not None:
            return Refusal(found.rule, f"{self.policy} {silence}; by irscope's rules, {found.because}", found.evidence)
        plan = self._plan_of(a)
        candidate = plan.candidate(*sorted((plan.index[a], plan.index[b])))
        waste = candidate.waste()
        if waste is not None:
            return Refusal(waste.rule, f"{self.policy} {silence}; {waste.because}", waste.evidence)
        kernels = ([node] if (group := self._group(node)) is None else self._members[group] for node in (a, b))
        saving = memory_of(plan.rules).saved_by_one(plan, *([plan.index[node] for node in nodes] for nodes in kernels))
        saves = f"would save {byte_words(saving)}" if saving != 0 else "would save nothing"
        saves = "saves what is not known" if is_unknown(saving) else saves
        rule = "told" if tried else "not-tried"
        return Refusal(rule, f"it is legal by irscope's rules, and {self.policy} {silence}; one kernel {saves}", (a, b))

    def _by_rules(self, a: Node, b: Node) -> Refusal | None:
        """What forbids a kernel of two nodes' kernels: a path between them, or else what keeps irscope's groups inside them apart."""
        plan = self._plan_of(a)
        ends = [self._group(node) or node for node in (a, b)]
        place, ties, parts = self._laid_out.get(plan.block.id) or ({}, None, None)
        if ties is not None and parts is not None and all(node.id in place for node in ends):
            path = parts.obstacle(*(place[node.id] for node in ends))
            if path:
                return explain_path(ties, parts, path)
        return plan.obstacle(*sorted((plan.index[a], plan.index[b])))

    @cached_property
    def _laid_out(self) -> Mapping[int, tuple[Mapping[int, int], Dependences, Partition]]:
        """For each block with groups, by its id: the places of its nodes, by theirs, what each comes after, and paths between them."""
        planned = {block.id for block in self._plans.by_block}
        found = {}
        for block in self.graph.blocks():
            if block.id in planned:
                ties = dependences(self.graph, block)
                found[block.id] = {node.id: index for index, node in enumerate(block.nodes)}, ties, Partition(ties.before)
        return found

    def _told(self, a: Node, b: Node) -> Reason | None:
        """The compiler's reason for two nodes: that about the fewest nodes, or else one about the kernels that they are in."""
        found = self._reasons_for([a], [b])
        if not found:
            one, other = ([node] if (group := self._group(node)) is None else self._members.get(group, [node]) for node in (a, b))
            found = self._reasons_for(one, other)
        return min(found, key=lambda reason: len(reason.a) + len(reason.b), default=None)

    def _reasons_for(self, one: Iterable[Node], other: Iterable[Node]) -> list[Reason]:
        ids = [{self._source(node).id for node in side} for side in (one, other)]
        places = [{place for id in side for place in self._reasons_by_id.get(id, ())} for side in ids]
        sides = [(self.reasons[place], {node.id for node in self.reasons[place].a}) for place in sorted(places[0] & places[1])]
        return [reason for reason, a in sides if any(ids[k] & a and ids[1 - k] & {node.id for node in reason.b} for k in (0, 1))]

    @cached_property
    def _reasons_by_id(self) -> Mapping[int, Sequence[int]]:
        return grouped((node.id, place) for place, reason in enumerate(self.reasons) for node in reason.a | reason.b)


def given_fusion(
    graph: Graph, groups: Iterable[GivenGroup], *, compiler: str, reasons: Iterable[Reason] = (), silence: str = "gave no reason",
) -> GivenFusion:  # fmt: skip
    """The program with groups that another compiler formed; nodes that several groups compute are computed in each.

    A group takes the lists that its nodes read along, and what unpacks their results. Raises PassError if the groups cannot run one
    after the other, or if a group computes again what has an effect.
    """
    merges_nothing = Policy(compiler, lambda plan: None, None)
    with without_collector():
        found = [replace(group, nodes=_completed(graph, group)) for group in groups]
        return _given(graph, found, FusionOptions(merges_nothing, min_size=1), tuple(reasons), silence, ())


def _completed(graph: Graph, group: GivenGroup) -> tuple[Node, ...]:
    """A group's nodes in program order, with the lists that they read and the nodes that unpack their results; without constants."""
    found = {node for node in group.nodes if node.op != "prim::Constant"}
    blocks = {graph.block_of[node] for node in found}
    if len(blocks) > 1:
        raise PassError(f"the nodes of {group.name} are in different blocks", rule="one-block")
    for node in list(found):
        made = (graph.producer.get(value) for value in node.inputs)
        used = (use.user for value in node.outputs for use in graph.users.get(value, ()))
        found.update(each for each in made if each is not None and each.op == "prim::ListConstruct" and graph.block_of[each] in blocks)
        found.update(each for each in used if isinstance(each, Node) and each.op == "prim::ListUnpack")
    return tuple(sorted(found, key=graph.position.__getitem__))


# The pass that puts copies of what several groups compute beside the original.


class _Copying:
    """Who computes each node: the node of each group that has one, and the node whose result all others read."""

    def __init__(self, graph: Graph, groups: Sequence[GivenGroup]) -> None:
        self.graph = graph
        self.groups = groups
        self.holders: dict[Node, list[int]] = {}
        for index, group in enumerate(groups):
            for node in group.nodes:
                self.holders.setdefault(node, []).append(index)
        self.members: list[list[Node]] = [[] for _ in groups]
        """The nodes of each group in the graph with copies, in program order."""
        self.copies: dict[Node, tuple[Node, ...]] = {}
        self._edits: dict[Block, list[Edit]] = {}
        self._renamed: list[dict[Value, Value]] = [{} for _ in groups]
        """For each group, the results of its own copies by those of the originals."""
        self._staying: set[Node] = set()
        """Nodes that stay outside of all groups, beside the copies in these, for others that read them."""
        self.history = self._carried_out()

    def _carried_out(self) -> History:
        """The history with the pass that makes the copies, if there are any."""
        for node in reversed([*self.graph.nodes()]):  # what stays keeps its operands
            holders = self.holders.get(node, ())
            if holders and self._keeper(node, holders) is None:
                self._staying.add(node)
        rewriter = Rewriter(self.graph)
        for block in dict.fromkeys(self.graph.block_of[node] for node in self.holders):
            nodes = [made for node in block.nodes for made in self._of(node)]
            if self._edits.get(block):
                rewriter.set_nodes(block, nodes, self._edits[block])
        after, edits = rewriter.finish(), rewriter.edits
        remarks = [Remark("passed", "recomputed", edit.node, edit.reason) for edit in edits if isinstance(edit, Created)]
        record = PassRecord("recompute", self.graph, after, edits, tuple(remarks))
        return History(self.graph, () if after is self.graph else (record,))

    def _of(self, node: Node) -> list[Node]:
        """The node, in its place, and the copies behind it."""
        holders = self.holders.get(node, [])
        keeper = self._keeper(node, holders)
        is_pure = effect_of(node) in ("pure", "view") and category_of(node) != "random" and not node.blocks
        if holders and (len(holders) > 1 or keeper is None) and not is_pure:
            names = listed([self.groups[group].name for group in holders])
            what = f"{node!r} is computed in {names} and read elsewhere, and has an effect, or may have one: it cannot be computed twice"
            raise PassError(what, rule="copies-are-pure")
        made = [node]
        if keeper is not None:
            inputs = self._own_operands(node, keeper)
            made = [node if inputs == node.inputs else replace(node, inputs=inputs)]
            self.members[keeper] += made
        for group in holders:
            if group != keeper:
                made.append(self._copy(node, group))
                self.members[group].append(made[-1])
        if holders and made != [node]:
            self.copies[node] = tuple(made)
        return made

    def _keeper(self, node: Node, holders: Sequence[int]) -> int | None:
        """The group whose result others read; None if no group stores it and others read it."""
        here = set(holders)
        users = [use.user for value in node.outputs for use in self.graph.users.get(value, ())]
        is_inside = all(
            isinstance(user, Node) and user not in self._staying and here.issuperset(self.holders.get(user, (-1,))) for user in users
        )
        if not holders or is_inside:
            return holders[0] if holders else None
        storing = (group for group in holders if node in (self.groups[group].stores or ()))
        silent = (group for group in holders if self.groups[group].stores is None)
        return next(storing, next(silent, None))

    def _own_operands(self, node: Node, group: int) -> tuple[Value, ...]:
        """The operands of a node, with the copies of those that its group computes itself."""
        own = self._renamed[group]
        return tuple([own.get(value, value) for value in node.inputs])

    def _copy(self, node: Node, group: int) -> Node:
        outputs = tuple([make_value(new_id(), value.type, value.name) for value in node.outputs])
        made = replace(node, id=new_id(), inputs=self._own_operands(node, group), outputs=outputs)
        self._renamed[group].update(zip(node.outputs, outputs, strict=True))
        names = listed(node.outputs, lambda value: f"%{self.graph.names[value]}")
        reason = f"{self.groups[group].name} computes {names} itself instead of reading it"
        self._edits.setdefault(self.graph.block_of[node], []).append(Created(made, reason))
        return made


# Building the groups.


def _given(
    graph: Graph, groups: Sequence[GivenGroup], options: FusionOptions, reasons: tuple[Reason, ...], silence: str, refused: Sequence[Remark]
) -> GivenFusion:  # fmt: skip
    compiler = options.policy.name
    copying = _Copying(graph, groups)
    plans = plans_of(copying.history, replace(options, wishes=FusionOptions().wishes))
    plans = replace(plans, options=options, refused=tuple(refused))
    built = _Building(plans, groups, copying.members, compiler)
    after, edits = built.grouped()
    merges = [edit for edit in edits if isinstance(edit, Merged)]
    remarks = [Remark("passed", edit.group.attrs["kind"], edit.group, edit.reason, edit.group.outputs) for edit in merges]

    def saved(merge: Merged) -> Num:
        before, after = memory_of(plans.rules).traffic(merge.group, merge.nodes)
        return before - after

    def again(options: FusionOptions, assumed: Graph | None) -> Fusion:
        """The same program by another policy, or with some of the given groups taken apart or joined."""
        program = assumed or graph
        with without_collector():
            if options.policy.name != compiler:
                history = prepare(program, options)
                return form_groups(history, plans_of(history, options))
            if options.exact:
                what = f"the groups are those of {compiler}, and not all of them have kernels that keep torch's bits"
                raise ArgumentError(what, hint='irs.fuse(f.original, exact="torch") forms groups that do')
            by_id = {node.id: node for node in program.nodes()}
            here = [
                replace(
                    group, nodes=tuple(by_id[node.id] for node in group.nodes),
                    stores=None if group.stores is None else frozenset(by_id[node.id] for node in group.stores),
                )
                for group in groups
            ]  # fmt: skip
            found, refused = _by_wishes(program, here, place_wishes(options.wishes, History(program)))
            return _given(program, found, options, reasons, silence, refused)

    told = (*remarks, *plans.refused)
    record = PassRecord(GROUPING, plans.rules.graph, after, edits, told, 0.0, lambda count: built.grouped(count)[0], saved)
    group_nodes = tuple(built.nodes)
    made = {node for node in group_nodes if node is not None}
    return GivenFusion(
        after, graph, compiler, tuple(node for node in after.nodes() if node in made), copying.history.then(record), plans,
        {node: edit.group for edit in merges for node in edit.nodes}, built.outside_of, again,
        group_nodes=group_nodes, reasons=reasons, silence=silence, _copies=copying.copies,
    )  # fmt: skip


class _Building:
    """The group nodes of one graph, and the graph after any number of them."""

    def __init__(self, plans: Plans, groups: Sequence[GivenGroup], members: Sequence[Sequence[Node]], compiler: str) -> None:
        self.plans = plans
        self.graph = graph = plans.rules.graph
        self.members = members
        self.compiler = compiler
        self.outside_of: dict[Value, Value] = {}
        """Maps parameters and results inside groups to the outside values that they represent."""
        is_built = [len(inside) > group.is_library for group, inside in zip(groups, members, strict=True)]
        self._order = sorted((k for k, built in enumerate(is_built) if built), key=lambda k: graph.position[members[k][-1]])
        _check_order(graph, [(groups[k].name, members[k]) for k in self._order])
        self.nodes = [self._outlined(group, members[k]) if is_built[k] else None for k, group in enumerate(groups)]

    def _outlined(self, group: GivenGroup, members: Sequence[Node]) -> Node:
        """One group node; irscope's own groups inside it are merged in the plan, for questions about it."""
        rules, plan = self.plans.rules, self.plans.by_block[self.graph.block_of[members[-1]]]
        inside = {plan.index[node] for node in members}
        for index in sorted(inside):
            for producer in plan.producers(index) if plan.fusible[index] else ():
                if producer in inside and plan.partition.find(producer) != plan.partition.find(index):
                    plan.try_merge(plan.candidate(producer, index))
        kind = "library" if group.is_library else "reduction" if any(map(rules.axes, members)) else "pointwise"
        attrs: FrozenDict[str, str] = FrozenDict(kind=kind, kernel=group.name)
        made = outline_nodes("prim::FusionGroup", members, plan.leaving(members), copies_of(rules.known), attrs=attrs)
        self.outside_of |= outside_names(made)
        return made

    def grouped(self, count: int | None = None) -> tuple[Graph, tuple[Edit, ...]]:
        """The graph with the first groups only, or all. Leaving groups out closes no cycle: see `BlockPlan.schedule_after`."""
        groups = {self.members[k][-1]: (self.nodes[k], self.members[k]) for k in self._order[:count]}
        scheduled: dict[Block, Sequence[Node]] = {}
        merged: dict[Block, list[Edit]] = {}
        for last, (group, members) in groups.items():
            assert group is not None  # `_order` has those with a node
            reason = f"{self.compiler} computes {plural(len(members), 'node')} in {group.attrs['kernel']}"
            merged.setdefault(self.graph.block_of[last], []).append(Merged(tuple(members), group, reason, "given"))
        for block in merged:
            order = _partition(self.graph, block, [members for _, members in groups.values()]).schedule()
            nodes = [block.nodes[part[-1]] for part in order]
            scheduled[block] = [groups[node][0] or node if node in groups else node for node in nodes]
        taken = [node for _, members in groups.values() for node in members]
        unused = unused_constants(self.graph, taken, self.plans.rules.is_known, self.plans.profiles.readings)
        return with_groups(self.graph, scheduled, merged, unused)


def _partition(graph: Graph, block: Block, groups: Iterable[Sequence[Node]]) -> Partition:
    """The block's nodes with the groups among them united."""
    parts, index = Partition(dependences(graph, block).before), {node: place for place, node in enumerate(block.nodes)}
    for members in groups:
        for node in members[1:] if members[0] in index else ():
            parts.unite(index[members[0]], index[node])
    return parts


def _check_order(graph: Graph, groups: Sequence[tuple[str, Sequence[Node]]]) -> None:
    """Raises PassError if the groups cannot run one after the other."""
    name_of = {node: name for name, members in groups for node in members}
    for block in dict.fromkeys(graph.block_of[members[0]] for _, members in groups):
        stuck = _partition(graph, block, [members for _, members in groups]).stuck()
        names = list(dict.fromkeys(name_of[block.nodes[part[0]]] for part in stuck if block.nodes[part[0]] in name_of))
        if stuck:
            what = f"{listed(names)} cannot run one after the other: each needs what another of them makes, or reads what it overwrites"
            raise PassError(what, rule="acyclic-groups")


# Other groups by a user's wishes.


def _by_wishes(graph: Graph, groups: Sequence[GivenGroup], wishes: PlacedWishes) -> tuple[list[GivenGroup], list[Remark]]:
    """The groups without opaque nodes, without those that hold what was to be apart, and with those joined that were to be together."""
    found: list[GivenGroup] = []
    refused: list[Remark] = []
    for group in groups:
        nodes = tuple(node for node in group.nodes if node not in wishes.opaque)
        sides: dict[int, set[int]] = {}
        for node in nodes:
            for mark, side in wishes.apart.get(node, {}).items():
                sides.setdefault(mark, set()).add(side)
        if nodes and all(len(several) == 1 for several in sides.values()):
            found.append(replace(group, nodes=nodes))
    for several in wishes.together:
        wanted = set(several)  # a call of a library is replaced if all of it is wanted; of a larger one the kernel computes a part again
        touched = [group for group in found if not wanted.isdisjoint(group.nodes)]
        joined = [group for group in touched if not group.is_library or wanted.issuperset(group.nodes)]
        nodes = tuple(sorted({*several, *(node for group in joined for node in group.nodes)}, key=graph.position.__getitem__))
        stores = [group.stores for group in joined if group.stores is not None]
        name = " + ".join(group.name for group in joined if not group.is_library) or "joined"
        one = GivenGroup(name, nodes, stores=frozenset[Node]().union(*stores) if stores else None)
        trial = [*(group for group in found if group not in joined), one]
        try:
            copying = _Copying(graph, trial)
            named = zip((group.name for group in trial), copying.members, strict=True)
            _check_order(copying.history.final, [(name, inside) for name, inside in named if inside])
        except PassError as error:
            refused.append(Remark("missed", error.rule, several[-1], f"they cannot be in one kernel, as you wanted: {error.what}", several))
        else:
            found = trial
    return found, refused
