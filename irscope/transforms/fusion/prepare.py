"""Prepares a program for grouping: the passes that `fuse` begins with.

Known numbers become constants, in-place ops become functional, unused nodes are removed, and small known tensors become
constants. One step depends on what fuses: a write of a part becomes a copy of the whole only where one kernel computes
the whole (`irscope.transforms.fusion.prepare`). That is decided on the program in which every such write is
a copy; usually all of them stay, and that program is the result. Otherwise the others are left in place, and the
decision is repeated for those that stayed: the policy may split a chain of copies in favour of another group.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple

from irscope._base.running import without_collector
from irscope.analysis.per_graph import leads
from irscope.ir import Block, Graph, Node, Value
from irscope.ops.traits import PATCHES
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup import fold_constants, fold_tensors, remove_dead_nodes
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion.block_plan import BlockPlan
from irscope.transforms.fusion.domains import MAX_PATCHES, profiles_of
from irscope.transforms.fusion.eligibility import Eligibility, patched_range
from irscope.transforms.fusion.planning import FusionOptions, as_graph, plans_of
from irscope.transforms.history import History

__all__ = [
    "Chain", "Copies", "PREPARING", "Prepared", "chains_of", "prepare", "prepare_fusion", "profitable_copies",
    "split_chains",
]  # fmt: skip


# Decides which tensors that a program writes part by part become chains of copies, computed as a whole by one kernel.
#
# `functionalize` can write a part as a copy of the whole with a range replaced. Alone that moves more bytes than the write
# did. In one kernel the intermediate copies disappear: each element of the last one is computed from the tensor before all
# writes, and written once.
#
# *The bytes.* In place, each write reads and writes at least its part once: a copy reads its source, another op reads the old
# elements. The kernel reads the whole at most once from memory and writes it once. So it moves no more if the written parts
# together have at least as many elements as the whole; a cache of which one row is written stays as it is.
#
# *One kernel.* The copies and the nodes between them must all be eligible, replace ranges of one axis, and have no other
# users: from the last copy backwards, a node belongs to the kernel when all its users do. A policy, or a write elsewhere, may
# still split a chain: `split_chains` finds these, and their tensors are then written in place as before.

_MOST_NODES: Final = 256
"""The most nodes that one chain may need, as a kernel has a limit too."""


class Chain(NamedTuple):
    """A tensor and its successive copies, each with one more range replaced."""

    base: Value
    copies: list[Node]


def chains_of(graph: Graph) -> Iterator[Chain]:
    """Yields the chains of copies in which each copy but the last is the base of exactly one other."""
    onward: dict[Value, list[Node]] = {}
    for node in graph.nodes():
        if node.op in PATCHES:
            onward.setdefault(node.inputs[0], []).append(node)
    for base in list(onward):
        producer = graph.producer.get(base)
        if producer is not None and producer.op in PATCHES:
            continue
        copies: list[Node] = []
        here = onward[base]
        while len(here) == 1:
            copies += here
            here = onward.get(here[0].output, [])
        if copies and not here:
            yield Chain(base, copies)


class Copies(NamedTuple):
    """The decision for the tensors that are written part by part."""

    profitable: frozenset[Value]
    """The tensors that one kernel computes as a whole."""
    all_profitable: bool
    """Whether these are all of them."""


def profitable_copies(graph: Graph, before: Graph, *, exact: bool) -> Copies:
    """Returns the tensors whose partial writes should stay the copies that `functionalize` made."""
    old = {node.id for node in before.nodes() if node.op in PATCHES}
    new = {node for node in graph.nodes() if node.op in PATCHES and node.id not in old}
    if not new:
        return Copies(frozenset(), True)
    rules = profiles_of(graph, exact=exact).rules
    chains = [chain for chain in chains_of(graph) if new.issuperset(chain.copies) and chain.base in before.producer]
    kept = [chain for chain in chains if _pays(rules, chain) and _is_one_kernel(rules, chain)]
    return Copies(frozenset(chain.base for chain in kept), len(new) == sum(len(chain.copies) for chain in kept))


def split_chains(graph: Graph, plans: Mapping[Block, BlockPlan], bases: Container[Value], min_size: int) -> frozenset[Value]:
    """Returns the tensors among `bases` whose copies are not all in one group, or where a copy before the last leaves it."""
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
    """Whether the copies move no more bytes than writes in place, and all parts are ranges of one axis."""
    whole = rules.tensor_type(chain.base)
    found = [patched_range(rules, copy) for copy in chain.copies]
    if whole is None or not whole.numel or len(found) > MAX_PATCHES:
        return False
    axes = {where[0] for where in found if where is not None}
    extent = whole.shape[axes.pop()] if None not in found and len(axes) == 1 and whole.shape is not None else None
    return isinstance(extent, int) and sum(stop - start for _, start, stop in filter(None, found)) >= extent


def _is_one_kernel(rules: Eligibility, chain: Chain) -> bool:
    """Whether all copies, and the nodes between them, can be in one group that only the last copy leaves."""
    graph, last = rules.graph, chain.copies[-1]
    block = graph.block_of[last]
    if not all(_fits(rules, copy, block) for copy in chain.copies):
        return False
    members: set[Node] = {last}
    waiting: list[tuple[int, int, Node]] = []
    _enqueue_producers(graph, last, waiting)
    while waiting and len(members) < _MOST_NODES:
        _, _, node = heappop(waiting)
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        if node not in members and _fits(rules, node, block) and all(user in members for user in users):
            members.add(node)
            _enqueue_producers(graph, node, waiting)
    return all(copy in members for copy in chain.copies)


def _fits(rules: Eligibility, node: Node, block: Block) -> bool:
    return rules.graph.block_of[node] is block and rules.refusal(node) is None and not rules.axes(node)


def _enqueue_producers(graph: Graph, node: Node, waiting: list[tuple[int, int, Node]]) -> None:
    """Put the producers of a node's operands on the worklist, the latest first."""
    for value in node.inputs:
        producer = graph.producer.get(value)
        if producer is not None:
            heappush(waiting, (-graph.position[producer], producer.id, producer))


PREPARING: Final = 5
"""The number of progress steps of `prepare`."""

Prepared = dict[bool | frozenset[Value], History]
"""The histories of one graph by variant: only folded (False), or with all (True) or some of the writes of parts as copies."""


def prepare_fusion(graph: Graph) -> History:
    """Fold, functionalize and clean up a graph to be fused: `fuse` without the groups.

    It runs `fold-constants,functionalize,dce,fold-tensors`, and after the first records only those that changed
    something; but writes of parts stay in place where no kernel would compute the whole.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu_(%a)
    ...   return (%b)''')
    >>> prepare_fusion(g)
    <History of 'graph': fold-constants, functionalize>
    """
    with without_collector():
        return prepare(as_graph(graph, "prepare-fusion"), FusionOptions())


def prepare(graph: Graph, options: FusionOptions, step: Callable[[], object] | None = None, made: Prepared | None = None) -> History:
    """Run the passes and return their history; `step` is called `PREPARING` times, which is enough for nearly all graphs. `made`
    caches the graph's histories, so that calls with other wishes need not compute them again."""
    step = step or _nothing
    made = {} if made is None else made
    if False not in made:
        made[False] = _then(History(graph), fold_constants(graph))
    folded = made[False]
    step()
    copied: Literal[True] | frozenset[Value] = True
    while True:
        if copied not in made:
            made[copied] = _functionalize(folded, copied, step)
        found = made[copied]
        profitable, all_profitable = profitable_copies(found.final, folded.final, exact=options.exact)
        step()
        step = _nothing  # a second round is rare
        if profitable and (all_profitable or copied is not True):
            split = split_chains(found.final, plans_of(found, options).by_block, profitable, options.min_size)
            profitable, all_profitable = profitable - split, all_profitable and not split
        next_copies = profitable if copied is True else profitable & copied
        if all_profitable or next_copies == copied:
            return found
        copied = next_copies


def _functionalize(history: History, scatter: Literal[True] | frozenset[Value], step: Callable[[], object]) -> History:
    """Functionalize, and run the clean-ups that this enables."""
    pure = functionalize(history.final, scatter=scatter)
    step()
    if pure.edits:  # a functionalized write may be unused, and so may the tensor that it wrote
        history = _then(history, pure)
        history = _then(history, remove_dead_nodes(history.final))
    step()
    history = _then(history, fold_tensors(history.final))
    step()
    return history


def _nothing() -> None:
    """A progress step that is not counted."""


def _then(history: History, record: PassRecord) -> History:
    """The history with one more pass, if that changed something; the first pass is always recorded."""
    leads(record)
    return history.then(record) if record.edits or not history.records else history
