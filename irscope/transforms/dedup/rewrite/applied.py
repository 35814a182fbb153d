"""The result of merging classes: a program with one body for each, and remarks on what was done."""

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
    """The program after merging, and the remarks."""

    program: Graph | Module
    remarks: tuple[str, ...]
    """One line for each class or piece: what was done, or why not."""
    record: PassRecord | None
    """The pass record, if the program is a graph."""

    @property
    def graph(self) -> Graph | Module:
        """The program, for functions that take results in place of programs."""
        return self.program


def apply_classes(program: Graph | Module, ladder: Ladder, chosen: Choice) -> Applied:
    """Returns the program with classes merged, each at the step chosen for it."""
    if isinstance(program, Module) and ladder.holds_groups:
        return Applied(*merge_groups_of_all(program, ladder, chosen), None)
    if isinstance(program, Module):
        module, remarks = merge_modules(program, ladder, chosen)
        return Applied(module, tuple(map(str, remarks)), None)
    groups = {members: step for members, step in chosen.items() if not isinstance(members[0], str)}
    record = merge_groups(program, chosen=groups)
    return Applied(record.after, tuple(map(record.told, record.remarks)), record)
