"""What the passes did, step by step, and the earlier states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from irscope.report.view_models.details import AliasDetail

__all__ = ["EarlierAlias", "EarlierLine", "GoneLine", "MadeGroup", "PassView", "StepView", "TimelineView"]


class PassView(TypedDict):
    """One pass of a history, as a range of steps."""

    name: str
    first: int
    """The number of steps before it."""
    steps: int


class StepView(TypedDict):
    """One thing that a pass did. Step 1 leads from state 0, the program as it was loaded, to state 1."""

    did: str
    """The change, as a sentence without a full stop: `merged %a and %b`."""
    because: str
    """The reason; empty if a whole pass is one step."""
    rule: str
    nodes: list[int]
    """The nodes involved."""
    saved: int
    """Bytes of memory traffic avoided; 0 if unknown."""
    group: int
    """The fusion group whose parts it merged; 0 for none."""


class MadeGroup(TypedDict):
    """A fusion group created by the steps of a history."""

    id: int
    nodes: list[int]
    """The nodes merged into it, without copies of constants."""
    inside: list[int]
    """The values inside it that correspond to outside values: its inputs, results and copied constants."""
    outside: list[int]
    """The corresponding outside values, in the same order."""


class GoneLine(TypedDict):
    """A line of earlier states, for a node that a pass removed."""

    node: int
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    above: int
    """The line of the text that it was above."""
    since: int
    """The first state that contains it."""
    until: int
    """The first state without it."""
    became: int
    """The value that replaced its first result; 0 for none."""


class EarlierLine(TypedDict):
    """The earlier form of a line whose node a pass rewrote."""

    node: int
    """0 for the return line."""
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    until: int
    """The first state in which the line differs."""


class EarlierAlias(TypedDict):
    """The alias detail of a value before a pass changed it, for a page without Python."""

    value: int
    alias: AliasDetail
    until: int
    """The first state in which it no longer holds."""


class TimelineView(TypedDict):
    """The steps of a program, in terms of its last state, where every node has its final place. Nodes that a state has not
    yet created or merged are drawn as such, so nothing moves between steps."""

    passes: list[PassView]
    steps: list[StepView]
    groups: list[MadeGroup]
    """In program order, which defines their numbers."""
    since: dict[int, int]
    """The first state of each node that a step created."""
    gone: list[GoneLine]
    """In the order of the text."""
    earlier: list[EarlierLine]
    """By node, the earliest first."""
    names: dict[int, str]
    """The names of values that are no longer in the text but correspond to values inside groups."""
    earlier_aliases: NotRequired[list[EarlierAlias]]
    """By value, earliest first; what merges do not change is in the details of the last state."""
    kept: dict[int, int]
    """For a value used only inside its group, which so needs no memory: the first state where that is so."""
