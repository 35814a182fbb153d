"""What the passes did, step by step, and what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from irscope.report.view_models.details import AliasDetail

__all__ = ["EarlierAlias", "EarlierLine", "GoneLine", "MadeGroup", "PassView", "StepView", "TimelineView"]


class PassView(TypedDict):
    """One pass of a history, as a stretch of steps."""

    name: str
    first: int
    """How many steps came before it."""
    steps: int
    seconds: float


class StepView(TypedDict):
    """One thing that a pass did. Step 1 leads from state 0, the program as it was loaded, to state 1."""

    did: str
    """What was done, as a sentence without a full stop: `merged %a and %b`."""
    because: str
    """The reason, or empty where a whole pass is one step."""
    rule: str
    nodes: list[int]
    """The nodes that it is about."""
    saved: int
    """Bytes of memory traffic that it avoids, 0 where that is not known."""
    group: int
    """The fusion group whose parts it joined, 0 for none."""


class MadeGroup(TypedDict):
    """A fusion group that the steps of a history made."""

    id: int
    nodes: list[int]
    """What steps put into it; the copies of constants that came along are left out."""
    inside: list[int]
    """The values that only it has, which stand for others: its inputs, its results and copied constants."""
    outside: list[int]
    """Those others, in the same order."""


class GoneLine(TypedDict):
    """A line that the text had in earlier states: a node that a pass removed."""

    node: int
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    above: int
    """The line of the text that it stood above."""
    since: int
    """The first state that has it."""
    until: int
    """The first state that has it no more."""
    became: int
    """The value that is read instead of its first result, 0 for none."""


class EarlierLine(TypedDict):
    """What a line of the text said before a pass rewrote its node."""

    node: int
    """0 for the line with which the program returns."""
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    until: int
    """The first state that does not say so any more."""


class EarlierAlias(TypedDict):
    """What was known of a value's memory before a pass changed that; for a page without a kernel."""

    value: int
    alias: AliasDetail
    until: int
    """The first state for which this does not hold any more."""


class TimelineView(TypedDict):
    """What happened to a program step by step, told on its last state: there every node has its final place, and what
    a state has not yet joined or made is drawn as such. So nothing moves between steps."""

    passes: list[PassView]
    steps: list[StepView]
    groups: list[MadeGroup]
    """In program order, which numbers them."""
    since: dict[int, int]
    """For a node that some step made, the first state that has it."""
    gone: list[GoneLine]
    """In the order of the text."""
    earlier: list[EarlierLine]
    """By node, the earliest first."""
    names: dict[int, str]
    """What values were called that are not in the text any more, but that a name inside a group stands for."""
    earlier_aliases: NotRequired[list[EarlierAlias]]
    """By value, the earliest first; what merges leave as it is, is told by the details of the last state."""
    kept: dict[int, int]
    """For a value that needs no memory any more because only its group reads it, the first state where this is so."""
