"""The values and nodes that passes took away, each with the last state of the program that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from irscope.ir import Graph, Node, Value
from irscope.report.history.node_lifetimes import lifetimes
from irscope.transforms.history import History

__all__ = ["Gone", "gone_records"]


class Gone(NamedTuple):
    """A record that the last graph has no more."""

    record: Value | Node
    graph: Graph
    """The last one of those between passes that has it."""
    state: int
    """Of that graph."""
    by: str
    """The pass that took it away."""
    became: Value | None
    """What is read instead of it, or of its first result."""


def gone_records(history: History) -> Mapping[int, Gone]:
    """By id. Walks each graph once."""
    last = {record.id for record in _records(history.final)}
    found: dict[int, Gone] = {}
    for at, stretch in reversed(list(enumerate(lifetimes(history)))):
        graph = stretch.record.before
        if graph is stretch.record.after:
            continue
        for record in _records(graph):
            if record.id not in last and record.id not in found:
                value = record if isinstance(record, Value) else next(iter(record.outputs), None)
                became = history.forward(value, at) if value is not None else None
                found[record.id] = Gone(record, graph, stretch.first, stretch.record.name, became)
    return found


def _records(graph: Graph) -> Iterable[Value | Node]:
    yield from graph.values()
    yield from graph.nodes()
