"""Equivalence classes as boxes that contain their members, largest first."""

from __future__ import annotations

from collections.abc import Mapping

from irscope._base.escaping import shortened
from irscope.ir import Graph, Node, Value
from irscope.report.view_models import Box, BoxKind, GraphView
from irscope.transforms.dedup import Dedup

__all__ = ["classes_picture"]

_MOST_CLASSES = 40
_MOST_MEMBERS = 12


def classes_picture(dedup: Dedup) -> GraphView:
    """The classes of any program as boxes that contain their members."""
    names = dedup.source.names if isinstance(dedup.source, Graph) else {}
    boxes: list[Box] = []
    contents = dedup.table()["ops" if dedup.constants is None else "shape"]
    for cls in dedup.classes[:_MOST_CLASSES]:
        around = -1 - cls.index
        detail = shortened(str(contents.loc[cls.index]), 34)
        boxes.append(_box(around, 0, "module", f"class {cls.index} ×{len(cls)}", detail, -1))
        for member in cls.members[:_MOST_MEMBERS]:
            boxes.append(_box(1 + len(boxes), around, "op", shortened(_called(member, names), 40), detail, cls.index))
        if len(cls) > _MOST_MEMBERS:
            boxes.append(_box(1 + len(boxes), around, "op", f"and {len(cls) - _MOST_MEMBERS:,} more", "", -1))
    return GraphView(boxes=boxes, edges=[], closed=[])


def _box(id: int, parent: int, kind: BoxKind, label: str, detail: str, cls: int) -> Box:
    return Box(
        id=id, parent=parent, kind=kind, label=label, detail=detail, category="pointwise" if kind == "op" else "module", values=[],
        writes=False, equivalence_class=cls, size=1,
    )  # fmt: skip


def _called(member: object, names: Mapping[Value, str]) -> str:
    """The name of a member: a node by its first result, a function by its name."""
    if isinstance(member, Node):
        return next((f"%{names[value]}" for value in member.outputs if value in names), member.op)
    return str(getattr(member, "name", member))
