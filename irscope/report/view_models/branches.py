"""What if: branches of the timeline, how two of them differ, and what is wrong with an edited text."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["BranchDiff", "BranchView", "BranchesView", "ChangedLine", "EditTrouble"]


class BranchView(TypedDict):
    """One way to fuse a program, beside the others that were tried."""

    name: str
    parent: int
    """The branch that it departs from; -1 for the first."""
    step: int
    """Where it departs in that one's history."""
    steps: int
    """How many steps its own history has."""
    kernels: int
    """As the numbers below, 0 as long as there is only one branch."""
    calls: int
    """Ops that the library runs."""
    bytes: int
    micros: float
    """At a memory bandwidth of 20 GB/s."""
    measured: float
    """Milliseconds of a call; -1 where nobody measured."""
    refused: list[str]
    """What was wanted and would be wrong, each with its reason."""
    code: str
    """Python that makes it."""


class BranchesView(TypedDict):
    """The branches of an explorer's timeline."""

    branches: list[BranchView]
    shown: int
    policies: list[str]
    inputs: list[str]
    """Arguments of the program that could lie in memory with their channels last."""
    distinct: bool
    """Whether the program that is shown takes all inputs for distinct memory."""
    can_measure: bool
    read_only: str
    """Why the text cannot be edited in the page; empty if it can."""
    edits: bool
    """Whether the text is being written at first."""


class ChangedLine(TypedDict):
    """A line that two programs do not share."""

    kind: Literal["changed", "new", "gone"]
    before: str
    after: str
    how: str
    node: int
    """In the second program; 0 for none."""
    old: int
    """In the first program; 0 for none."""


class BranchDiff(TypedDict):
    """What is different between two branches."""

    counts: dict[str, int]
    """Nodes that are kept, changed, new and gone."""
    matched_by: str
    lines: list[ChangedLine]
    left_out: int


class EditTrouble(TypedDict):
    """Why a text is no program."""

    message: str
    hint: str
    line: int
    """Counted from 1; 0 where no line is to blame."""
    column: int
    """Counted from 1."""
