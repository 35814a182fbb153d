"""Plans the groups of one graph: the options of fusion, and a plan for each block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import once
from irscope.errors import ArgumentError
from irscope.ir import CONTROL_FLOW, Block, Graph, Module, Node
from irscope.ir.module import inlined
from irscope.transforms.base import Remark
from irscope.transforms.fusion.legality import Eligibility, NodeProfiles, profiles_of
from irscope.transforms.fusion.policy import (
    NO_WISHES,
    POLICIES,
    BlockPlan,
    Limits,
    PlacedWishes,
    Policy,
    Wishes,
)
from irscope.transforms.fusion.wished_merges import merge_first, place_wishes, unfit
from irscope.transforms.grouping import Refusal
from irscope.transforms.history import History

__all__ = ["FusionOptions", "Plans", "as_graph", "fusible_blocks", "plans_of"]

@dataclass(frozen=True, slots=True)
class FusionOptions:
    """The options of `fuse`, checked; without arguments, those that the passes alone work with."""

    policy: Policy = POLICIES["greedy"]
    min_size: int = 2
    limits: Limits = Limits()  # noqa: RUF009 it is frozen
    exact: bool = False
    wishes: Wishes = NO_WISHES


def as_graph(program: object, caller: str) -> Graph:
    """Returns the argument of a pass as a graph; the calls of a module, which must have one entry, are inlined."""
    if isinstance(program, Module):
        return inlined(program)
    if isinstance(program, Graph):
        return program
    raise ArgumentError(
        f"{caller} works on a Graph, not on {type(program).__name__}",
        hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
    )


@dataclass(frozen=True, eq=False, slots=True)
class Plans:
    """The decisions about each block of a graph."""

    profiles: NodeProfiles
    by_block: dict[Block, BlockPlan]
    options: FusionOptions
    wishes: PlacedWishes
    refused: Sequence[Remark]
    """The merges that were requested and are not legal, each with the reason."""

    @property
    def rules(self) -> Eligibility:
        """The properties of the nodes."""
        return self.profiles.rules

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group, by its properties or by a wish; None if it can."""
        return unfit(self.rules, self.wishes, node)


def plans_of(history: History, options: FusionOptions) -> Plans:
    """Returns the plans of the last graph of a history; they are cached for registered policies without wishes, and computed each
    time for a user's function."""
    if POLICIES.get(options.policy.name) is options.policy and not options.wishes:
        return once(history.final, options, lambda: _plan(history, options))
    return _plan(history, options)


def _plan(history: History, options: FusionOptions) -> Plans:
    graph, wishes = history.final, place_wishes(options.wishes, history)
    profiles = profiles_of(graph, exact=options.exact)
    plans: dict[Block, BlockPlan] = {}
    for block in fusible_blocks(graph):
        plans[block] = BlockPlan(dependences(graph, block), profiles, options.limits, wishes)
    refused = merge_first(plans, graph, wishes)
    for plan in plans.values():
        options.policy.grow(plan)
    return Plans(profiles, plans, options, wishes, refused)


def fusible_blocks(graph: Graph) -> Iterator[Block]:
    """Yields each block that is reached through ifs and loops only, and so not inside a group or an unknown op, in textual order."""
    stack = [graph.body]
    while stack:
        block = stack.pop()
        yield block
        inside = [inner for node in block.nodes if node.op in CONTROL_FLOW for inner in node.blocks]
        stack.extend(reversed(inside))
