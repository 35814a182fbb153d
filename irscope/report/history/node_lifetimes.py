"""The states of a history in which each node exists, in terms of the nodes of its last graph.

State k is the program after k steps. A pass records steps and produces a graph. A node missing from the next graph was
removed by the step that names it, or else by the last step of the pass. A new node was created by the step that names
it, or by the step that removed the node whose value it produces; a copy inside a fusion group was created by the first
merge into that group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from irscope.ir import Graph, Node, Value
from irscope.transforms.base import PassRecord
from irscope.transforms.history import History, Step

__all__ = ["Lives", "Stretch", "lives", "lifetimes"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps of one pass and its record."""

    record: PassRecord
    first: int
    """The number of steps before it."""
    steps: tuple[Step, ...]

    @property
    def last(self) -> int:
        """The state after the pass."""
        return self.first + len(self.steps)


@dataclass(frozen=True)
class Lives:
    """When nodes are created and removed, and which groups they were merged into."""

    since: dict[int, int] = field(default_factory=dict)
    """The first state of each node created by a step."""
    until: dict[int, int] = field(default_factory=dict)
    """The first state without each node removed by a step."""
    groups: dict[Node, list[Node]] = field(default_factory=dict)
    """The fusion groups of the last graph that steps created, with the nodes merged into them; copies are left out."""
    merges: dict[int, Node] = field(default_factory=dict)
    """The group that each merging step merged into, by state."""
    copies: set[int] = field(default_factory=set)
    """Nodes created together with their group: copies of constants."""
    loose: dict[int, Node] = field(default_factory=dict)
    """Nodes merged into groups, by id, as they were before."""


def lifetimes(history: History) -> list[Stretch]:
    """The steps of a history by pass. A step belongs to the first pass of its name, at or after the pass of the previous step."""
    found: list[list[Step]] = [[] for _ in history.records]
    at = 0
    for step in history.steps:
        while history.records[at].name != step.pass_name:
            at += 1
        found[at].append(step)
    stretches, first = [], 0
    for record, steps in zip(history.records, found, strict=True):
        stretches.append(Stretch(record, first, tuple(steps)))
        first += len(steps)
    return stretches


def lives(history: History, passes: Sequence[Stretch]) -> Lives:
    """When each node is created and removed. Walks each graph once."""
    found = Lives()
    final = history.final
    initial = {node.id for node in history.initial.nodes()}
    group_of = {
        inner.id: group
        for group in final.nodes()
        if group.id not in initial and group.op.endswith("Group")
        for inner in group.blocks[0].nodes
    }
    for stretch in passes:
        _note(stretch, found, group_of)
    for group in dict.fromkeys(group_of.values()):
        found.groups[group] = [node for node in group.blocks[0].nodes if node.id not in found.copies]
    return found


def _note(stretch: Stretch, found: Lives, group_of: Mapping[int, Node]) -> None:
    """Record what one pass created, removed and merged."""
    before, after = _by_id(stretch.record.before), _by_id(stretch.record.after)
    named: dict[int, int] = {}
    for state, step in enumerate(stretch.steps, stretch.first + 1):
        for node in step.nodes:
            named.setdefault(node.id, state)
        group = _common_group(step.nodes, group_of)
        if group is not None and group.id in after and group.id not in before:
            found.merges[state] = group
            found.loose.update((node.id, before[node.id]) for node in step.nodes if node.id in before)
            found.since.setdefault(group.id, state)
    maker: dict[Value, int] = {}
    for id, node in before.items():
        if id not in after:
            found.until[id] = named.get(id, stretch.last)
            maker.update((value, found.until[id]) for value in node.outputs)
    for id, node in after.items():
        if id not in before and id not in found.since:
            group = group_of.get(id)
            if group is not None and group.id in after and group.id not in before and group.id in found.since:
                found.since[id] = found.since[group.id]
                found.copies.add(id)
                continue
            instead = next((maker[value] for value in node.outputs if value in maker), stretch.last)
            found.since[id] = named.get(id, instead)


def _common_group(nodes: Iterable[Node], group_of: Mapping[int, Node]) -> Node | None:
    """The group that contains all of several nodes at the end."""
    groups = {group_of.get(node.id) for node in nodes}
    return groups.pop() if len(groups) == 1 else None


def _by_id(graph: Graph) -> dict[int, Node]:
    return {node.id: node for node in graph.nodes()}
