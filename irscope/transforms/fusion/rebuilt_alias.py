"""Fusion as compilers once did it: the alias db is built anew while groups grow.

Merging changes nobody's aliases, so the plan does not depend on how the db keeps up; what it costs does. PyTorch built
the db and the order of the nodes anew after each merge, then once a block (PR #36345), and at last let one db follow the
whole pass (PR #37106): from 752 s to 5.2 s for one detector. `fuse` plans with one db, and the one of the fused graph
follows from it. This is for comparing: before each block, or after each merge, the graph is made as it is by then, its
db, and its dependences.
"""

from __future__ import annotations

from typing import Literal

from irscope.analysis.alias.query import AliasDb
from irscope.analysis.dependence import Dependences, dependences_by
from irscope.analysis.per_graph import once
from irscope.errors import ArgumentError
from irscope.ir import Block, Graph
from irscope.transforms.fusion.fuse_pass import grouped
from irscope.transforms.fusion.fusion_result import Fusion
from irscope.transforms.fusion.legality import profiles_of
from irscope.transforms.fusion.outline import Groups
from irscope.transforms.fusion.planning import MAX_ARGUMENTS, MAX_NODES, Plans, fusible_blocks, the_graph, wanted
from irscope.transforms.fusion.policy import NOWHERE, BlockPlan, Score
from irscope.transforms.fusion.prepare import prepared

__all__ = ["fuse_rebuilding"]


def fuse_rebuilding(
    graph: Graph, per: Literal["block", "merge"], *, policy: str | Score = "greedy", min_size: int = 2
) -> Fusion:
    """What `fuse` gives, with a new alias db before each block or after each merge.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu(%a)
    ...   return (%b)''')
    >>> fuse_rebuilding(g, "merge")
    <Fusion of 'graph': 2 nodes in 1 group>
    """
    if per not in ("block", "merge"):
        raise ArgumentError(f"an AliasDb is not rebuilt per {per!r}", hint='per is "block" or "merge"')
    asked = wanted(policy, min_size, MAX_ARGUMENTS, MAX_NODES, None)
    history = prepared(the_graph(graph, "fuse_rebuilding"), asked)
    fitness = profiles_of(history.final)
    plans: dict[Block, BlockPlan] = {}
    groups = Groups(fitness, plans.values(), min_size=min_size)
    rebuilding = _Rebuilding(groups)
    for block in fusible_blocks(history.final):
        plan = plans[block] = BlockPlan(rebuilding.dependences(block), fitness, asked.limits)
        if per == "merge":
            plan.on_merge = rebuilding.merged
        asked.policy.grow(plan)
    fusion = grouped(history, Plans(fitness, plans, asked, NOWHERE, ()))
    once(fusion.graph, AliasDb, lambda: AliasDb(fusion.graph))
    return fusion


class _Rebuilding:
    """Builds the db of the graph as it is after the merges so far."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def dependences(self, block: Block) -> Dependences:
        """Those of a block that no merge has touched."""
        return dependences_by(AliasDb(self._groups.so_far()), block)

    def merged(self, plan: BlockPlan) -> None:
        """The graph after one merge more, its db, and the order of the nodes of the block."""
        graph = self._groups.so_far()
        block = next(block for block in graph.blocks() if block.id == plan.block.id)
        dependences_by(AliasDb(graph), block)
