"""What fused and what did not: the table of remarks, and a sentence for each node."""

from collections.abc import Mapping
from functools import cache

from irscope._base.nested import grouped
from irscope._base.words import plural
from irscope.ir import Node, Value
from irscope.ops.view_steps import byte_words, is_unknown
from irscope.report.view_models import Column, NeighbourView, TableView
from irscope.report.words import Renaming
from irscope.transforms.base import History
from irscope.transforms.fusion import GROUPING, Fusion

_COLUMNS = [
    Column(key="kind", label="remark", kind="text"),
    Column(key="rule", label="rule", kind="text"),
    Column(key="subject", label="where", kind="record"),
    Column(key="because", label="why", kind="text"),
]


def no_remarks() -> TableView:
    return TableView(columns=list(_COLUMNS), rows=[], selects=[])


def remarks_table(history: History, names: Mapping[Value, str], most: int | None = None) -> TableView:
    """One row per remark of all passes, missed ones first, as they can be acted on; equal ones of a pass are one row, with
    their number. `most` limits the rows; the table then says how many there are. `names` are those of `names_in(history)`."""
    by_id = {value.id: name for value, name in names.items()}
    remarks = ((step, remark) for step, record in enumerate(history.records) for remark in record.remarks)
    alike = grouped(((step, remark.kind, remark.rule, remark.because), remark) for step, remark in remarks)
    given = sorted(alike.items(), key=lambda item: ("missed", "analysis", "passed").index(item[0][1]))
    renaming = cache(lambda step: Renaming(history.records[step].before, by_id))
    rows: list[list[str | float | None]] = []
    selects = []
    for (step, kind, rule, because), several in given[:most]:
        subject, times = several[0].subject, f" (×{len(several)})" if len(several) > 1 else ""
        where = f"%{names[subject]}" if isinstance(subject, Value) and subject in names else repr(subject)
        if isinstance(subject, Node):
            made = next((f"%{names[value]}" for value in subject.outputs if value in names), "")
            where = f"{subject.op.partition('::')[2]} {made}".strip()
        rows.append([kind, rule, where, renaming(step)(because) + times])
        evidence = dict.fromkeys(each.id for remark in several for each in (remark.subject, *remark.evidence))
        selects.append(list(evidence))
    table = TableView(columns=list(_COLUMNS), rows=rows, selects=selects)
    if len(rows) < len(given):
        table["total"] = len(given)
    return table


def planner_renaming(fusion: Fusion, names: Mapping[Value, str]) -> Renaming:
    """The names of the graph before grouping, which the planner uses, mapped to the final names: unnamed values had other numbers."""
    planned = next(record.before for record in reversed(fusion.history.records) if record.name == GROUPING)
    return Renaming(planned, {value.id: name for value, name in names.items()})


def fusion_sentence(fusion: Fusion, node: Node, rename: Renaming) -> str:
    """Which group a node is in, or why it is in none."""
    graph = fusion.graph
    around = graph.owner.get(graph.block_of[node])
    if fusion.made(node):
        count = sum(inner.op != "prim::Constant" for inner in node.blocks[0].nodes)
        if node.attrs.get("kind") == "view":
            return f"a group of {plural(count, 'view')}, which needs no kernel"
        before, after = fusion.traffic(node)
        moved = f"; it moves {byte_words(after)} where its nodes one by one move {byte_words(before)}" if after != 0 else ""
        moved = "; how many bytes it moves is known only at run time" if is_unknown(after) and is_unknown(before) else moved
        return f"a fusion group of {plural(count, 'node')} that runs as one kernel{moved}"
    if around is not None and fusion.made(around):
        results = ", ".join(f"%{graph.names[value]}" for value in around.outputs)
        return f"in the fusion group that makes {results}"
    verdict = fusion.why_alone(node)
    return f"in no group, because {rename(verdict.because)}"


_MOST_NEIGHBOURS = 6  # The most neighbours shown on each side of a group.


def neighbour_views(fusion: Fusion, group: Node, rename: Renaming) -> list[NeighbourView]:
    """The producers and consumers of a group, each with the reason why it is not in the group; empty for other nodes."""
    graph = fusion.graph
    if not fusion.made(group):
        return []
    before = dict.fromkeys(graph.producer.get(value) for value in group.inputs)
    after = dict.fromkeys(use.user for value in group.outputs for use in graph.users.get(value, ()))
    found: list[NeighbourView] = []
    for feeds, nodes in ((True, before), (False, after)):
        near = [node for node in nodes if isinstance(node, Node) and node.op != "prim::Constant"]
        for node in near[:_MOST_NEIGHBOURS]:
            verdict = fusion.why_not(group, node)
            if not verdict:
                found.append(NeighbourView(id=node.id, feeds=feeds, because=rename(verdict.because)))
    return found
