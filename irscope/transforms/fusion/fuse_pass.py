"""Which ops run as one kernel, why the rest do not, and the graph in which each group is one node with a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from irscope._base.concurrency.cached import cached_property
from irscope._base.concurrency.restored import without_collector
from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import plural
from irscope.analysis.alias.query import AliasDb
from irscope.analysis.shapes import Shapes, infer
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import CONTROL_FLOW, GROUPS, Block, Graph, Node, Value, count_uses
from irscope.ops.exactness import Exact, is_exact
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.cleanup.fold import fold
from irscope.transforms.cleanup.fold_tensors import fold_tensors
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion.explain import DEFAULT_BANDWIDTH, group_table, remarks_of, same_group, why_apart
from irscope.transforms.fusion.explain.why_not import given_group
from irscope.transforms.fusion.legality import Eligibility, NodeProfiles
from irscope.transforms.fusion.outline import (
    AliasMaintenance,
    Grouped,
    Groups,
    Upkeep,
    check_following,
    group_views,
    split_chains,
    upkeep_of,
    written_in_parts,
)
from irscope.transforms.fusion.policy import BlockPlan, Candidate, Limits, Policy, Score, policy_of
from irscope.transforms.grouping import Refusal
from irscope.transforms.history import History

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Candidate", "Fusion", "fuse"]

MAX_ARGUMENTS = 128
"""Inputs and outputs of one kernel at most, as in PyTorch's fuser."""
MAX_NODES = 512
"""Nodes of one kernel at most: a chain of 2,000 in one kernel took 2.5 s to compile, in four a tenth of that each."""


@dataclass(frozen=True)
class _Plans:
    """What was decided, kept for later questions."""

    rules: Eligibility
    by_block: dict[Block, BlockPlan]
    grouped: Grouped
    groups: Groups
    policy: Policy
    upkeep: Upkeep
    made: Callable[..., Fusion]
    """Plans anew, with other `exact`."""


@dataclass(frozen=True, eq=False)
class Fusion:
    """A graph with its fusion groups, and the answers to why they are as they are."""

    graph: Graph
    """The program with each group as a `prim::FusionGroup` node; the values outside groups are the original ones."""
    original: Graph
    policy: str
    groups: tuple[Node, ...]
    """The group nodes that this pass made, in program order over all blocks."""
    history: History
    """`fold-constants`; `functionalize`, `remove-dead-nodes` and `fold-tensors` if they found something to do; then `fuse`,
    whose edits are the merges in the order in which they were decided; then `group-views` if it was wanted and found some."""
    _plans: _Plans = field(repr=False)

    def __deepcopy__(self, memo: object) -> Fusion:
        return self  # it is frozen, as is all that it holds

    def __reduce__(self) -> str:
        what = "a Fusion cannot be pickled: it answers questions from what is known of the ops in this process"
        raise ArgumentError(what, hint="pickle f.original and fuse it again, or f.graph, which is the result")

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was fused (`passed`) and what was not though it looks as if it could (`missed`)."""
        return self.history.remarks

    @cached_property
    def alias_db(self) -> AliasDb:
        """The alias db of the fused graph."""
        fuse, *later = self.history.records[self._fused_at :]
        db = self._plans.upkeep.of(fuse)
        for record in later:
            db = db.follow(record)
        return db

    @property
    def exact(self) -> bool:
        """Whether its kernels are to give torch's bits."""
        return self._plans.rules.exact

    def exactly(self, exact: Exact) -> Fusion:
        """The same program fused by the same policy, with only those ops in kernels that have torch's bits there; itself if
        `exact` is None, or if it was made so."""
        plans = self._plans
        return plans.made(exact=True) if is_exact(exact) and not plans.rules.exact else self

    def table(self, bandwidth: str | float = DEFAULT_BANDWIDTH) -> pd.DataFrame:
        """One row per group: what it computes, over which points, and what that costs.

        Bytes before are those that its nodes move if each runs alone, bytes after those of the kernel; only tensors of
        known size count. Flops are the operations in the ops' expressions, an `exp` as one. The time is that of the
        bytes at a memory bandwidth, `"20 GB/s"` or a number of bytes per second, which the column names: the time of
        a kernel that only waits for memory.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(1000, 1000)):
        ...   %a : Float(1000, 1000) = aten::relu(%x)
        ...   %b : Float(1000, 1000) = aten::mul(%a, %x)
        ...   return (%b)''')
        >>> irs.fuse(g).table(bandwidth="10 GB/s").loc[0, ["bytes before", "bytes after", "flops", "µs at 10 GB/s"]].tolist()
        [20000000.0, 8000000.0, 2000000.0, 800.0]
        """
        plans = self._plans
        return group_table(self.graph, self._members, plans.by_block, plans.rules, bandwidth)

    def group_of(self, subject: Node | Value | str) -> Node | None:
        """The group that a node, or the maker of a value, is in."""
        node = self._find(subject)
        return self._group(node) if isinstance(node, Node) else None

    def made(self, node: Node) -> bool:
        """Whether a node is one of `groups`, in constant time."""
        return node in self._members

    def _group(self, node: Node) -> Node | None:
        """The group that a node of the folded graph is in: one that was made, or one that stood there before."""
        made = self._plans.grouped.group_of.get(node)
        given = given_group(self._plans.rules.graph, node) if made is None else None
        return given if given is not None and given.op in GROUPS else made

    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two nodes (or the makers of two values) are in one group, and why, or what keeps them apart."""
        found = []
        for subject in (a, b):
            node = self._find(subject)
            if isinstance(node, Verdict):
                return node
            found.append(node)
        return self._why_not(*found)

    def _why_not(self, a: Node, b: Node) -> Verdict:
        if a is b:
            return yes("they are the same node", a)
        found = self._obstacle(a, b)
        if found is None:
            group = self._group(a)
            assert group is not None  # nothing keeps them apart
            return same_group(group, a, b, self.graph)
        return no(found.because, *found.evidence)

    def obstacle(self, a: Node | Value | str, b: Node | Value | str) -> Refusal | None:
        """What keeps two nodes apart, with the stable name of its rule; None for nodes of one group.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(3)):
        ...   %a : Float(3) = aten::relu(%x)
        ...   %b : Float(3), %i : Long(3) = aten::sort(%a)
        ...   return (%b)''')
        >>> irs.fuse(g).obstacle("a", "b").rule
        'not-pointwise'
        """
        nodes = []
        for subject in (a, b):
            node = self._find(subject)
            if isinstance(node, Verdict):
                return Refusal("no-node", node.because, node.witness)
            nodes.append(node)
        return self._obstacle(*nodes)

    def _obstacle(self, a: Node, b: Node) -> Refusal | None:
        rules, folded = self._plans.rules, self._plans.rules.graph
        group = self._group(a)
        if a is b or (group is not None and group is self._group(b)):
            return None
        for node in (a, b):
            given = given_group(folded, node)
            if given is not None:
                what = f"{rules.db.node_words(node)} stands inside of {given.op}, which the program had already and which stays as it is"
                return Refusal("given-group", what, (node, given))
        for node in (a, b):
            refusal = rules.refusal(node)
            if refusal is not None:
                return refusal
        blocks = folded.block_of[a], folded.block_of[b]
        if blocks[0] is not blocks[1]:
            owners = [folded.owner.get(block) for block in blocks]
            told = [f"in a block of {owner.op}" if owner else "in the top block" for owner in owners]
            what = f"they are in different blocks: one {told[0]}, the other {told[1]}"
            return Refusal("different-blocks", what, (a, b))
        return why_apart(self._plans.by_block[blocks[0]], self._plans.policy, a, b)

    def why_alone(self, subject: Node | Value | str) -> Verdict:
        """Why a node is in no group: its own property, or what keeps it from the neighbours that might have had it."""
        node = self._find(subject)
        if isinstance(node, Verdict):
            return node
        rules, graph = self._plans.rules, self._plans.rules.graph
        group = self._group(node)
        if group is not None and group.attrs.get("kind") == "view":
            return yes("it is in a group of views, which needs no kernel", group, node)
        if group is not None and group not in self._members:
            return yes("it is in a group that the program had already", group, node)
        refusal = rules.refusal(node)
        if refusal is not None:
            return no(refusal.because, *refusal.evidence)
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        makers = [graph.producer.get(value) for value in node.inputs]
        for other in (*users, *makers):
            if isinstance(other, Node) and rules.refusal(other) is None:
                return self._why_not(node, other)
        return no("none of its producers and users can be part of a kernel", node)

    def _find(self, subject: Node | Value | str) -> Node | Verdict:
        """The node of the folded graph that is meant, or why there is none."""
        node = subject if isinstance(subject, Node) else self._maker(subject)
        if node is None:
            told = subject if isinstance(subject, str) else repr(subject)
            return no(f"%{told.removeprefix('%')} is an input or a block's parameter: no node makes it", subject)
        found = self._by_id.get(node.id)
        if found is None and node not in self.original.position and node not in self.graph.position:
            what = f"{node!r} is not a node of graph {self.original.name!r}"
            raise UnknownName(what, hint="ask the graph it came from")
        if found is None:
            return no(f"{node!r} is gone: its result was known before the run, or unused", node)
        return found

    def _maker(self, subject: Value | str) -> Node | None:
        """The node that makes a value of the original or the fused graph, or that a node's name means."""
        if isinstance(subject, str) and "::" in subject and not subject.startswith("%"):
            return self.original.node(subject)
        value = self._value(subject)
        value = self._plans.groups.outside_of.get(value, value)
        kept = self.history.forward(value, 0, self._fused_at) or value
        return self._plans.rules.graph.producer.get(kept) or self.original.producer.get(value)

    @property
    def _fused_at(self) -> int:
        """How many passes ran before `fuse`."""
        return next(step for step, record in enumerate(self.history.records) if record.name == "fuse")

    def _value(self, name: Value | str) -> Value:
        """The value, or that of this name, in the original graph, or else in the fused one."""
        try:
            return self.original.value(name)
        except UnknownName as unknown:
            try:
                return self.graph.value(name)
            except UnknownName:
                raise unknown from None

    @cached_property
    def _by_id(self) -> dict[int, Node]:
        """Nodes are rebuilt when their operands or blocks change; their ids stay."""
        return {node.id: node for node in self._plans.rules.graph.nodes()}

    @cached_property
    def _members(self) -> dict[Node, list[Node]]:
        members: dict[Node, list[Node]] = {group: [] for group in self.groups}
        for node in self._plans.rules.graph.nodes():
            group = self._plans.grouped.group_of.get(node)
            if group is not None:
                members[group].append(node)
        return members

    def __repr__(self) -> str:
        nodes = sum(map(len, self._members.values()))
        return f"<Fusion of {self.original.name!r}: {plural(nodes, 'node')} in {plural(len(self.groups), 'group')}>"


def fuse(
    graph: Graph, *, policy: str | Score = "greedy", min_size: int = 2, max_arguments: int = MAX_ARGUMENTS,
    max_nodes: int = MAX_NODES, alias: AliasMaintenance = "follow", check: bool = False,
    view_groups: bool = False, exact: Exact = None,
) -> Fusion:  # fmt: skip
    """Group ops into kernels; first fold what is known before the program runs, and make in-place ops pure.

    Groups are made in each block, of `min_size` to `max_nodes` nodes, with at most `max_arguments` inputs and outputs.
    The program means the same afterwards: see `irscope.transforms.grouping.partition` for the argument. `policy`:

    * `"greedy"`: consumers from the last to the first, and for each what it reads, the latest first; then siblings.
    * `"min-bytes"`: always the merge that saves most memory traffic; then siblings.
    * `"torch-legacy"`: exactly the order of PyTorch's `_jit_pass_fuse`, its count of arguments included.
    * a function that is given a `Candidate` and scores it: the best merge happens first, None and numbers up to 0
      decline. It is asked again when the groups have grown.

    `alias` is how `Fusion.alias_db` comes about: it follows the merges, or (for comparison, with the same result) it is
    rebuilt before each block or after each merge. `check` follows merge by merge and compares each db with a new one;
    it raises PassError where they differ.

    `view_groups` makes one node, of kind `"view"`, of two or more views that follow one another and are in no kernel.
    It has no kernel either: the views run as before, and nothing is copied. Nothing runs faster, the picture is smaller;
    that is why it is a choice. It happens after all kernels are planned, as a pass `group-views` of the history.

    With `exact="torch"` only ops go into kernels whose results then have torch's bits; `irs.compile` has the same option.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(2, 3) = aten::relu(%x)
    ...   %b : Float(2, 3) = aten::tanh(%a)
    ...   %c : Float(3, 2) = aten::t(%b)
    ...   return (%c)''')
    >>> f = fuse(g)
    >>> print(f.graph)
    graph(%x : Float(2, 3)):
      %b : Float(2, 3) = prim::FusionGroup[kind="pointwise"](%x)
        block0(%x.1 : Float(2, 3)):
          %a : Float(2, 3) = aten::relu(%x.1)
          %b.1 : Float(2, 3) = aten::tanh(%a)
          -> (%b.1)
      %c : Float(3, 2) = aten::t(%b)
      return (%c)
    >>> bool(f.why_not("a", "b")), bool(f.why_not("b", "c"))
    (True, False)
    >>> f = fuse(g, policy=lambda candidate: None if candidate.consumer.op == "aten::tanh" else candidate.bytes_saved)
    >>> print(f.why_not("a", "b"))
    no, because policy '<lambda>' declines: its score is None
    """
    chosen = policy_of(policy)
    if not isinstance(graph, Graph):
        raise ArgumentError(
            f"fuse works on a Graph, not on {type(graph).__name__}",
            hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
        )
    limits = Limits(max_arguments, max_nodes)
    fusion = without_collector(_fused, graph, chosen, limits, min_size, alias, exact=is_exact(exact))
    if check:
        check_following(fusion.history, fusion._plans.rules.db)
    return _with_view_groups(fusion) if view_groups else fusion


def _with_view_groups(fusion: Fusion) -> Fusion:
    """The same kernels, and the views that they left over in groups of their own."""
    plans = fusion._plans
    record, group_of = group_views(fusion.graph, list(_blocks_of(fusion.graph)), plans.rules.known, fusion.alias_db)
    if not group_of:
        return fusion
    everywhere = {**plans.grouped.group_of, **group_of}
    made = {*fusion.groups, *group_of.values()}
    return replace(
        fusion,
        graph=record.after,
        groups=tuple(node for node in record.after.nodes() if node in made),
        history=fusion.history.then(record),
        _plans=replace(plans, grouped=replace(plans.grouped, group_of=everywhere)),
    )


def _fused(
    graph: Graph, policy: Policy, limits: Limits, min_size: int, alias: str, apart: frozenset[Value] = frozenset(),
    *, exact: bool = False,
) -> Fusion:  # fmt: skip
    """`apart`: tensors that are written in place part by part, although one kernel might make the whole of them."""
    again = partial(_fused, graph, policy, limits, min_size, alias)
    records, shapes, whole = _prepared(graph, apart)
    before = records[-1].after
    started = perf_counter()
    rules = Eligibility(before, shapes, AliasDb(before), exact=exact)
    fitness = NodeProfiles(rules, shapes, count_uses(before))
    plans: dict[Block, BlockPlan] = {}
    groups = Groups(before, plans.values(), fitness, min_size=min_size)
    upkeep = upkeep_of(alias, before, rules.db, groups)
    for block in _blocks_of(before):
        plan = plans[block] = BlockPlan(upkeep.dependences(block), fitness, limits)
        plan.on_merge = upkeep.on_merge
        policy.grow(plan)
    torn_apart = split_chains(before, plans, whole, min_size) if whole else whole
    if torn_apart:
        return _fused(graph, policy, limits, min_size, alias, apart | torn_apart, exact=exact)
    grouped = groups.carry_out()
    remarks = remarks_of(list(plans.values()), grouped)
    seconds = perf_counter() - started
    record = PassRecord("fuse", before, grouped.graph, grouped.edits, remarks, seconds, groups.after)
    made = set(grouped.group_of.values())
    nodes = tuple(node for node in grouped.graph.nodes() if node in made)
    history = History(graph, (*records, record))
    return Fusion(
        grouped.graph, graph, policy.name, nodes, history, _Plans(rules, plans, grouped, groups, policy, upkeep, again),
    )  # fmt: skip


def _prepared(graph: Graph, apart: frozenset[Value]) -> tuple[list[PassRecord], Shapes, frozenset[Value]]:
    """What is done before anything is grouped, as far as there is something to do, the facts about the result, and the
    tensors that are now made by copies with more and more ranges replaced."""
    found = fold(graph)
    records, shapes = [found.record], found.shapes
    pure = functionalize(found.record.after, scatter=False, shapes=shapes)
    whole = frozenset[Value]()
    if any(remark.rule == "writes-a-part" for remark in pure.remarks):
        whole = written_in_parts(found.record.after, shapes) - apart
        pure = functionalize(found.record.after, scatter=whole, shapes=shapes) if whole else pure
    if pure.edits:
        cleaned = remove_dead_nodes(pure.after)  # a write that nobody sees is gone, and what was written may be too
        records.extend(record for record in (pure, cleaned) if record.edits)
        shapes = infer(cleaned.after)
    constant = fold_tensors(records[-1].after, shapes)
    return [*records, constant] if constant.edits else records, shapes, whole


def _blocks_of(graph: Graph) -> Iterator[Block]:
    """Each block that is not inside of a group, or of a region that nobody knows, in textual order."""
    stack = [graph.body]
    while stack:
        block = stack.pop()
        yield block
        inside = [inner for node in block.nodes if node.op in CONTROL_FLOW for inner in node.blocks]
        stack.extend(reversed(inside))
