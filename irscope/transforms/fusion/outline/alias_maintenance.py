"""How the alias db keeps up with a graph that is being fused: it follows the edits, or is built anew.

Merging changes nobody's aliases, so the plan does not depend on it; what it costs does. PyTorch built the db and the order
of the nodes anew after each merge, then once a block (PR #36345), and at last let one db follow the whole pass (PR
#37106): from 752 s to 5.2 s for one detector. Here the pass plans with one db, and the one of the fused graph follows
from it and the record of merges, when somebody asks for it. The other two ways are there to be compared: after each
merge, or before each block, they make the graph as it is by then, its db, and its dependences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, get_args

from irscope.analysis.alias.query import AliasDb
from irscope.analysis.dependence import Dependences, dependences
from irscope.errors import ArgumentError, PassError
from irscope.ir import Block, Edit, Erased, Graph, Merged, TensorType, Value
from irscope.transforms.base import PassRecord
from irscope.transforms.fusion.outline.outline import MAKES_NUMBERS, Groups
from irscope.transforms.fusion.policy import BlockPlan
from irscope.transforms.history import History

__all__ = ["AliasMaintenance", "Upkeep", "check_following", "upkeep_of"]

AliasMaintenance = Literal["follow", "rebuild-per-block", "rebuild-per-merge"]

_FEW: Final = 64
"""Values of which every pair is compared by `check_following`."""


def upkeep_of(choice: str, graph: Graph, db: AliasDb, groups: Groups) -> Upkeep:
    """The upkeep of this name, for a pass over a graph with its db."""
    names = get_args(AliasMaintenance)
    if choice not in names:
        told = ", ".join(map(repr, names))
        raise ArgumentError(f"there is no alias upkeep {choice!r}", hint=f"alias is {told}")
    return Upkeep(choice, graph, db, groups)


class Upkeep:
    """The db during one pass."""

    def __init__(self, choice: str, graph: Graph, db: AliasDb, groups: Groups) -> None:
        self.graph = graph
        """The graph that the db is of."""
        self.db = db
        self._choice = choice
        self._groups = groups

    def dependences(self, block: Block) -> Dependences:
        """Those of a block that no merge has touched."""
        if self._choice == "rebuild-per-block":
            self._rebuild()
        return dependences(self.graph, block, self.db)

    @property
    def on_merge(self) -> Callable[[BlockPlan], None] | None:
        """What a plan must tell of each merge; None if it need not."""
        return self._merged if self._choice == "rebuild-per-merge" else None

    def _merged(self, plan: BlockPlan) -> None:
        self._rebuild()
        block = next(block for block in self.graph.blocks() if block.id == plan.block.id)
        dependences(self.graph, block, self.db)

    def of(self, record: PassRecord) -> AliasDb:
        """The db after the pass."""
        if self.graph is not record.before:
            return self.db if self.graph is record.after else AliasDb(record.after)
        return self.db.follow(record)

    def _rebuild(self) -> None:
        self.graph = self._groups.so_far()
        self.db = AliasDb(self.graph, distinct_inputs=self.db.distinct_inputs)


def check_following(history: History, db: AliasDb) -> None:
    """Follow the merges of the last pass one by one, and compare the answers with a db built anew after each.

    Raises PassError at the first difference. `db` is the one of the graph before the pass. For debugging: it costs the
    number of merges times the size of the program.
    """
    steps = len(history.steps)
    merges = sum(isinstance(edit, Merged) for edit in history.records[-1].edits)
    for step in range(steps - merges, steps):
        record = _one_merge(history, step)
        db = db.follow(record)
        difference = next(_differences(db, AliasDb(record.after)), None)
        if difference is not None:
            what = f"after step {step + 1} the followed alias db and a new one disagree: {difference}"
            raise PassError(what, rule="alias-follows", hint="please report this with the program")


def _one_merge(history: History, step: int) -> PassRecord:
    """The record of one merge: what went into the group that is new, and the constants that it has copied."""
    before, after = history.graph_after(step), history.graph_after(step + 1)
    kept = set(after.nodes())
    ids = {node.id for node in kept}
    known = set(before.nodes())
    (group,) = [node for node in kept - known if node.op == "prim::FusionGroup"]
    inside = {node.id for node in group.blocks[0].nodes}
    edits: list[Edit] = []
    for block in before.blocks():
        owner = before.owner.get(block)
        if owner is not None and owner.op == "prim::FusionGroup":
            continue
        if block.id == after.block_of[group].id:
            grown = [n for n in block.nodes if n.id in inside or (n.op == "prim::FusionGroup" and n not in kept)]
            edits.append(Merged(tuple(grown), group, "merged"))
        edits += [Erased(node, "copied") for node in block.nodes if node.op in MAKES_NUMBERS and node.id not in ids]
    return PassRecord("merge", before, after, tuple(edits))


def _differences(followed: AliasDb, built: AliasDb) -> Iterator[str]:
    """What two dbs of one graph answer differently."""
    graph = built.graph
    values = [value for value in graph.values() if isinstance(value.type, TensorType)]
    for value in values:
        if followed.is_written(value) != built.is_written(value):
            yield f"whether %{graph.names[value]} is written"
        if followed.writers(value) != built.writers(value):
            yield f"who writes %{graph.names[value]}"
    some: list[Value] = values[:: max(1, len(values) // _FEW)]
    for a in some:
        for b in some:
            if bool(followed.may_alias(a, b)) != bool(built.may_alias(a, b)):
                yield f"whether %{graph.names[a]} may alias %{graph.names[b]}"
