"""Explains why two nodes did not fuse: the write, the effect or the path between them, with witnesses.

A reason that is the policy's own, or the consequence of an earlier merge, says what would put the two into one kernel. That is
looked up and not guessed: with nothing merged the two are no obstacle to each other, and a plan by bytes has them in one group.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from irscope._base.words import plural
from irscope.analysis.per_graph import once, views_of
from irscope.errors import new_table
from irscope.ir import CONTROL_FLOW, GROUPS, ITEM_SIZE, NOT_CONSTANT, Block, Graph, Node, TensorType, Value
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import category_of, effect_of, elements_indexed, lookup, read_of, reads_indexed
from irscope.ops.traits import (
    ALWAYS_SHARES,
    CREATES_LIKE,
    JOINS,
    LOOKS_UP,
    MOVES_NOTHING,
    OVERWRITES,
    PACKS_SEQUENCE,
    PATCHES,
    WRITES_INDEXED,
)
from irscope.ops.type_rules import static_shape
from irscope.ops.view_steps import KINDS, Num, byte_set, byte_words, formula, is_at_least, is_unknown, quotient, tensor_bytes, typical
from irscope.transforms.base import LateRemark, Remark
from irscope.transforms.fusion.block_plan import NOWHERE, BlockPlan, Candidate
from irscope.transforms.fusion.domains import DEFAULT_BANDWIDTH, bytes_per_second
from irscope.transforms.fusion.eligibility import Eligibility, format_space
from irscope.transforms.fusion.planning import POLICIES, Policy, with_cause
from irscope.transforms.grouping import Refusal, explain_path, ties_along

if TYPE_CHECKING:
    import pandas as pd


def why_apart(plan: BlockPlan, policy: Policy, a: Node, b: Node, *, min_size: int | None) -> Refusal:
    """Returns why two eligible nodes of one block are in different groups, and what would join them in a group of `min_size` nodes
    (not if that is None)."""
    x, y = sorted((plan.index[a], plan.index[b]))
    if plan.partition.find(x) == plan.partition.find(y):
        what = f"their group is smaller than the smallest that was asked for; min_size={plan.group(x).size - plan.group(x).views} keeps it"
        return Refusal("too-small", what, plan.nodes(x, y))
    found = plan.obstacle(x, y)
    found = _told_path(plan, x, y, found) if found is not None and found.rule == "cycle" else found
    if found is None:
        found = _declined(plan, policy, x, y)
    elif found.rule in ("argument-limit", "size-limit") or plan.untouched.obstacle(x, y) is not None:
        return found
    else:
        found = _other_partner(plan, policy, x, y, found)
    remedy = "" if min_size is None else _remedy(plan, policy, x, y, min_size)
    return Refusal(found.rule, found.because + remedy, found.evidence)


def _told_path(plan: BlockPlan, x: int, y: int, cycle: Refusal) -> Refusal:
    """The refusal for a path between two nodes, with the reason why what lies on it stays outside of their kernel."""
    find, words = plan.partition.find, plan.ties.db.node_words
    path = tuple(node for node in cycle.evidence if isinstance(node, Node))
    if all(plan.fusible[plan.index[node]] for node in path):  # a library op may lie on another path
        first, last = plan.nodes(*sorted((x, y)))
        path = tuple(plan.ties.chain_through(first, last, lambda node: not _joins_kernels(plan, node))) or path
    between = [node for node in path if find(plan.index[node]) not in (find(x), find(y))]
    if not between:
        return cycle
    outside = [node for node in between if not plan.fusible[plan.index[node]]] or between
    node = next((node for node in outside if not _joins_kernels(plan, node)), outside[0])
    ends = (plan.untouched.obstacle(*sorted((end, plan.index[node]))) for end in (y, x))  # a view joins what reads it
    refusal = plan.rules.refusal(node) or next(filter(None, ends), None)
    why = "is in another kernel" if refusal is None else f"stays out of their kernel: {refusal.because}"
    told, at = [plan.rules.name(each.outputs[0]) if each.outputs else each.op for each in path], path.index(node)
    if len(told) > 7:
        told[at + 2 : -1], told[1 : max(at - 1, 1)] = ["…"] * (at + 3 < len(told)), ["…"] * (at > 2)
    return Refusal("cycle", f"{words(node)} lies between them ({' → '.join(told)}), and {why}", path)


def _joins_kernels(plan: BlockPlan, node: Node) -> bool:
    """Whether a node can be in a kernel, or is a view or a list, which keeps nothing apart."""
    return plan.fusible[plan.index[node]] or plan.rules.is_view(node) or category_of(node) == "container"


def _remedy(plan: BlockPlan, policy: Policy, x: int, y: int, min_size: int) -> str:
    """Says what would put two nodes into one kernel; nothing where that is not certain."""
    if policy.name != "min-bytes" and plan.wishes is NOWHERE:
        other = plan.by_policy.get("min-bytes")
        if other is None:
            other = plan.by_policy["min-bytes"] = plan.anew()
            POLICIES["min-bytes"].grow(other)
        group = other.group(x)
        if other.partition.find(x) == other.partition.find(y) and group.size - group.views >= min_size:
            return '; policy="min-bytes" joins them'
    views = sum(plan.untouched.group(index).views for index in (x, y))
    if 2 - views >= min_size and plan.untouched.obstacle(x, y) is None and not plan.wishes.together:
        return "; what_if(force=[(a, b)]) joins them"
    return ""


def _declined(plan: BlockPlan, policy: Policy, x: int, y: int) -> Refusal:
    """Returns why a policy did not do a merge that would be legal."""
    before = plan.refused_groups.get(frozenset(map(plan.partition.find, (x, y))))
    if before is not None and before.rule in ("argument-limit", "recomputed"):  # what the policy counts
        return before
    found = plan.candidate(x, y)
    nodes, name = plan.nodes(x, y), plan.rules.name
    quoted = f"policy {policy.name!r}"
    score = policy.score(found) if policy.score is not None else 1
    opening = "neither group reads from the other, and"
    if found.is_sibling and policy.siblings is None:
        return Refusal("siblings", f"{opening} {quoted} merges producers with their consumers only", nodes)
    if found.is_sibling and not found.common:
        return Refusal("siblings", f"{opening} they read nothing in common: one kernel would save nothing", nodes)
    if score is None or score <= 0:
        return Refusal("declined", f"{quoted} declines: its score is {score}", nodes)
    if found.is_sibling and policy.siblings is not None:
        is_view = not found.bytes_saved and policy.score is None
        what = f"counts no bytes for {name(found.common[0])}, the view that both read" if is_view else policy.siblings(found)
        return Refusal("siblings", f"{opening} {quoted} {what}", nodes)
    if before is not None:
        return Refusal("declined", f"when {quoted} tried, {before.because}; it did not try again after the merges that ended this", nodes)
    return Refusal("declined", f"{quoted} never reconsidered this pair after its groups had grown", nodes)


def _other_partner(plan: BlockPlan, policy: Policy, x: int, y: int, now: Refusal) -> Refusal:
    """Returns which earlier merge made it impossible for two nodes to be one kernel, though they could be without it."""
    merge = plan.merges[_decisive(plan, x, y)]
    nodes = plan.nodes(merge.producer, merge.consumer)
    a, b = (plan.rules.name(node.outputs[0]) for node in nodes)
    saved = memory_of(plan.rules).saved(plan, merge.producer, merge.consumer)
    saving = f", saving {byte_words(saved)}" if saved != 0 and not is_unknown(saved) else ""
    what = f"policy {policy.name!r} chose another partner: {a} went with {b}{saving}, and since then {now.because}"
    return Refusal("other-partner", what, (*nodes, *now.evidence))


def _decisive(plan: BlockPlan, x: int, y: int) -> int:
    """The index of the merge since which two groups cannot be one: the one that completed a path between them, or else the first after
    which they have no common domain."""
    index, find = plan.index, plan.partition.find
    path = plan.partition.obstacle(x, y)
    if path:  # each group on it is entered at one node and left at another; the last two of these that became one group completed it
        ties = ties_along(plan.ties, plan.partition, path)
        first, last = (x, y) if find(path[0]) == find(x) else (y, x)
        entered = [first, *(index[tie.obstacle.later] for tie in ties)]
        left = [*(index[tie.node] for tie in ties), last]
        return max(plan.merged_at(a, b) for a, b in zip(entered, left, strict=True))
    replay, ends = plan.anew(), {find(x), find(y)}  # a common domain depends on the merges of these two groups alone
    for place, merge in enumerate(plan.merges):
        if find(merge.producer) in ends:
            replay.try_merge(Candidate(replay, merge.producer, merge.consumer))
            if isinstance(replay.candidate(x, y).verdict(), Refusal):
                return place
    raise AssertionError("the groups are as they were planned, and have no common domain")


# The remarks of a fusion pass: one per group, and one per missed opportunity.

_NOT_A_MISS = frozenset({"not-pointwise", "view", "cycle", "random", "side-effect"})
"""Rules whose refusals are not missed opportunities, as fusion is impossible there."""


def remarks_of(plans: Sequence[BlockPlan], group_of: Mapping[Node, Node]) -> tuple[Remark, ...]:
    """Returns the passed remarks, then the missed ones, each in program order of blocks."""
    passed = [remark for plan in plans for remark in _passed(plan, group_of)]
    missed = [remark for plan in plans for remark in _missed(plan, group_of)]
    return (*passed, *missed)


def _passed(plan: BlockPlan, group_of: Mapping[Node, Node]) -> Iterator[Remark]:
    members: dict[Node, list[Node]] = {}
    for node in plan.block.nodes:
        if node in group_of:
            members.setdefault(group_of[node], []).append(node)
    again: dict[Node, int] = {}
    for merge in plan.merges:
        group = group_of.get(plan.block.nodes[merge.consumer])
        if group is not None:
            again[group] = again.get(group, 0) + merge.recomputed
    for group, recomputed in again.items():
        because = partial(_one_kernel, plan.rules, group, members[group], recomputed)
        yield LateRemark("passed", group.attrs["kind"], group, because, group.outputs)


def _one_kernel(rules: Eligibility, group: Node, members: Sequence[Node], recomputed: int) -> str:
    count = sum(node.op != "prim::Constant" for node in group.blocks[0].nodes)
    before, after = memory_of(rules).traffic(group, members)
    saved = before - after
    amount = f", which saves {byte_words(saved)} of memory traffic" if saved != 0 and not is_unknown(saved) else ""
    price = f"; what it computes again takes as long as moving some {byte_words(recomputed)}" if recomputed else ""
    return f"{plural(count, 'node')} became one kernel{amount}{price}"


def _missed(plan: BlockPlan, group_of: Mapping[Node, Node]) -> Iterator[Remark]:
    """Yields one remark per obstacle, however many pairs it keeps apart: it is one thing to change."""
    found: dict[object, tuple[Refusal, Value | Node, int]] = {}
    for key, refusal, subject in (*_apart(plan, group_of), *_unfit(plan)):
        known = found.get(key)
        found[key] = (refusal, subject, 1) if known is None else (*known[:2], known[2] + 1)
    for refusal, subject, count in found.values():
        more = f" (×{count})" if count > 1 else ""
        yield Remark("missed", refusal.rule, subject, f"{refusal.because}{more}", refusal.evidence)


def _apart(plan: BlockPlan, group_of: Mapping[Node, Node]) -> Iterator[tuple[object, Refusal, Value | Node]]:
    """Yields the producers that stayed apart from their users, keyed by the obstacle to remove."""
    nodes = plan.block.nodes
    for (producer, consumer), refusal in plan.refusals.items():
        if plan.partition.find(producer) == plan.partition.find(consumer):
            continue
        found = refusal
        if refusal.rule == "cycle":
            if plan.ties.by_data_alone:
                continue
            found = explain_path(plan.ties, plan.partition, [plan.index[node] for node in refusal.evidence if isinstance(node, Node)])
        if found.rule in _NOT_A_MISS:
            continue
        if found.rule in ("argument-limit", "size-limit"):
            key: object = group_of.get(nodes[consumer], nodes[consumer])
        else:
            key = found.evidence[:1] if found.rule != "blocked-by-write" else frozenset(found.evidence[:2])
        yield (found.rule, key), found, nodes[consumer]


def _unfit(plan: BlockPlan) -> Iterator[tuple[object, Refusal, Value | Node]]:
    """Yields the nodes next to fusible ones that are ineligible for a reason which the program could remove."""
    if all(plan.fusible):
        return
    producer_of = {value: index for index, node in enumerate(plan.block.nodes) for value in node.outputs}
    beside: set[int] = set()
    for index, node in enumerate(plan.block.nodes):
        for value in node.inputs:
            source = producer_of.get(value)
            if source is None:
                continue
            if plan.fusible[index]:
                beside.add(source)
            if plan.fusible[source]:
                beside.add(index)
    for index, node in enumerate(plan.block.nodes):
        refusal = plan.rules.refusal(node) if not plan.fusible[index] else None
        if refusal is None or refusal.rule in _NOT_A_MISS or (index not in beside and refusal.rule != "in-place"):
            continue  # a write is in the way of every reader of its memory, beside it or not
        variant = lookup(node.op.removesuffix("_")) if node.op.endswith("_") else None
        if refusal.rule != "in-place" or (variant is not None and variant.expression is not None):
            found = with_cause(plan.rules.graph, node, refusal)
            cause = found.because.removeprefix(refusal.because)
            yield (refusal.rule, node.op, cause), found, node


# Costs of fusion groups as a table: memory traffic of the ops and of the kernel, arithmetic, and time at a memory bandwidth.


def group_table(
    graph: Graph, members: Mapping[Node, Sequence[Node]], plans: Mapping[Block, BlockPlan], rules: Eligibility,
    traffic: Callable[[Node], tuple[Num, Num]], bandwidth: str | float,
) -> "pd.DataFrame":  # fmt: skip
    """Returns one row per group of the fused graph; `members` maps it to its nodes in the graph before, `traffic` to its bytes."""
    speed = bytes_per_second(bandwidth)
    bandwidth_text = bandwidth if isinstance(bandwidth, str) else f"{speed / 1e9:g} GB/s"
    rows = []
    for index, (group, nodes) in enumerate(members.items()):
        plan = plans[rules.graph.block_of[nodes[-1]]]
        space = str(plan.group(plan.index[nodes[-1]]).domain)
        if group.attrs["kind"] == "view":
            space = format_space(rules.space(nodes[-1]))
        before, after = traffic(group)
        ops = ", ".join(node.op.partition("::")[2] for node in nodes[:8])
        rows.append({
            "group": index, "result": ", ".join(f"%{graph.names[value]}" for value in group.outputs),
            "nodes": len(nodes), "ops": ops + (", …" if len(nodes) > 8 else ""), "kind": group.attrs["kind"],
            "space": space, "bytes before": _cell(before), "bytes after": _cell(after),
            "bytes saved": _cell(before) if is_unknown(before) else _cell(before - after),
            "flops": _cell(sum(tensor_bytes(TensorType("uint8", rules.space(node))) * rules.operations(node) for node in nodes)),
            f"µs at {bandwidth_text}": round(_microseconds(after, speed), 3),
        })  # fmt: skip
    columns = ["group", "result", "nodes", "ops", "kind", "space", "bytes before", "bytes after", "bytes saved"]
    return new_table(rows, columns=[*columns, "flops", f"µs at {bandwidth_text}"]).set_index("group")


# Memory traffic: the bytes that ops read and write, each by itself, and as one kernel. Every number of bytes that a fusion shows is
# counted here.
#
# **An op by itself** reads each byte that its operands occupy once, however often they name it, and writes each byte of its results.
# A lookup reads no more of its table than it returns, and an op that overwrites a tensor does not read it.
#
# **A view** that shares memory moves nothing. As an operand it stands for the bytes that it shows: a slice for its own elements, an
# `expand` for those that it repeats, a transpose for all. Bytes that several operands show count once; of parts whose places are not
# known, or too many to count, the sum is taken, and the whole at most. A view that copies is an op like others; what may be either, as
# strides that are not declared decide, counts as a view.
#
# **A kernel** reads the bytes of outside memory that its ops need, through its own views too, each byte once, and writes its results.
# What its views leave out is not computed, and what only that would need is not read.


class Part(NamedTuple):
    """Some of the memory of a tensor, or all of it."""

    number: int
    """One number for the same bytes; larger than that of the part that it lies in."""
    bytes: Num
    around: "Part | None" = None
    value: Value | None = None
    """A tensor that occupies these bytes; None where it is not known which of the bytes around they are."""


_ALL_BYTES: Final = frozenset({"same place", "exchange", "unit axes", "regroup", "stretch"})
"""The kinds of views that show all bytes of their operand."""
_READS_NO_FIRST: Final = OVERWRITES | CREATES_LIKE
_COPIES: Final = frozenset({"aten::clone", "aten::contiguous", "aten::to", "aten::type_as"})  # or cast, element by element


class Memory:
    """The memory that the ops of one program read and write."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules
        self._made = rules.graph.producer
        self._parts: dict[Value, Part] = {}
        self._numbers: dict[object, int] = {}
        self.size = cache(self._occupied)
        """The bytes that a tensor occupies: indices of the same element count once."""
        self._sizes_of_types: dict[object, Num] = {}
        self._traffic: dict[Node, tuple[Num, Num]] = {}
        self._saved: dict[BlockPlan, Mapping[tuple[int, int], Num]] = {}

    def traffic(self, group: Node, nodes: Sequence[Node]) -> tuple[Num, Num]:
        """The bytes that the nodes of a group move, each by itself, and those that they move as one kernel."""
        found = self._traffic.get(group)
        if found is None:
            is_kernel = group.attrs["kind"] != "view" and not all(map(self.is_free, nodes))
            found = (sum(map(self.alone, nodes)), self.together(nodes, group.outputs)) if is_kernel else (0, 0)
            self._traffic[group] = found
        return found

    def saved(self, plan: BlockPlan, producer: int, consumer: int) -> Num:
        """The bytes that a merge of a plan, or another of two of its groups, saves: those that the two move less those of one kernel."""
        if plan not in self._saved:
            self._saved[plan] = dict(self._saved_by_merges(plan))
        found = self._saved[plan].get((producer, consumer))
        return self.saved_by_one(plan, *map(plan.partition.members, (producer, consumer))) if found is None else found

    def _saved_by_merges(self, plan: BlockPlan) -> Iterator[tuple[tuple[int, int], Num]]:
        part: dict[int, list[int]] = {}
        plain: dict[int, bool] = {}
        for merge in plan.merges:
            ends, group = (merge.producer, merge.consumer), plan.partition.find(merge.consumer)
            if group not in plain:
                plain[group] = self._is_plain(plan, list(plan.members(group)))
            if plain[group]:  # to count all anew for each of 500 nodes takes a second
                yield ends, merge.bytes_saved
                continue
            one, other = (part.get(end, [end]) for end in ends)
            yield ends, self.saved_by_one(plan, one, other)
            both = [*one, *other]
            part.update((member, both) for member in both)

    def saved_by_one(self, plan: BlockPlan, *parts: Iterable[int]) -> Num:
        """The bytes that one kernel of two saves; each is the indices of its nodes in the plan."""
        one, other = map(list, parts)
        apart = self._moved(plan, one) + self._moved(plan, other)
        return apart if is_unknown(apart) else apart - self._moved(plan, [*one, *other])

    def _is_plain(self, plan: BlockPlan, nodes: Sequence[Node]) -> bool:
        """Whether nodes read all of their operands, none of which is a view: then a merge saves the values that it joins."""
        values = {value for node in nodes for value in (*node.inputs, *node.outputs)}
        reads_part, users = LOOKS_UP | JOINS | PATCHES | _READS_NO_FIRST, self._rules.graph.users
        return not any(
            self._rules.is_view(node) or node.op in reads_part or effect_of(node) != "pure" or not all(map(users.get, node.outputs))
            for node in nodes
        ) and all(self._source(value) is None and self.size(value) == plan.profiles.sizes[value] for value in values)

    def _moved(self, plan: BlockPlan, members: Iterable[int]) -> Num:
        nodes = plan.nodes(*sorted(members))
        if len(nodes) == 1 or all(map(self.is_free, nodes)):
            return sum(map(self.alone, nodes))
        return self.together(nodes, plan.leaving(nodes))

    def is_free(self, node: Node) -> bool:
        """Whether a node moves no tensor: a view that shares memory, and what works on containers, numbers and the order of the run."""
        if node.op in GROUPS:
            return False
        is_free = node.op.startswith("prim::") or node.op in CONTROL_FLOW or node.op in MOVES_NOTHING
        return is_free or category_of(node) in PYTHON_CATEGORIES or self._shares(node)

    def alone(self, node: Node) -> Num:
        """The bytes that a node moves by itself."""
        if self.is_free(node):
            return 0
        read = self._tensors(node, read_of(node, node.inputs))
        written = sum(map(self.size, self._results(node)))
        if not node.outputs and effect_of(node) == "in-place":
            written = self.size(node.inputs[0])
        given = list(map(self._fact, node.inputs)) if node.op in WRITES_INDEXED else []
        if node.op in _READS_NO_FIRST or (given and not reads_indexed(node, given)):
            read = read[1:]
        if given and (named := elements_indexed(node, given)) is not None:
            part = min(named * self._item(node.inputs[0]), self.size(node.inputs[0]), key=typical)
            is_read = reads_indexed(node, given)
            return self._union(map(self._part, read[is_read:])) + part * (1 + is_read)
        parts = list(map(self._part, read))
        if node.op in LOOKS_UP:
            return _least(self._union(parts), written + self._union(parts[1:])) + written
        return self._union(parts) + written

    def _fact(self, value: Value) -> object:
        """The type of a tensor, a list of what is in it, or what is known of a number."""
        made = self._made.get(value)
        if made is not None and made.op in PACKS_SEQUENCE:
            return list(map(self._fact, made.inputs))
        return self._rules.tensor_type(value) or self._rules.known(value)

    def together(self, nodes: Sequence[Node], results: Sequence[Value]) -> Num:
        """The bytes that nodes move as one kernel with these results."""
        made = {value for node in nodes for value in node.outputs}
        in_place = [node for node in nodes if node.op.endswith("_") and effect_of(node) == "in-place"]  # not a batch norm of statistics
        stores = [node for node in in_place if self._root(node.inputs[0], made) not in made]
        need = {value: self.size(value) for value in (*results, *(value for node in stores for value in node.outputs))}
        read: list[Part] = []
        shown: dict[Value, list[Part]] = {}
        """What views in the kernel show of values that it makes."""
        for node in reversed(nodes):
            for value in node.outputs:
                amount = need.get(value, 0)
                if value in shown:
                    amount = _least(amount + self._union(shown[value]), self.size(value))
                source = self._source(value, copied=True) if self._rules.is_view(node) or self._shares(node) else None
                root = self._root(value, made)
                if amount != 0 and root is not value and amount == self.size(value):
                    (shown.setdefault(root, []) if root in made else read).append(self._part(value))
                elif amount != 0:
                    for operand in self._tensors(node)[node.op in _READS_NO_FIRST :] if source is None else [source]:
                        size = self.size(operand)
                        need[operand] = _least(need.get(operand, 0) + self._needed(node, value, amount, operand), size)
        read += [self._piece(value, amount) for value, amount in need.items() if value not in made]
        written = self._union([self._part(node.inputs[0]) for node in stores if set(results).isdisjoint(node.outputs)])
        return self._union(read) + sum(map(self.size, results)) + written

    def _needed(self, node: Node, value: Value, amount: Num, operand: Value) -> Num:
        """The bytes of an operand that a node needs for so many bytes of its result."""
        size, here, there = self.size(operand), self._item(value), self._item(operand)
        if node.op in LOOKS_UP and operand is node.inputs[0]:
            return _least(amount, size)
        is_elementwise = category_of(node) == "pointwise" or node.op in _COPIES
        is_whole = amount == self.size(value) or not is_elementwise or node.op in JOINS | PATCHES
        if is_whole and not self._rules.is_view(node):
            return size
        scaled = amount if here == there else quotient(amount * there, here)
        return size if scaled is None else _least(scaled, size)

    def _item(self, value: Value) -> int:
        found = self._rules.tensor_type(value)
        return ITEM_SIZE.get(found.dtype, 8) if found is not None and found.dtype is not None else 4

    def _tensors(self, node: Node, operands: Sequence[Value] | None = None) -> list[Value]:
        """The tensors that a node reads, or those of some operands, those in its lists included."""
        found: list[Value] = []
        for value in node.inputs if operands is None else operands:
            made = self._made.get(value)
            found += made.inputs if made is not None and made.op in PACKS_SEQUENCE else [value]
        return found

    def _results(self, node: Node) -> Sequence[Value]:
        """The results of a node, or the tensors of the list that it makes, if another node unpacks it."""
        users = self._rules.graph.users.get(node.outputs[0], ()) if len(node.outputs) == 1 else ()
        reader = users[0].user if users else None
        if isinstance(reader, Node) and reader.op == "prim::ListUnpack":
            return reader.outputs
        return [value for value in node.outputs if self._rules.is_made(value)]

    def _occupied(self, value: Value) -> Num:
        found = self._rules.tensor_type(value)
        if found is None or found.strides is None or found.shape is None:
            return self._rules.bytes_of(value)
        item, extents = self._item(value), static_shape(found)
        if extents is not None:
            size = self._sizes_of_types.get((item, extents, found.strides))
            if size is None:
                places = byte_set(0, item, extents, [step * item for step in found.strides])
                size = places.size if places.size is not None else places.stop - places.start
                self._sizes_of_types[item, extents, found.strides] = size
            return size
        return tensor_bytes(replace(found, shape=tuple([dim if step else 1 for dim, step in zip(found.shape, found.strides, strict=True)])))

    def _shares(self, node: Node) -> bool:
        """Whether a node is a view, and not known to copy."""
        if effect_of(node) != "view" or not node.inputs or not node.outputs:
            return False
        return node.op in ALWAYS_SHARES or bool(self._rules.db.may_alias(node.inputs[0], node.outputs[0]))

    def _source(self, value: Value, *, copied: bool = False) -> Value | None:
        """The tensor that a value is a view of (or a copy, if `copied`); None if it is none."""
        made = self._made.get(value)
        if made is not None and made.op == "prim::ListUnpack":
            made = self._made.get(made.inputs[0])
        if made is None or not (self._shares(made) or (copied and self._rules.is_view(made))) or made.op in PACKS_SEQUENCE:
            return None
        return made.inputs[0]

    def _root(self, value: Value, made: Container[Value]) -> Value:
        """The tensor whose memory a value shows, as far as nodes that made these take it as a view."""
        while value in made and (above := self._source(value)) is not None:
            value = above
        return value

    def _part(self, value: Value) -> Part:
        """The memory that a tensor occupies, in that of the tensor that it is a view of."""
        views: list[tuple[Value, Value]] = []
        here = value
        while here not in self._parts and (source := self._source(here)) is not None:
            views.append((here, source))
            here = source
        if here not in self._parts:
            self._parts[here] = self._numbered(here, self.size(here), value=here)
        for here, source in reversed(views):
            self._parts[here] = self._shown(here, self._parts[source])
        return self._parts[value]

    def _shown(self, view: Value, whole: Part) -> Part:
        """The part of its operand's memory that a view shows."""
        made = self._made[view]
        cut = self._made[made.inputs[0]] if made.op == "prim::ListUnpack" else made
        size, kind = self.size(view), KINDS.get(cut.op)
        if kind in _ALL_BYTES and size != 0:
            return whole
        if kind == "placed":  # it may show what the operand does not
            return self._numbered(view, size, value=view)
        size = _least(size, whole.bytes)
        if size == whole.bytes:
            return whole
        known = [repr(self._rules.known(given)) if self._rules.known(given) is not NOT_CONSTANT else given for given in cut.inputs[1:]]
        source = self._rules.tensor_type(cut.inputs[0])  # a slice of a transpose shows other bytes than that of its operand
        layout = cut.inputs[0] if source is None or source.shape is None or source.strides is None else (source.shape, source.strides)
        return self._numbered((whole.number, layout, cut.op, *known, made.outputs.index(view)), size, whole, view)

    def _piece(self, value: Value, amount: Num) -> Part:
        """So many bytes of a tensor: all, or some."""
        whole = self._part(value)
        return whole if amount == self.size(value) else self._numbered((whole.number, value), _least(amount, whole.bytes), whole)

    def _numbered(self, key: object, size: Num, around: Part | None = None, value: Value | None = None) -> Part:
        return Part(self._numbers.setdefault(key, len(self._numbers)), size, around, value)

    def _union(self, parts: Iterable[Part]) -> Num:
        """The bytes of several parts, each byte once; an upper bound where it is not known which bytes they are."""
        tensors: dict[int, dict[int, Part]] = {}
        for part in parts:
            top = part
            while top.around is not None:
                top = top.around
            tensors.setdefault(top.number, {})[part.number] = part
        return sum((self._covered(list(each.values())) for each in tensors.values()), start=0)

    def _covered(self, parts: list[Part]) -> Num:
        """The same, of parts of one tensor."""
        values = [part.value for part in parts if part.value is not None]
        exact = views_of(self._rules.graph).bytes_together(values) if len(values) == len(parts) > 1 else None
        return _most(parts) if exact is None else exact


def memory_of(rules: Eligibility) -> Memory:
    return once(rules.graph, Memory, lambda: Memory(rules))


def free_nodes(graph: Graph) -> Callable[[Node], bool]:
    """Whether a node of a graph moves no tensor, and so launches no kernel."""
    return once(graph, Memory, lambda: Memory(Eligibility(graph))).is_free


def _least(a: Num, b: Num) -> Num:
    """The smaller of two numbers; where that depends on the run, the one that is smaller for extents of 64. Unknown if one of them is."""
    if is_unknown(a) or is_unknown(b):
        return a if is_unknown(a) else b
    return a if is_at_least(b, a) else b if is_at_least(a, b) else min(a, b, key=typical)


def _most(parts: Iterable[Part]) -> Num:
    """The bytes that several parts have at most: parts of one tensor that lie beside each other are not told from those that overlap."""
    found = {part.number: (part, part.bytes) for part in parts}
    waiting = sorted(-number for number in found)
    total: Num = 0
    while waiting:
        part, size = found.pop(-heappop(waiting))
        if part.around is None:
            total += size
            continue
        above, number = part.around, part.around.number
        if number not in found:
            heappush(waiting, -number)
        found[number] = above, _least(found[number][1] + size if number in found else size, above.bytes)
    return total


class Cost(NamedTuple):
    """The cost of one run of a fused program."""

    kernels: int
    """The number of groups that run as a kernel."""
    calls: int
    """The number of ops that the library runs, without views, containers, scalars and control flow."""
    bytes: Num
    """The bytes that both move, a formula of the extents that are unknown; at least so many where an op may be a view or a copy."""

    def microseconds(self, bandwidth: str | float = DEFAULT_BANDWIDTH) -> float:
        """The time to move the bytes at a memory bandwidth, which is the time of a memory-bound run; NaN where they are a formula."""
        return _microseconds(self.bytes, bytes_per_second(bandwidth))


def program_cost(graph: Graph, members: Mapping[Node, Sequence[Node]], rules: Eligibility) -> Cost:
    """Returns the cost of a fused graph; the nodes in the block of an if or a loop count once."""
    kernels = calls = 0
    moved: Num = 0
    inside: set[Block] = set()
    memory = memory_of(rules)
    for node in graph.nodes():
        if graph.block_of[node] in inside:
            continue
        if node.op in GROUPS:
            inside.update(node.blocks)
            if node.attrs.get("kind") == "view":
                continue
            kernels += 1
            moved += memory.traffic(node, members[node])[1] if node in members else memory.alone(node)
        elif not memory.is_free(node):
            calls += 1
            moved += memory.alone(node)
    return Cost(kernels, calls, moved)


def _cell(number: Num) -> int | str:
    return number if isinstance(number, int) else "unknown" if is_unknown(number) else formula(number)


def _microseconds(moved: Num, speed: float) -> float:
    return moved / speed * 1e6 if isinstance(moved, int) else float("nan")
