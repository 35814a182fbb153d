"""Whether an alias db that follows the merges of a fusion answers as one that is built anew after each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope.analysis.alias.query import AliasDb
from irscope.ir import Edit, Erased, Merged, TensorType, Value
from irscope.transforms.base import PassRecord
from irscope.transforms.grouping.outline import MAKES_NUMBERS
from irscope.transforms.history import History

_FEW: Final = 64
"""Values of which every pair is compared."""


def check_following(history: History, db: AliasDb | None = None) -> None:
    """Follow the merges of the last pass one by one, and compare the answers with a db built anew after each.

    `db` is the one of the graph before the pass.
    """
    db = AliasDb(history.records[-1].before) if db is None else db
    steps = len(history.steps)
    merges = sum(isinstance(edit, Merged) for edit in history.records[-1].edits)
    for step in range(steps - merges, steps):
        record = _one_merge(history, step)
        db = db.follow(record)
        difference = next(differences(db, AliasDb(record.after)), None)
        assert difference is None, f"after step {step + 1} the followed alias db and a new one disagree: {difference}"


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


def differences(followed: AliasDb, built: AliasDb) -> Iterator[str]:
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
