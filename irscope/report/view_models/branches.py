"""What if: the branches of the timeline, the difference of two, and the errors of an edited text."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["BranchDiff", "BranchView", "BranchesView", "ChangedLine", "EditTrouble"]


class BranchView(TypedDict):
    """One of the ways to fuse a program that were tried."""

    name: str
    parent: int
    """The parent branch; -1 for the first."""
    step: int
    """The step of the parent's history where it starts."""
    steps: int
    """The number of steps in its own history."""
    kernels: int
    """Like the numbers below, 0 while there is only one branch."""
    calls: int
    """Ops run by the library."""
    moved: str
    """The memory traffic; a formula where extents are unknown."""
    micros: float
    """Estimated at a memory bandwidth of 20 GB/s; -1 where the traffic is a formula."""
    measured: float
    """Milliseconds per call; -1 if not measured."""
    refused: list[str]
    """Requested merges that would be wrong, each with its reason."""
    code: str
    """Python code that creates it."""


class BranchesView(TypedDict):
    """The branches of an explorer's timeline."""

    branches: list[BranchView]
    shown: int
    policies: list[str]
    inputs: list[str]
    """Arguments of the program that could be in channels-last layout."""
    distinct: bool
    """Whether the program shown assumes that all inputs are distinct memory."""
    can_measure: bool
    read_only: str
    """Why the text cannot be edited in the page; empty if it can be."""
    edits: bool
    """Whether the page opens with the editor."""


class ChangedLine(TypedDict):
    """A line that differs between two programs."""

    kind: Literal["changed", "new", "gone"]
    before: str
    after: str
    how: str
    node: int
    """The node in the second program; 0 for none."""
    old: int
    """The node in the first program; 0 for none."""


class BranchDiff(TypedDict):
    """The difference between two branches."""

    counts: dict[str, int]
    """The numbers of nodes kept, changed, new and gone."""
    matched_by: str
    lines: list[ChangedLine]
    left_out: int


class EditTrouble(TypedDict):
    """Why a text is not a valid program."""

    message: str
    hint: str
    line: int
    """Counted from 1; 0 if no single line is at fault."""
    column: int
    """Counted from 1."""
