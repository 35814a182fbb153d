"""Which tensors that a program writes part by part become chains of copies, because one kernel makes the whole of them.

`functionalize` can write a part as a copy of the whole with a range replaced. Alone that moves more than the write did. In
one kernel the chain of copies is no chain: each element of the last one is computed from the tensor before all writes,
and written once.

*The bytes.* In place, each write reads and writes at least its part once: as a copy it reads what it stores, as an op it
reads what was there. The kernel reads the whole at most once from memory and writes it once. So it moves no more if the
parts that are written have together at least as many elements as the whole; a cache of which one row is written stays
as it is.

*One kernel.* The copies and what lies between them must all be fit for kernels, replace ranges of one axis, and be read
by nobody else: from the last copy backwards, a node belongs to the kernel when all its readers do. A policy may still
tear a chain apart, or a write elsewhere: `split_chains` tells, and then the tensor is written in place as before.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

from irscope.ir import Block, Graph, Node, Value
from irscope.ops.traits import PATCHES
from irscope.transforms.fusion.legality import MAX_PATCHES, Eligibility, patched_range, profiles_of
from irscope.transforms.fusion.policy import BlockPlan

__all__ = ["Chain", "Parts", "chains_of", "parts_copied", "split_chains"]

_MOST_NODES: Final = 256
"""Of what one chain needs: a kernel has a limit too."""


class Chain(NamedTuple):
    """A tensor and its copies with one range more replaced in each."""

    base: Value
    copies: list[Node]


def chains_of(graph: Graph) -> Iterator[Chain]:
    """The chains of copies in which each but the last goes on to exactly one other."""
    onward: dict[Value, list[Node]] = {}
    for node in graph.nodes():
        if node.op in PATCHES:
            onward.setdefault(node.inputs[0], []).append(node)
    for base in list(onward):
        maker = graph.producer.get(base)
        if maker is not None and maker.op in PATCHES:
            continue
        copies: list[Node] = []
        here = onward[base]
        while len(here) == 1:
            copies += here
            here = onward.get(here[0].output, [])
        if copies and not here:
            yield Chain(base, copies)


class Parts(NamedTuple):
    """What is to become of the tensors that are written part by part."""

    copied: frozenset[Value]
    """Those of which one kernel makes the whole."""
    are_all: bool
    """Whether there are no others."""


def parts_copied(graph: Graph, before: Graph, *, exact: bool) -> Parts:
    """Of the tensors that `functionalize` copies where a program writes parts of them, those that should be."""
    old = {node.id for node in before.nodes() if node.op in PATCHES}
    new = {node for node in graph.nodes() if node.op in PATCHES and node.id not in old}
    if not new:
        return Parts(frozenset(), True)
    rules = profiles_of(graph, exact=exact).rules
    chains = [chain for chain in chains_of(graph) if new.issuperset(chain.copies) and chain.base in before.producer]
    kept = [chain for chain in chains if _pays(rules, chain) and _is_one_kernel(rules, chain)]
    return Parts(frozenset(chain.base for chain in kept), len(new) == sum(len(chain.copies) for chain in kept))


def split_chains(graph: Graph, plans: Mapping[Block, BlockPlan], bases: Container[Value], min_size: int) -> frozenset[Value]:
    """Of these tensors, those whose copies are not all in one group, or of which a copy before the last leaves it."""
    found = set()
    for chain in chains_of(graph):
        if chain.base not in bases:
            continue
        plan = plans[graph.block_of[chain.copies[0]]]
        places = [plan.index.get(copy) for copy in chain.copies]
        groups = {None if place is None else plan.partition.find(place) for place in places}
        group = plan.groups[groups.pop() or 0] if len(groups) == 1 and None not in groups else None
        leaving = any(plan.outside.get(copy.output) for copy in chain.copies[:-1])
        if group is None or leaving or group.size - group.views < max(min_size, 2):
            found.add(chain.base)
    return frozenset(found)


def _pays(rules: Eligibility, chain: Chain) -> bool:
    """Whether no more is moved than in place, and the parts lie along one axis."""
    whole = rules.tensor_type(chain.base)
    found = [patched_range(rules, copy) for copy in chain.copies]
    if whole is None or not whole.numel or len(found) > MAX_PATCHES:
        return False
    axes = {where[0] for where in found if where is not None}
    extent = whole.shape[axes.pop()] if None not in found and len(axes) == 1 and whole.shape is not None else None
    return isinstance(extent, int) and sum(stop - start for _, start, stop in filter(None, found)) >= extent


def _is_one_kernel(rules: Eligibility, chain: Chain) -> bool:
    """Whether all copies, and all that lies between them, can be in one group of which only the last copy leaves."""
    graph, last = rules.graph, chain.copies[-1]
    block = graph.block_of[last]
    if not all(_fits(rules, copy, block) for copy in chain.copies):
        return False
    members: set[Node] = {last}
    waiting: list[tuple[int, int, Node]] = []
    _ask(graph, last, waiting)
    while waiting and len(members) < _MOST_NODES:
        _, _, node = heappop(waiting)
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        if node not in members and _fits(rules, node, block) and all(user in members for user in users):
            members.add(node)
            _ask(graph, node, waiting)
    return all(copy in members for copy in chain.copies)


def _fits(rules: Eligibility, node: Node, block: Block) -> bool:
    return rules.graph.block_of[node] is block and rules.refusal(node) is None and not rules.axes(node)


def _ask(graph: Graph, node: Node, waiting: list[tuple[int, int, Node]]) -> None:
    """Let the makers of what a node reads wait, the latest first."""
    for value in node.inputs:
        maker = graph.producer.get(value)
        if maker is not None:
            heappush(waiting, (-graph.position[maker], maker.id, maker))
