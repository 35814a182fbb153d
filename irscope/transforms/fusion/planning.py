"""Plans the groups of one graph: the options of fusion, and a plan for each block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import once
from irscope.errors import ArgumentError
from irscope.ir import CONTROL_FLOW, Block, Graph, Module, Node
from irscope.ir.module import inlined
from irscope.ops.exactness import Exact, is_exact
from irscope.transforms.fusion.legality import Eligibility, NodeProfiles, profiles_of
from irscope.transforms.fusion.policy import (
    NO_WISHES,
    POLICIES,
    BlockPlan,
    Limits,
    PlacedWishes,
    Policy,
    Score,
    Wishes,
    policy_of,
)
from irscope.transforms.fusion.wished_merges import Denied, merge_first, placed, unfit
from irscope.transforms.grouping import Refusal
from irscope.transforms.history import History

__all__ = ["MAX_ARGUMENTS", "MAX_NODES", "Plans", "Wanted", "fusible_blocks", "plans_of", "the_graph", "wanted"]

MAX_ARGUMENTS: Final = 128
"""The most inputs and outputs of one kernel, as in PyTorch's fuser."""
MAX_NODES: Final = 512
"""The most nodes of one kernel: a chain of 2,000 took 2.5 s to compile as one kernel, and a tenth of that for each of four."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of fusion, shared by the passes that prepare and build groups."""

    policy: Policy
    min_size: int
    limits: Limits
    exact: bool
    wishes: Wishes = NO_WISHES


def wanted(
    policy: str | Score, min_size: int, max_arguments: int, max_nodes: int, exact: Exact, wishes: Wishes = NO_WISHES
) -> Wanted:  # fmt: skip
    """Returns the options of a pass, checked."""
    return Wanted(policy_of(policy), min_size, Limits(max_arguments, max_nodes), is_exact(exact), wishes)


def the_graph(graph: object, name: str) -> Graph:
    """Returns the argument of a pass as a graph; the calls of a module, which must have one entry, are inlined."""
    if isinstance(graph, Module):
        return inlined(graph)
    if isinstance(graph, Graph):
        return graph
    raise ArgumentError(
        f"{name} works on a Graph, not on {type(graph).__name__}",
        hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
    )


@dataclass(frozen=True, eq=False, slots=True)
class Plans:
    """The decisions about each block of a graph."""

    fitness: NodeProfiles
    by_block: dict[Block, BlockPlan]
    asked: Wanted
    wishes: PlacedWishes
    denied: Sequence[Denied]
    """The merges that were requested and are not legal."""

    @property
    def rules(self) -> Eligibility:
        """The properties of the nodes."""
        return self.fitness.rules

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group, by its properties or by a wish; None if it can."""
        return unfit(self.rules, self.wishes, node)


def plans_of(history: History, asked: Wanted) -> Plans:
    """Returns the plans of the last graph of a history; they are cached for registered policies without wishes, and computed each
    time for a user's function."""
    if POLICIES.get(asked.policy.name) is asked.policy and not asked.wishes:
        return once(history.final, asked, lambda: _planned(history, asked))
    return _planned(history, asked)


def _planned(history: History, asked: Wanted) -> Plans:
    graph, wishes = history.final, placed(asked.wishes, history)
    fitness = profiles_of(graph, exact=asked.exact)
    plans: dict[Block, BlockPlan] = {}
    for block in fusible_blocks(graph):
        plans[block] = BlockPlan(dependences(graph, block), fitness, asked.limits, wishes)
    denied = merge_first(plans, graph, wishes)
    for plan in plans.values():
        asked.policy.grow(plan)
    return Plans(fitness, plans, asked, wishes, denied)


def fusible_blocks(graph: Graph) -> Iterator[Block]:
    """Yields each block that is reached through ifs and loops only, and so not inside a group or an unknown op, in textual order."""
    stack = [graph.body]
    while stack:
        block = stack.pop()
        yield block
        inside = [inner for node in block.nodes if node.op in CONTROL_FLOW for inner in node.blocks]
        stack.extend(reversed(inside))
