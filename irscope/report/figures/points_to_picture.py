"""A whole points-to graph as boxes and edges: one box per class of elements, labelled with its values."""

from __future__ import annotations

from collections.abc import Sequence

from irscope.analysis.alias import AliasDb
from irscope.ir import Value
from irscope.report.view_models import Box, Edge, GraphView
from irscope.report.words import plural

__all__ = ["points_to_picture"]

_MOST_CLASSES = 400
_MOST_NAMES = 3


def points_to_picture(db: AliasDb, values: Sequence[Value | str] | Value | str | None = None) -> GraphView:
    """The classes that share memory with another, or those of some values: only the first in program order if there are very many.

    An arrow leads to what a value may be, or to what a container holds.
    """
    shown = db.memory_classes(values)
    drawn = shown[:_MOST_CLASSES]
    ids = {each.place: k + 1 for k, each in enumerate(drawn)}
    boxes = [
        Box(
            id=ids[each.place], parent=0, kind="op", label=", ".join(each.names[:_MOST_NAMES]),
            detail=_detail(len(each.names), each.is_written, each.is_outside), category="memory" if each.is_outside else "view",
            values=[], writes=each.is_written, equivalence_class=-1, size=1,
        )
        for each in drawn
    ]  # fmt: skip
    edges = [
        Edge(source=ids[each.place], target=ids[target], value=0)
        for each in drawn
        for target in (*each.targets, *each.holds)
        if target in ids
    ]
    return GraphView(boxes=boxes, edges=edges, closed=[])


def _detail(names: int, is_written: bool, is_outside: bool) -> str:
    said = [plural(names, "name")] if names > _MOST_NAMES else []
    said += ["from outside"] if is_outside else []
    return " · ".join([*said, *(["written"] if is_written else [])])
