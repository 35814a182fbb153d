"""The steps of a history on the text of its last graph, and the programs that it goes through."""

from collections.abc import Iterator, Mapping, Sequence

from irscope._base.words import shortened
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_node
from irscope.report.states import Lives, Stretch, lifetimes, lives
from irscope.report.view_models import EarlierLine, GoneLine, MadeGroup, PassView, ProgramStop, StepView, TextView, TimelineView
from irscope.report.words import Renaming, depth_of, names_in
from irscope.transforms.base import History, Step

# The programs of a history by the names users know: as written, pure, fused.

_WORDS = {"functionalize": "pure", "fuse-groups": "fused", "autodiff-slice": "sliced"}
"""The name of the program after a pass; otherwise the name of the pass."""
_MOST_STOPS = 6


def program_stops(history: History) -> list[ProgramStop]:
    """The program as written and after each of the last few passes that changed it; empty if none did."""
    stops = [
        ProgramStop(label=_WORDS.get(record.name, record.name), state=last, hint=f"the program after {record.name}")
        for record, first, last in zip(history.records, history.ends, history.ends[1:], strict=False)
        if last > first
    ]
    return [ProgramStop(label="as written", state=0, hint="the program as it was loaded"), *stops[-_MOST_STOPS:]] if stops else []


def program_name(history: History, state: int) -> str:
    """The name of the program of a state, for use in a sentence."""
    said = [stop["label"] for stop in program_stops(history) if stop["state"] <= state]
    return f"the program {said[-1]}" if len(said) == 1 else f"the {said[-1]} program" if said else "the program"


# Lines of earlier states: those of removed nodes, and of nodes that passes rewrote.


def gone_lines(history: History, passes: Sequence[Stretch], found: Lives, text: TextView, names: Mapping[Value, str]) -> list[GoneLine]:
    """A line for each removed node, placed above the next node of its graph that still has a line."""
    own_line = {node: line for line, node in reversed(list(enumerate(text["nodes"]))) if node}
    line_of = dict(own_line)
    for group in found.groups:
        line_of.update((node.id, line_of[group.id]) for node in group.blocks[0].nodes)
    last = {node.id for node in history.final.nodes()}
    lines: dict[int, GoneLine] = {}
    over: dict[int, int] = {}  # The removed node directly above each line (keyed by number) or removed node (keyed by -1 - id).
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
            # above the node whose result replaces its own, in the graph after the pass or in the last one; otherwise above the next line
            now = history.forward(node.outputs[0], at) if node.outputs else None
            after = stretch.record.after.producer.get(node.outputs[0]) if node.outputs else None
            instead = after or (history.final.producer.get(now) if now is not None else None)
            above, under, own = line, place, -1 - node.id
            if instead is not None:
                new = lines.get(instead.id)
                above = new["above"] if new is not None else own_line[instead.id]
                under = above if new is None else -1 - instead.id
            lines[node.id] = GoneLine(
                node=node.id, text=shortened(_line(graph, node, names)), values=[value.id for value in (*node.outputs, *node.inputs)],
                above=above, since=found.since.get(node.id, 0), until=found.until[node.id], became=now.id if now is not None else 0,
            )  # fmt: skip
            if under in over:  # below those that are already there
                over[own] = over[under]
            over[under] = node.id
            if instead is None or above == line_of.get(instead.id, above):  # what was above it is outside the groups too
                line, place = above, own
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
    return "  " * (depth_of(graph, node) + 1) + print_node(node, names)


def _chain(over: Mapping[int, int], line: int) -> list[int]:
    """The removed nodes above a line, top down."""
    found = []
    place = line
    while place in over:
        found.append(over[place])
        place = -1 - over[place]
    return found[::-1]


# A history on one picture: the last graph, and what each step did to it.

_MOST_NAMED = 4


def timeline_view(history: History, text: TextView) -> TimelineView | None:
    """The steps of a history on the text of its last graph; None if no pass changed anything."""
    passes = lifetimes(history)
    if not any(stretch.steps for stretch in passes):
        return None
    found = lives(history, passes)
    number = {group: k for k, group in enumerate(node for node in history.final.nodes() if node in found.groups)}
    names = _Names(history)
    steps: list[StepView] = []
    for stretch in passes:
        rename = Renaming(stretch.record.before, names.by_id)
        steps += [_step(state, step, found, number, names, rename) for state, step in enumerate(stretch.steps, stretch.first + 1)]
    used = dict.fromkeys(value for node in found.loose.values() for value in (*node.inputs, *node.outputs))
    view = TimelineView(
        passes=[PassView(name=s.record.name, first=s.first, steps=len(s.steps)) for s in passes], steps=steps,
        groups=[_group(group, found.groups[group], found.loose) for group in number],
        since={id: state for id, state in found.since.items() if id in names.last},
        gone=gone_lines(history, passes, found, text, names.of), earlier=list(earlier_lines(passes, names.of)),
        names={value.id: names.of[value] for value in used if value not in names.final}, kept=_kept(history.final, steps, found),
    )  # fmt: skip
    if not all(step.is_known for stretch in passes for step in stretch.steps):
        view["at_least"] = True
    return view


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


def _step(state: int, step: Step, found: Lives, number: Mapping[Node, int], names: _Names, rename: Renaming) -> StepView:
    group = found.merges.get(state)
    if group is not None:
        return StepView(
            did=f"merged {names.listed(step.nodes)} into group {number[group]}", because=rename(step.because), rule=step.rule,
            nodes=[node.id for node in step.nodes], saved=step.bytes_saved, group=group.id,
        )  # fmt: skip
    went = [node for node in step.nodes if found.until.get(node.id) == state]
    came = [found.loose.get(id, node) for id, node in names.last.items() if found.since.get(id) == state]
    parts = [f"{what} {names.listed(nodes)}" for what, nodes in (("removed", went), ("made", came)) if nodes]
    return StepView(
        did=": ".join([step.because, *([", ".join(parts)] if parts else [])]), because="", rule=step.rule,
        nodes=list(dict.fromkeys([*(node.id for node in step.nodes), *(node.id for node in came)])), saved=step.bytes_saved, group=0,
    )  # fmt: skip


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
        id=group.id, nodes=[node.id for node in members], inside=[value.id for value in others],
        outside=[value.id for value in others.values()],
    )  # fmt: skip


def _kept(graph: Graph, steps: Sequence[StepView], found: Lives) -> dict[int, int]:
    """For each value that stays inside its group: the first state in which no node outside uses it.

    A merge moves the nodes of the smaller parts into the largest one, so that each node moves a logarithmic number of times.
    """
    readers: dict[tuple[int, int], list[int]] = {}  # by value and maker
    near: dict[int, list[int]] = {}
    for group, members in found.groups.items():
        returned = set(group.blocks[0].returns)
        for value, maker in {value: node.id for node in members for value in node.outputs if value not in returned}.items():
            mine = readers[value.id, maker] = [use.user.id for use in graph.users.get(value, ()) if isinstance(use.user, Node)]
            near.setdefault(maker, []).extend(mine)
            for reader in mine:
                near.setdefault(reader, []).append(maker)
    part: dict[int, list[int]] = {}
    joined: dict[tuple[int, int], int] = {}
    for state, step in enumerate(steps, 1):
        merged = [part.setdefault(node, [node]) for node in (step["nodes"] if step["group"] else ())]
        largest = max(merged, key=len, default=[])
        for moved in merged:
            if moved is largest or part[moved[0]] is largest:
                continue
            largest += moved
            part.update(dict.fromkeys(moved, largest))
            for pair in ((node, other) for node in moved for other in near.get(node, ()) if part.get(other) is largest):
                joined.setdefault((min(pair), max(pair)), state)
    states = {value: [joined.get((min(maker, other), max(maker, other)), 0) for other in mine] for (value, maker), mine in readers.items()}
    return {value: max(each) for value, each in states.items() if each and 0 not in each}
