"""A program with one body for each of its classes, and what was done to get there."""

from __future__ import annotations

from dataclasses import dataclass

from irscope.ir import Graph, Module
from irscope.transforms.base import PassRecord
from irscope.transforms.dedup.classes import Ladder
from irscope.transforms.dedup.rewrite.groups import Choice, merge_groups, merge_groups_of_all
from irscope.transforms.dedup.rewrite.modules import merge_modules

__all__ = ["Applied", "apply_classes"]


@dataclass(frozen=True)
class Applied:
    """The program, and why it looks like this."""

    program: Graph | Module
    remarks: tuple[str, ...]
    """What was done to each class, and why what was not done, a line each."""
    record: PassRecord | None
    """The edits, of a graph."""

    @property
    def graph(self) -> Graph | Module:
        """The program, for whoever takes a result for a program."""
        return self.program


def apply_classes(program: Graph | Module, ladder: Ladder, chosen: Choice) -> Applied:
    """The program with classes merged, each at the step that is chosen for it."""
    if isinstance(program, Module) and ladder.holds_groups:
        return Applied(*merge_groups_of_all(program, ladder, chosen), None)
    if isinstance(program, Module):
        module, remarks = merge_modules(program, ladder, chosen)
        return Applied(module, tuple(map(str, remarks)), None)
    groups = {members: step for members, step in chosen.items() if not isinstance(members[0], str)}
    record = merge_groups(program, chosen=groups)
    return Applied(record.after, tuple(map(record.told, record.remarks)), record)
