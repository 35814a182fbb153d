"""What fused and what did not: remarks as a table, and a sentence for each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from irscope.ir.core import Node, Value
from irscope.report.view_models import Column, TableView
from irscope.transforms.base import Remark
from irscope.transforms.fusion import Fusion

__all__ = ["fusion_sentence", "remarks_table"]

_COLUMNS = [
    Column(key="kind", label="remark", kind="text"),
    Column(key="rule", label="rule", kind="text"),
    Column(key="subject", label="where", kind="record"),
    Column(key="because", label="why", kind="text"),
]


def remarks_table(remarks: Iterable[Remark], names: Mapping[Value, str]) -> TableView:
    """One row per remark, missed ones first: those are the ones to act on."""
    given = sorted(remarks, key=lambda remark: ("missed", "analysis", "passed").index(remark.kind))
    rows: list[list[str | float | None]] = []
    selects = []
    for remark in given:
        rows.append([remark.kind, remark.rule, _told(names, remark.subject), remark.because])
        evidence = dict.fromkeys([remark.subject.id, *(record.id for record in remark.evidence)])
        selects.append(list(evidence))
    return TableView(columns=list(_COLUMNS), rows=rows, selects=selects)


def _told(names: Mapping[Value, str], subject: Value | Node) -> str:
    if isinstance(subject, Value):
        return f"%{names[subject]}" if subject in names else repr(subject)
    made = next((f"%{names[value]}" for value in subject.outputs if value in names), "")
    return f"{subject.op.partition('::')[2]} {made}".strip()


def fusion_sentence(fusion: Fusion, node: Node) -> str:
    """Which group a node is in, or why it is in none."""
    graph = fusion.graph
    around = graph.owner.get(graph.block_of[node])
    if node in fusion.groups:
        count = sum(inner.op != "prim::Constant" for inner in node.blocks[0].nodes)
        return f"a fusion group of {count} nodes that runs as one kernel"
    if around is not None and around in fusion.groups:
        results = ", ".join(f"%{graph.names[value]}" for value in around.outputs)
        return f"in the fusion group that makes {results}"
    verdict = fusion.why_alone(node)
    return f"in no group, because {verdict.because}"
