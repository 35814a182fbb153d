"""A history on one picture: the last graph, and what each step did to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irscope.ir import Graph, Node, Value
from irscope.report.history.earlier_lines import earlier_lines, gone_lines
from irscope.report.history.node_lifetimes import Lives, Stretch, lifetimes, lives
from irscope.report.value_names import Renaming, names_in
from irscope.report.view_models import MadeGroup, PassView, StepView, TextView, TimelineView
from irscope.transforms.history import History, Step

__all__ = ["timeline_view"]

_MOST_NAMED = 4


def timeline_view(history: History, text: TextView) -> TimelineView | None:
    """The steps of a history on the text of its last graph; None if no pass changed anything.

    >>> import irscope as irs
    >>> from irscope.report.panes.text_view import text_view
    >>> f = irs.fuse(irs.parse('''graph(%x : Float(8)):
    ...   %a : Float(8) = aten::relu(%x)
    ...   %b : Float(8) = aten::tanh(%a)
    ...   return (%b)'''))
    >>> view = timeline_view(f.history, text_view(f.graph))
    >>> view["steps"][0]["did"], view["steps"][0]["saved"]
    ('merged %a and %b into group 0', 64)
    """
    passes = lifetimes(history)
    if not any(stretch.steps for stretch in passes):
        return None
    found = lives(history, passes)
    number = {group: k for k, group in enumerate(node for node in history.final.nodes() if node in found.groups)}
    names = _Names(history)
    steps = [step for stretch in passes for step in _steps(stretch, found, number, names)]
    return TimelineView(
        passes=[
            PassView(name=s.record.name, first=s.first, steps=len(s.steps)) for s in passes
        ],
        steps=steps,
        groups=[_group(group, found.groups[group], found.loose) for group in number],
        since={id: state for id, state in found.since.items() if id in names.last},
        gone=gone_lines(history, passes, found, text, names.of),
        earlier=list(earlier_lines(passes, names.of)),
        names=_former_names(found, names),
        kept=_kept(history.final, steps, found),
    )


class _Names:
    """Names of nodes in terms of the last graph."""

    def __init__(self, history: History) -> None:
        self.of = names_in(history)
        self.final = history.final.names
        self.last = {node.id: node for node in history.final.nodes()}
        self.by_id = {value.id: name for value, name in self.of.items()}

    def listed(self, nodes: Sequence[Node]) -> str:
        """The first few nodes, named by their first results."""
        said = [f"%{self.of[node.outputs[0]]}" if node.outputs else node.op for node in nodes[:_MOST_NAMED]]
        if len(nodes) > _MOST_NAMED:
            said.append(f"{len(nodes) - _MOST_NAMED:,} more")
        return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _steps(stretch: Stretch, found: Lives, number: Mapping[Node, int], names: _Names) -> list[StepView]:
    rename = Renaming(stretch.record.before, names.by_id)
    return [
        _step(state, step, found, number, names, rename) for state, step in enumerate(stretch.steps, stretch.first + 1)
    ]


def _step(
    state: int, step: Step, found: Lives, number: Mapping[Node, int], names: _Names, rename: Renaming
) -> StepView:
    group = found.merges.get(state)
    if group is None:
        return _whole_pass(state, step, found, names)
    return StepView(
        did=f"merged {names.listed(step.nodes)} into group {number[group]}",
        because=rename(step.because),
        rule=step.rule,
        nodes=[node.id for node in step.nodes],
        saved=step.bytes_saved,
        group=group.id,
    )


def _whole_pass(state: int, step: Step, found: Lives, names: _Names) -> StepView:
    """The view of a step that merged nothing: how much it did, and to which nodes."""
    went = [node for node in step.nodes if found.until.get(node.id) == state]
    came = [found.loose.get(id, node) for id, node in names.last.items() if found.since.get(id) == state]
    parts = [f"{what} {names.listed(nodes)}" for what, nodes in (("removed", went), ("made", came)) if nodes]
    return StepView(
        did=": ".join([step.because, *([", ".join(parts)] if parts else [])]),
        because="",
        rule=step.rule,
        nodes=list(dict.fromkeys([*(node.id for node in step.nodes), *(node.id for node in came)])),
        saved=step.bytes_saved,
        group=0,
    )


def _group(group: Node, members: Sequence[Node], before: Mapping[int, Node]) -> MadeGroup:
    """A group, with the outside names of its values: its members read and produced other values before they were merged."""
    others: dict[Value, Value] = {}
    for inner in members:
        outer = before.get(inner.id)
        if outer is None or (len(outer.inputs), len(outer.outputs)) != (len(inner.inputs), len(inner.outputs)):
            continue  # a later pass rewrote it
        pairs = (*zip(inner.inputs, outer.inputs, strict=True), *zip(inner.outputs, outer.outputs, strict=True))
        others.update((a, b) for a, b in pairs if a is not b)
    return MadeGroup(
        id=group.id,
        nodes=[node.id for node in members],
        inside=[value.id for value in others],
        outside=[value.id for value in others.values()],
    )


def _former_names(found: Lives, names: _Names) -> dict[int, str]:
    """The names of removed values that members of groups read or produced before."""
    used = dict.fromkeys(value for node in found.loose.values() for value in (*node.inputs, *node.outputs))
    return {value.id: names.of[value] for value in used if value not in names.final}


def _kept(graph: Graph, steps: Sequence[StepView], found: Lives) -> dict[int, int]:
    """The state from which each value that does not leave its group is used only inside it.

    Merges form a forest in which each tree is a group so far, with smaller trees below larger ones. Two nodes were joined
    by the latest merge on the path between them, and paths are logarithmic.
    """
    above: dict[int, tuple[int, int]] = {}
    size: dict[int, int] = {}

    def top(id: int) -> int:
        while id in above:
            id = above[id][0]
        return id

    for state, step in enumerate(steps, 1):
        first, *others = step["nodes"] if step["group"] else [0]
        for other in others:
            a, b = top(first), top(other)
            if a != b:
                fewer, more = (a, b) if size.get(a, 1) < size.get(b, 1) else (b, a)
                above[fewer] = (more, state)
                size[more] = size.get(more, 1) + size.get(fewer, 1)
    kept: dict[int, int] = {}
    for group, members in found.groups.items():
        returned = set(group.blocks[0].returns)
        for node in members:
            for value in node.outputs:
                readers = [use.user for use in graph.users.get(value, ()) if isinstance(use.user, Node)]
                states = [_together(above, node.id, reader.id) for reader in readers]
                if value not in returned and states and 0 not in states:
                    kept[value.id] = max(states)
    return kept


def _together(above: Mapping[int, tuple[int, int]], a: int, b: int) -> int:
    """The state whose merge joined two nodes; 0 if none did."""
    latest: dict[int, int] = {a: 0}
    state = 0
    while a in above:
        a, step = above[a]
        state = max(state, step)
        latest[a] = state
    state = 0
    while b not in latest:
        if b not in above:
            return 0
        b, step = above[b]
        state = max(state, step)
    return max(latest[b], state)
