"""Lines of earlier states: those of removed nodes, and of nodes that passes rewrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from irscope._base.escaping import shortened
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_node
from irscope.report.history.node_lifetimes import Lives, Stretch
from irscope.report.view_models import EarlierLine, GoneLine, TextView
from irscope.transforms.history import History

__all__ = ["earlier_lines", "gone_lines"]


def gone_lines(
    history: History, passes: Sequence[Stretch], found: Lives, text: TextView, names: Mapping[Value, str]
) -> list[GoneLine]:
    """A line for each removed node, placed above the next node of its graph that still has a line."""
    own_line = {node: line for line, node in reversed(list(enumerate(text["nodes"]))) if node}
    line_of = dict(own_line)
    for group in found.groups:
        line_of.update((node.id, line_of[group.id]) for node in group.blocks[0].nodes)
    last = {node.id for node in history.final.nodes()}
    lines: dict[int, GoneLine] = {}
    over: dict[int, int] = {}
    """The removed node directly above each line (keyed by number) or removed node (keyed by -1 - id)."""
    for at, stretch in reversed(list(enumerate(passes))):
        graph = stretch.record.before
        line = place = len(text["lines"]) - 1
        for node in reversed(list(graph.nodes())):
            if node.id in last:
                line = place = line_of[node.id]
                continue
            if node.id in lines:
                line, place = lines[node.id]["above"], -1 - node.id
                continue
            instead = _instead(history, at, node)
            if instead is None:
                lines[node.id] = _gone_line(history, at, node, line, found, names)
                _put(over, node.id, place)
                place = -1 - node.id
            else:  # directly above the new node
                new = lines.get(instead.id)
                own = new["above"] if new is not None else own_line[instead.id]
                lines[node.id] = _gone_line(history, at, node, own, found, names)
                _put(over, node.id, own if new is None else -1 - instead.id)
                if own == line_of.get(instead.id, own):  # what was above it is outside the groups too
                    line, place = own, -1 - node.id
    return [lines[id] for line in sorted(key for key in over if key >= 0) for id in _chain(over, line)]


def earlier_lines(passes: Sequence[Stretch], names: Mapping[Value, str]) -> Iterator[EarlierLine]:
    """The earlier form of lines that passes rewrote or removed; a merge's changes inside its group are shown by the group."""
    for stretch in passes:
        if not stretch.steps:
            continue
        before, after = stretch.record.before, stretch.record.after
        kept = {node.id: node for node in after.nodes()}
        for node in before.nodes():
            new = kept.get(node.id)
            if new is not None and new is not node and not _is_inside(after, new, before):
                line = _line(before, node, names)
                if line != _line(after, new, names):
                    values = [value.id for value in (*node.outputs, *node.inputs)]
                    yield EarlierLine(node=node.id, text=shortened(line), values=values, until=stretch.last)
        if before.outputs != after.outputs:
            returned = ", ".join(f"%{names[value]}" for value in before.outputs)
            values = [value.id for value in before.outputs]
            yield EarlierLine(node=0, text=f"  return ({returned})", values=values, until=stretch.last)


def _is_inside(graph: Graph, node: Node, before: Graph) -> bool:
    """Whether a node is in a group that an earlier graph does not have."""
    group = graph.owner.get(graph.block_of[node])
    return group is not None and group.op.endswith("Group") and group not in before.position


def _line(graph: Graph, node: Node, names: Mapping[Value, str]) -> str:
    return "  " * (_depth(graph, node) + 1) + print_node(node, names)


def _put(over: dict[int, int], id: int, place: int) -> None:
    """Place a removed node directly above a line or another removed node, below those already there."""
    if place in over:
        over[-1 - id] = over[place]
    over[place] = id


def _instead(history: History, at: int, node: Node) -> Node | None:
    """The node whose result replaces that of a removed node, in the graph after the pass or in the last one."""
    if not node.outputs:
        return None
    after = history.records[at].after.producer.get(node.outputs[0])
    if after is not None:
        return after
    value = history.forward(node.outputs[0], at)
    return history.final.producer.get(value) if value is not None else None


def _chain(over: Mapping[int, int], line: int) -> list[int]:
    """The removed nodes above a line, top down."""
    found = []
    place = line
    while place in over:
        found.append(over[place])
        place = -1 - over[place]
    return found[::-1]


def _gone_line(history: History, at: int, node: Node, above: int, found: Lives, names: Mapping[Value, str]) -> GoneLine:
    graph = history.records[at].before
    now = history.forward(node.outputs[0], at) if node.outputs else None
    return GoneLine(
        node=node.id,
        text=shortened(_line(graph, node, names)),
        values=[value.id for value in (*node.outputs, *node.inputs)],
        above=above,
        since=found.since.get(node.id, 0),
        until=found.until[node.id],
        became=now.id if now is not None else 0,
    )


def _depth(graph: Graph, node: Node) -> int:
    """The indentation of a node: two levels for each block around it below the body."""
    depth = 0
    while (owner := graph.owner.get(graph.block_of[node])) is not None:
        depth, node = depth + 2, owner
    return depth
