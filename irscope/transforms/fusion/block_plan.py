"""The groups of one block while they grow: their inputs, values and outputs, and the step that merges two.

A merge is legal if the contraction stays acyclic (`partition`), if the two groups have a common domain (`Candidate`), and if
the kernel stays within the limits. A policy decides which of the legal merges happen, and in which order (`planning`). A merge
is decided before anything is changed: a refused one leaves no trace.

Nodes are identified by their position in the block, groups by the position of one of their nodes. The counts that decide
(uses outside a group, inputs, outputs) are kept per group and updated from the smaller side of each merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from irscope.analysis.dependence import Dependences
from irscope.ir import Node, Value
from irscope.ops.registry import category_of
from irscope.ops.traits import JOINS, RESHAPES
from irscope.ops.view_steps import Num, byte_words, is_unknown, typical
from irscope.transforms.fusion.domains import (
    BYTES_IN_A_CYCLE,
    BYTES_OF_A_LAUNCH,
    CYCLES_OF_TRAFFIC,
    MAX_PATCHES,
    Domain,
    NodeProfiles,
    gathered_shapes,
    misaligned_use,
    times_computed,
)
from irscope.transforms.fusion.eligibility import EXAMPLES, same_space
from irscope.transforms.grouping import Partition, Refusal, explain_path, leaving_values

MAX_ARGUMENTS: Final = 128
"""The most inputs and outputs of one kernel, as in PyTorch's fuser."""
MAX_NODES: Final = 512
"""The most nodes of one kernel: a chain of 2,000 took 2.5 s to compile as one kernel, and a tenth of that for each of four."""

MAX_ROW: Final = 1 << 16
"""The most elements reduced into one, if the group reads them again afterwards: a longer row does not stay in a core's
cache, and then two kernels cost no more than one."""

Marks: TypeAlias = Mapping[int, tuple[int, Node]]
"""The side of a group for each mark, and a node that put it there: groups on different sides of one mark stay apart."""


@dataclass(slots=True, eq=False)
class Group:
    """The state of a group that decides about merging it."""

    domain: Domain
    inputs: dict[Value, int]
    """The values from outside that are not known numbers, and how often the group reads each."""
    values: list[Value]
    """The values that its nodes produce."""
    outputs: int
    """The number of its values that are read outside."""
    size: int = 1
    """The number of its nodes."""
    views: int = 0
    """The number of views among them, which alone do not make a kernel."""
    cycles: float = 0.0
    """The cycles of one core that its operations take, those included that are done again."""
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest size of one kernel."""

    arguments: int = MAX_ARGUMENTS
    """The most inputs and outputs together."""
    nodes: int = MAX_NODES
    """The most nodes; compile time grows faster than the kernel, so beyond some hundred nodes another kernel costs less."""


class Subject(NamedTuple):
    """A node that a wish is about, with its name in the graph of the wish."""

    node: Node
    name: str
    """The name of its first result."""

    def __str__(self) -> str:
        return f"%{self.name}" if self.name else self.node.op


@dataclass(frozen=True, slots=True)
class PlacedWishes:
    """Wishes resolved to nodes of the graph that is planned."""

    apart: Mapping[Node, Mapping[int, int]] = field(default_factory=dict)
    """For each node, its side of each mark: nodes on different sides of one mark may not be in one kernel."""
    together: tuple[tuple[Node, ...], ...] = ()
    opaque: frozenset[Node] = frozenset()
    kept: tuple[tuple[Node, Node], ...] = ()
    gone: tuple[Subject, ...] = ()
    """The nodes to force into one kernel that are not in the planned graph."""


NOWHERE = PlacedWishes()
"""No wishes."""


# Which two groups have a common domain. It depends only on the two domains and on how the groups meet.
#
# *Pointwise groups*: all results of a launch have one shape. The domain of a group is the shape of the values that leave it,
# so a group of another shape may join its user only if none of its values leave: they are then computed, broadcast, at the
# user's points.
#
# *Reduction groups* iterate over a full space S and reduce along one set A of its axes. A value that leaves such a group is
# full (shape S) or reduced (S with the axes A at extent 1, or without them). A pointwise group of space S may join in front
# and behind; one of another shape in front only if none of its values leave. Behind, a user must see a reduced value at the
# right positions: with the axes kept, positions agree; without them they agree only among reduced values, or where A is in
# front, or after a view that puts the axes back (`misaligned_use`). Two reduction groups need the same S and A.
#
# *Views* move nothing. A view joins the group that reads it if it has no other users; its operand's producer may then join
# that group like any other producer. So a view is in a group only between two of its nodes, and never its result.
#
# *Replaced ranges* (slice_scatter, select_scatter) make kernels that go part by part: such a group reduces nothing, replaces a
# limited number of ranges, and reads none of them through a reshape, which may put the parted axis inside another.
#
# *Joins* (cat, stack) end a group: pointwise producers whose values do not leave write into their parts of the result.


class Candidate:
    """Two groups of one block that might become one; a fusion policy may inspect it, and must not change it.

    The second group reads values of the first, or they are siblings: neither reads from the other. All properties are current,
    even if the groups have grown since the candidate was queued.
    """

    __slots__ = ("_plan", "consumer_index", "ours", "producer_index", "shared", "theirs")

    def __init__(self, plan: BlockPlan, producer: int, consumer: int) -> None:
        self._plan = plan
        self.producer_index = producer
        self.consumer_index = consumer
        find, groups = plan.partition.find, plan.groups
        self.ours = ours = groups[find(producer)]
        self.theirs = theirs = groups[find(consumer)]
        values, inputs = ours.values, theirs.inputs
        self.shared: Sequence[Value] = (
            [value for value in values if value in inputs] if len(values) <= len(inputs) else plan.shared(producer, consumer)
        )
        """The values of the first group that the second reads; empty for siblings."""

    @property
    def producer(self) -> Node:
        """The node of the first group whose merge is in question."""
        return self._plan.block.nodes[self.producer_index]

    @property
    def consumer(self) -> Node:
        """The node of the second group whose merge is in question."""
        return self._plan.block.nodes[self.consumer_index]

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.producer, self.consumer

    @property
    def first(self) -> tuple[Node, ...]:
        return tuple(self._plan.members(self.producer_index))

    @property
    def second(self) -> tuple[Node, ...]:
        return tuple(self._plan.members(self.consumer_index))

    @property
    def is_sibling(self) -> bool:
        """Whether neither group reads from the other."""
        return not self.shared

    @property
    def common(self) -> list[Value]:
        """The values that both groups read from outside."""
        a, b = self.ours.inputs, self.theirs.inputs
        if len(a) > len(b):
            a, b = b, a
        return [value for value in a if value in b]

    @property
    def bytes_saved(self) -> int:
        """The memory traffic that the merge avoids by the size of each value, which decides before views are looked through: one that
        both read is read once, and one that only the second reads is not written either. An unknown extent counts as 64."""
        return typical(self.saving())

    def saving(self) -> Num:
        """The same as a formula of the extents that are unknown."""
        sizes, outside, times = self._plan.profiles.sizes, self._plan.outside, self.theirs.inputs
        saved: Num = 0
        for value in self.common:
            saved += sizes[value]
        for value in self.shared:
            saved += sizes[value] * (2 if outside[value] == times[value] else 1)
        return saved

    @property
    def transfers_saved(self) -> int:
        """The number of reads and writes of tensors that the merge avoids, of known size or not."""
        return len(self.common) + len(self.shared) + self._inside()

    def times(self) -> int:
        """How often the kernel would compute the first group's values; 1 where that takes less than a launch, however often."""
        first, second, cycles = self.ours.domain, self.theirs.domain, self.ours.cycles
        if not cycles or first.space == second.space or first.space is None or second.space is None or not self.shared:
            return 1
        most = second.points // max(first.points, 1)
        if cycles * most * BYTES_IN_A_CYCLE <= BYTES_OF_A_LAUNCH or "cuda" in (second.device or first.device or ""):
            return 1
        return min(most, times_computed(self.shared, self.second, second.space, self._plan.rules))

    @property
    def bytes_recomputed(self) -> int:
        """The memory traffic that takes as long as what the kernel would compute again, beyond what hides behind its own traffic and
        what the call of another kernel takes; a merge that saves fewer bytes makes the program slower."""
        times = self.times()
        if times == 1:
            return 0
        hidden = max(self.theirs.domain.points * CYCLES_OF_TRAFFIC - self.theirs.cycles, 0)
        return max(int((self.ours.cycles * (times - 1) - hidden) * BYTES_IN_A_CYCLE) - BYTES_OF_A_LAUNCH, 0)

    def waste(self) -> Refusal | None:
        """Returns what the kernel would compute again at a higher price than the merge saves; None if it pays."""
        if self.bytes_recomputed <= self.bytes_saved:
            return None
        first, second, name = self.ours.domain, self.theirs.domain, self._plan.rules.name
        what = name(self.shared[0]) if self.ours.size == 1 else f"the group that makes {name(self.shared[0])}"
        times = f"{self.times()} times" if first.is_static and second.is_static else "again"
        because = f"{what} would be computed {times}, at all points of {second}, instead of once at those of {first}"
        saving = self.saving()
        moved = f", which takes longer than moving the {byte_words(saving)} that one kernel would save"
        more = moved if saving != 0 and not is_unknown(saving) else ""
        return Refusal("recomputed", because + more, (self.shared[0], *self.nodes))

    @property
    def arguments(self) -> int:
        """The number of inputs and outputs that the kernel would have."""
        ours, theirs = self.ours, self.theirs
        both = len(ours.inputs) + len(theirs.inputs) - len(self.common) + ours.outputs + theirs.outputs
        return both - len(self.shared) - self._inside()

    @property
    def size(self) -> int:
        """The number of nodes that the kernel would have."""
        return self.ours.size + self.theirs.size

    def leaves(self) -> bool:
        """Whether a value of the first group is still read outside both after the merge."""
        return self.ours.outputs > self._inside()

    def kept(self) -> Value | None:
        """A shared value that is still read outside both after the merge, or None."""
        outside, times = self._plan.outside, self.theirs.inputs
        return next((value for value in self.shared if outside[value] > times[value]), None)

    def verdict(self) -> Domain | Refusal:
        """The domain of the merged group; or why there is none, or why the kernel would be too large."""
        ours, theirs, limits = self.ours, self.theirs, self._plan.limits
        if ours.marks and theirs.marks:
            forbidden = self._forbidden(ours.marks, theirs.marks)
            if forbidden is not None:
                return forbidden
        domain = self._join(ours.domain, theirs.domain)
        if isinstance(domain, Refusal):
            return domain
        most = len(ours.inputs) + len(theirs.inputs) + ours.outputs + theirs.outputs
        if most > limits.arguments and (count := self.arguments) > limits.arguments:
            because = f"the kernel would have {count} arguments, the limit is {limits.arguments}; max_arguments={count} raises it"
            return Refusal("argument-limit", because, self.nodes)
        if ours.size + theirs.size > limits.nodes:
            because = f"the kernel would have {self.size} nodes, the limit is {limits.nodes}; max_nodes={self.size} raises it"
            return Refusal("size-limit", because, self.nodes)
        return domain

    def _join(self, first: Domain, second: Domain) -> Domain | Refusal:
        """The domain of both groups together, or why they cannot be one kernel."""
        plain = first is second and first.kind == "pointwise" and not (first.ends or first.patches)
        if plain and (self.shared or first.is_known):
            return first
        if first.device is not None and second.device is not None and first.device != second.device:
            return Refusal("device", f"one is on {first.device} and the other on {second.device}; to() moves one of them", self.nodes)
        if first.ends or (second.ends and (first.axes or not self.shared)):
            return self._behind_or_before_a_join(first)
        if first.kind == "view" or second.kind == "view":
            found = self._with_view(first, second)
        elif not self.shared:
            found = self._siblings(first, second)
        elif first.axes:
            found = self._behind(first, second)
        else:
            apart = (second.ends or not same_space(first.space, second.space)) and self.leaves()
            found = self._apart(first, second) if apart else second
        patches = first.patches + second.patches
        if not isinstance(found, Refusal) and patches:
            found = self._in_parts(first, second, patches) or found
        if isinstance(found, Refusal):
            return found
        device = second.device or first.device
        return self._plan.profiles.shared_domain(Domain(found.space, device, found.kind, found.axes, found.parts, found.ends, patches))

    def _behind_or_before_a_join(self, first: Domain) -> Refusal:
        """The refusal for what follows tensors that are combined, and for what gathers before, or stands beside them."""
        members, user = (self.first, self.consumer) if first.ends else (self.second, self.producer)
        join = next(node for node in members if node.op in JOINS)
        because = f"{join.op} combines tensors: it can only end a kernel, after pointwise ops"
        is_moved = first.ends and not {*join.outputs}.isdisjoint(user.inputs) and category_of(user) == "pointwise"
        if is_moved:
            because += f"; {user.op} of each tensor before they are combined could be in it"
        elif first.axes and self.shared:
            because += f", and {self.producer.op} gathers"
        return Refusal("join", because, self.nodes)

    def _with_view(self, first: Domain, second: Domain) -> Domain | Refusal:
        """The domain with a view, which joins the group that reads it and never ends a group; or why not."""
        if second.kind == "view" or not self.shared:
            view = self.nodes[second.kind == "view"]
            what = "copies elements to other places" if self._plan.rules.copies(view) else "is a view"
            other = self.nodes[second.kind != "view"]
            return Refusal("view", f"{view.op} {what}, which only joins the kernel that reads it: ask about that one", (view, other))
        kept = self.kept()
        if kept is not None or self.leaves():
            name = self._plan.rules.name(kept or self.shared[0])
            copied = any(self._plan.rules.copies(node) for node in self.first if kept in node.outputs)
            because = f"{name} is a {'copy' if copied else 'view'} that is needed outside too{'' if copied else ', where it costs nothing'}"
            because = because if kept else f"other parts than {name} are needed outside too"
            read = "read it, it" if kept else "read them, it"
            return Refusal("view", f"{because}; if nothing else {read} could be in this kernel", self.nodes)
        return second

    def _in_parts(self, first: Domain, second: Domain, patches: int) -> Refusal | None:
        """Returns why a group that replaces ranges cannot be computed part by part; None if it can."""
        if patches > MAX_PATCHES:
            because = f"the kernel would replace {patches} ranges, the limit is {MAX_PATCHES}, which no option raises; "
            because += "a cat or stack of parts that kernels compute has no such limit"
            return Refusal("patch-limit", because, self.nodes)
        both = (*self.first, *self.second) if first.axes or second.axes else ()
        gathering = next((node for node in both if self._plan.rules.axes(node)), None)
        if gathering is not None:
            because = f"{gathering.op} reads all parts for each result, and a kernel that joins or replaces ranges computes part after part"
            because += f"; only if {gathering.op} is done to each part could they be one"
            return Refusal("patch", because, (gathering, *self.nodes))
        reshape = next((node for node in self.second if node.op in RESHAPES), None) if first.patches else None
        if reshape is not None:
            because = f"{reshape.op} may put the axis along which ranges are replaced inside another; done before they are, it would not"
            return Refusal("patch", because, (reshape, *self.nodes))
        return None

    def _siblings(self, first: Domain, second: Domain) -> Domain | Refusal:
        """The domain of siblings, which must have the same points, and reduce along the same axes if both do; or why not."""
        axes = {(domain.axes, domain.parts) for domain in (first, second) if domain.axes}
        if first.is_known and first.space == second.space and len(axes) <= 1:
            return first if first.axes else second
        return self._apart(first, second)

    def _behind(self, first: Domain, second: Domain) -> Domain | Refusal:
        """The domain of a reduction group and a user behind it, or why they cannot be one kernel."""
        full = same_space(first.space, second.space)
        gathered = any(same_space(shape, second.space) for shape in gathered_shapes(first.space, first.axes))
        if (second.axes, second.parts) not in (((), 1), (first.axes, first.parts)) or not (full or (gathered and not second.axes)):
            return self._apart(first, second)
        wrong = misaligned_use(self.shared, self.second, first.space, first.axes, self._plan.rules)
        if wrong is not None:
            node, value = wrong
            name, found, made = self._plan.rules.name(value), self._plan.rules.tensor_type(value), self._plan.rules.graph.producer[value]
            because = f"{node.op} reads {name} along other axes than those that {first} leaves: each part of its result needs all of {name}"
            drops = self._plan.rules.axes(made) and found is not None and len(found.shape or ()) < len(first.space or ())
            if drops and category_of(node) == "pointwise":
                because += f"; with keepdim=True in {made.op} it would need one part, if that is what is meant"
            return Refusal("iteration-space", because, (node, value))
        row = _row(first)
        if full and row is not None and row > MAX_ROW:
            because = f"{first} gathers {row:,} elements into one, and a kernel goes through at most {MAX_ROW:,} of them again"
            return Refusal("long-row", because, self.nodes)
        return first

    def _apart(self, first: Domain, second: Domain) -> Refusal:
        alike = (first.axes, first.parts) == (second.axes, second.parts)
        maybe = alike and same_space(first.space, second.space)
        both = f"both are {first}" if str(first) == str(second) else f"{first} and {second}"
        spaces = f"the iteration spaces {'may differ' if maybe else 'differ'}, {both}"
        if not self.shared:
            because = f"{spaces}, and neither group reads from the other: such groups share a kernel only where their spaces are the same"
            because += f"; {EXAMPLES}" if maybe and self.common else ""
            return Refusal("iteration-space", because, self.nodes)
        kept, name = self.kept(), self._plan.rules.name
        if first.axes:
            goes_on = "behind a reduction a kernel goes on at the points that it reads, or at those of its results"
            because = f"{spaces}: {'all reductions of a kernel go over one space, along the same axes' if second.axes else goes_on}"
            return Refusal("iteration-space", because, self.nodes)
        what = name(kept) if kept else f"another result of the group that makes {name(self.shared[0])}"
        because = f"{spaces}, and {what} is needed outside too; if nothing else read it, one kernel could compute both"
        return Refusal("iteration-space", because, (kept or self.shared[0], *self.nodes))

    def _forbidden(self, ours: Marks, theirs: Marks) -> Refusal | None:
        """The refusal if the user forbade two of these nodes to be in one kernel."""
        name = self._plan.profiles.rules.name
        mark = next((mark for mark in ours if mark in theirs and ours[mark][0] != theirs[mark][0]), None)
        if mark is None:
            return None
        a, b = ours[mark][1], theirs[mark][1]
        return Refusal("forbidden", f"{name(a.outputs[0])} and {name(b.outputs[0])} would be in one kernel, which you forbade", (a, b))

    def _inside(self) -> int:
        """The number of shared values that are used nowhere else."""
        outside, times = self._plan.outside, self.theirs.inputs
        return sum([outside[value] == times[value] for value in self.shared])


class Merge(NamedTuple):
    """One step of a plan: the groups of two nodes, at these positions of the block, became one."""

    producer: int
    consumer: int
    domain: Domain
    """The domain of the merged group."""
    bytes_saved: Num
    """The memory traffic that it avoids by the size of each value (`Candidate.saving`), a formula where extents are unknown."""
    shared: Value | None
    """A value that the second group read from the first, or that both read; None if there was none."""
    is_sibling: bool
    """Whether neither group read from the other."""
    recomputed: int = 0
    """The memory traffic that takes as long as what it computes again (`Candidate.bytes_recomputed`)."""


_NO_GROUP: Final = Group(Domain(None), {}, [], 0, 0)
"""The placeholder group of nodes that are not eligible."""


class BlockPlan:
    """The groups of one block, while they grow and for later queries."""

    def __init__(self, ties: Dependences, profiles: NodeProfiles, limits: Limits, wishes: PlacedWishes = NOWHERE) -> None:
        self.block = ties.block
        self.ties = ties
        self.profiles = profiles
        self.rules = profiles.rules
        self.limits = limits
        self.wishes = wishes
        nodes = self.block.nodes
        self.partition = Partition(ties.before)
        self.merges: list[Merge] = []
        self.refusals: dict[tuple[int, int], Refusal] = {}
        """Why a producer (first) did not join the group of its user (second), as of the last attempt."""
        self.fusible = [False] * len(nodes)
        self.outside: dict[Value, int] = {}
        """For each value that fusible nodes produce, the number of its uses outside its group."""
        self.maker: dict[Value, int] = {}
        """The fusible producer of each value."""
        self.readers: dict[Value, list[int]] = {}
        """For each value that is not a known number, its fusible users in program order."""
        self.groups: list[Group] = [_NO_GROUP] * len(nodes)
        """The group of a fusible node, at the position that `partition.find` returns for it."""
        self._start(nodes)

    def _start(self, nodes: Sequence[Node]) -> None:
        """Make each fusible node a group of its own."""
        opaque, apart = self.wishes.opaque, self.wishes.apart
        profiles, readers = self.profiles, self.readers
        readings, sizes = profiles.readings, profiles.sizes
        for index, node in enumerate(nodes):
            profile = profiles.of(node)
            if profile is None or node in opaque:
                continue
            self.fusible[index] = True
            sizes[node.outputs[0]] = profile.size
            outputs = 0
            for value in node.outputs:
                self.outside[value] = count = readings.get(value, 0)
                self.maker[value] = index
                outputs += count > 0
            inputs: dict[Value, int] = {}
            for place in profile.arguments:
                value = node.inputs[place]
                if value in inputs:
                    inputs[value] += 1
                    continue
                inputs[value] = 1
                reading = readers.get(value)
                if reading is None:
                    readers[value] = [index]
                else:
                    reading.append(index)
            views = int(profile.domain.kind == "view")
            group = self.groups[index] = Group(profile.domain, inputs, list(node.outputs), outputs, views=views, cycles=profile.cycles)
            if node in apart:
                group.marks = {mark: (side, node) for mark, side in apart[node].items()}

    @cached_property
    def index(self) -> dict[Node, int]:
        return {node: index for index, node in enumerate(self.block.nodes)}

    def group(self, index: int) -> Group:
        """The group of a fusible node."""
        return self.groups[self.partition.find(index)]

    @cached_property
    def untouched(self) -> BlockPlan:
        """A plan of the same block before any merge, for queries only."""
        return self.anew()

    @cached_property
    def by_policy(self) -> dict[str, BlockPlan]:
        """Plans of the same block by other policies, for queries only."""
        return {}

    @cached_property
    def refused_groups(self) -> dict[frozenset[int], Refusal]:
        """The refusals by the two groups that they are about, now that these grow no more."""
        find = self.partition.find
        return {frozenset((find(a), find(b))): refusal for (a, b), refusal in self.refusals.items()}

    def merged_at(self, a: int, b: int) -> int:
        """The index of the merge that put two nodes into one group; -1 for a node and itself."""
        above, since = self._merged_since
        found = -1
        while a != b:
            if since[a] > since[b]:
                a, b = b, a
            found, a = since[a], above[a]
        return found

    @cached_property
    def _merged_since(self) -> tuple[list[int], list[int]]:
        """Each node's superior and the merge that gave it one; chains of superiors are short, and their merges ascend."""
        size = len(self.block.nodes)
        above, since, count = list(range(size)), [len(self.merges)] * size, [1] * size

        def top(node: int) -> int:
            while above[node] != node:
                node = above[node]
            return node

        for index, merge in enumerate(self.merges):
            small, large = sorted((top(merge.producer), top(merge.consumer)), key=count.__getitem__)
            above[small], since[small] = large, index
            count[large] += count[small]
        return above, since

    def anew(self) -> BlockPlan:
        """A new plan of the same block, without merges."""
        return BlockPlan(self.ties, self.profiles, self.limits, self.wishes)

    def nodes(self, *indexes: int) -> tuple[Node, ...]:
        return tuple(self.block.nodes[index] for index in indexes)

    def producers(self, index: int) -> list[int]:
        """The fusible nodes of this block that a node reads from, in no particular order."""
        maker = self.maker
        return [maker[value] for value in self.block.nodes[index].inputs if value in maker]

    def members(self, index: int) -> Iterator[Node]:
        """The nodes of the group of a node, in no particular order."""
        return (self.block.nodes[member] for member in self.partition.members(index))

    def leaving(self, members: Sequence[Node]) -> list[Value]:
        """The values that these nodes produce and other nodes read, in program order."""
        return leaving_values(members, self.profiles.readings)

    def kept_merges(self, min_size: int) -> list[Merge]:
        """The merges of the final groups with at least so many nodes, not counting views, in the order of their decisions."""
        groups = [(merge, self.group(merge.consumer)) for merge in self.merges]
        return [merge for merge, group in groups if group.size - group.views >= min_size]

    def schedule_after(self, merges: int, min_size: int) -> list[list[int]]:
        """As `Partition.schedule`, with only the first `merges` of the kept merges done.

        Leaving out the merges of small groups, which were legal, cannot close a cycle: a cycle would have to pass through
        a group that is still merged, and it would have been a cycle with the small groups merged, too.
        """
        parts = Partition(self.ties.before)
        for merge in self.kept_merges(min_size)[:merges]:
            parts.unite(merge.producer, merge.consumer)
        return parts.schedule()

    def try_merge(self, candidate: Candidate) -> Refusal | None:
        """Merge two groups, or return why not and change nothing."""
        domain = candidate.verdict()
        if isinstance(domain, Refusal):
            return domain
        path = self.partition.merge(candidate.producer_index, candidate.consumer_index)
        if path:
            return Refusal("cycle", "fusing them would create a cycle", self.nodes(*path))
        self._commit(candidate, domain)
        return None

    def candidate(self, x: int, y: int) -> Candidate:
        """The candidate of two nodes' groups, with the producer first."""
        return Candidate(self, y, x) if self.shared(y, x) else Candidate(self, x, y)

    def obstacle(self, x: int, y: int) -> Refusal | None:
        """What forbids a merge of the groups of two nodes now, whatever the policy."""
        path = self.partition.obstacle(x, y)
        if path:
            return explain_path(self.ties, self.partition, path)
        verdict = self.candidate(x, y).verdict()
        return verdict if isinstance(verdict, Refusal) else None

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's, found from the smaller side."""
        values, inputs = self.group(producer).values, self.group(consumer).inputs
        if len(values) <= len(inputs):
            return [value for value in values if value in inputs]
        find, maker = self.partition.find, self.maker
        here = find(producer)
        return [value for value in inputs if value in maker and find(maker[value]) == here]

    def _commit(self, candidate: Candidate, domain: Domain) -> None:
        """Combine the counts of the two groups, and record the saving."""
        ours, theirs, shared = candidate.ours, candidate.theirs, candidate.shared
        saved, witness, times = candidate.saving(), next(iter(shared or candidate.common), None), candidate.times()
        again = candidate.bytes_recomputed if times > 1 else 0
        outside, inputs, fewer = self.outside, theirs.inputs, ours.inputs
        for value in shared:
            left = outside[value] = outside[value] - inputs.pop(value)
            ours.outputs -= not left
        if len(fewer) > len(inputs):
            inputs, fewer = fewer, inputs
        for value, count in fewer.items():
            inputs[value] = inputs.get(value, 0) + count
        values, others = theirs.values, ours.values
        if len(others) > len(values):
            values, others = others, values
        values += others
        theirs.domain, theirs.inputs, theirs.values = domain, inputs, values
        theirs.outputs += ours.outputs
        theirs.size += ours.size
        theirs.views += ours.views
        theirs.cycles += ours.cycles * times
        if ours.marks:
            theirs.marks = {**ours.marks, **(theirs.marks or {})}
        self.groups[self.partition.find(candidate.consumer_index)] = theirs
        producer, consumer = candidate.producer_index, candidate.consumer_index
        self.merges.append(Merge(producer, consumer, domain, saved, witness, not shared, again))


def _row(domain: Domain) -> int | None:
    """The number of elements that a group reduces into one; None if unknown."""
    size = 1
    for axis in domain.axes:
        extent = domain.space[axis] if domain.space is not None else None
        if not isinstance(extent, int):
            return None
        size *= extent
    return size // domain.parts
