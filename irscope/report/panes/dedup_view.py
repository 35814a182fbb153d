"""Equivalence classes of fusion groups, the largest first."""

from __future__ import annotations

from collections.abc import Mapping

from irscope._base.escaping import shortened
from irscope.ir import Node, Value
from irscope.ir.text import print_node
from irscope.report.view_models import ClassView
from irscope.report.words import plural
from irscope.transforms.dedup import Dedup, EquivalenceClass

__all__ = ["class_sentence", "class_views"]

_MOST_LINES = 60


def class_views(dedup: Dedup, names: Mapping[Value, str]) -> list[ClassView]:
    """One view per class of groups; a program without groups has none."""
    table = dedup.table()
    views = []
    for cls in dedup.classes:
        if not isinstance(cls.representative, Node):
            continue
        body = cls.representative.blocks[0].nodes
        lines = [print_node(node, names) for node in body if node.op != "prim::Constant"]
        more = [f"… and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        views.append(
            ClassView(
                index=cls.index, label=str(table["ops"].loc[cls.index]),
                members=[member.id for member in cls.members if isinstance(member, Node)],
                representative=cls.representative.id, text=[*map(shortened, lines[:_MOST_LINES]), *more],
            )
        )  # fmt: skip
    return views


def class_sentence(cls: EquivalenceClass) -> str:
    """Which class a group is in."""
    if len(cls) == 1:
        return f"class {cls.index}: no other group computes the same"
    return f"class {cls.index}: {plural(len(cls), 'group')} are the same kernel, matched value by value"
