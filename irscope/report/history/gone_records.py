"""The values and nodes that passes removed, each with the last state that contains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from irscope.ir import Graph, Node, Value
from irscope.report.history.node_lifetimes import lifetimes
from irscope.transforms.history import History

__all__ = ["Gone", "gone_records"]


class Gone(NamedTuple):
    """A record that is not in the last graph."""

    record: Value | Node
    graph: Graph
    """The last graph between passes that contains it."""
    state: int
    """The state of that graph."""
    by: str
    """The pass that removed it."""
    became: Value | None
    """The value that replaced it, or its first result."""


def gone_records(history: History) -> Mapping[int, Gone]:
    """The removed records of a history, by id. Walks each graph once."""
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
