"""Equivalence classes of fusion groups, the largest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irscope._base.escaping import shortened
from irscope.ir import Node, Value
from irscope.ir.text import print_node
from irscope.report.view_models import ClassView, CoarserStep
from irscope.report.words import plural, short_type
from irscope.transforms.dedup import GIVES_UP, RANK, RELATIONS, Dedup, EquivalenceClass

__all__ = ["class_sentence", "class_views", "with_coarser_steps"]

_MOST_LINES = 60


def class_views(dedup: Dedup, names: Mapping[Value, str]) -> list[ClassView]:
    """One view per class of groups; empty for a program without groups."""
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
                index=cls.index, label=f"{table['ops'].loc[cls.index]} → {_results(cls.representative)}",
                members=[member.id for member in cls.members if isinstance(member, Node)],
                representative=cls.representative.id, text=[*map(shortened, lines[:_MOST_LINES]), *more],
            )
        )  # fmt: skip
    return views


def with_coarser_steps(views: Sequence[ClassView], dedup: Dedup) -> list[CoarserStep]:
    """Record in each view its class at each coarser step, and return these steps."""
    steps = RELATIONS[RANK[dedup.relation] + 1 :]
    numbers = [{member: k for k, members in enumerate(dedup.members(step)) for member in members} for step in steps]
    for view in views:
        leader = dedup.classes[view["index"]].representative
        view["coarser"] = [number[leader] for number in numbers]
    return [CoarserStep(step=step, gives_up=GIVES_UP[step]) for step in steps]


def _results(group: Node) -> str:
    """The result types of a group, which distinguish classes with the same ops."""
    return ", ".join(short_type(value.type) for value in group.outputs[:3])


def class_sentence(dedup: Dedup, cls: EquivalenceClass) -> str:
    """The class of a group, and the step of the ladder at which it merges with others."""
    if len(cls) == 1:
        sentence = f"class {cls.index}: no other group is the same by relation {dedup.relation!r}"
    else:
        sentence = f"class {cls.index}: {plural(len(cls), 'group')} are the same by relation {dedup.relation!r}, matched value by value"
    for step in RELATIONS[RANK[dedup.relation] + 1 : RANK["layout"]]:
        members = next(members for members in dedup.members(step) if cls.representative in members)
        if len(members) > len(cls):
            many = f"one of {len(members)} that may share a kernel"
            return f"{sentence}. From step {step!r} on it is {many}; sharing it gives up {GIVES_UP[step]}"
    return sentence
