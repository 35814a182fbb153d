"""A card of a quiz, and a story."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["CardJudgement", "CardOption", "CardRemark", "CardView", "StoryStep", "StoryView"]


class CardOption(TypedDict):
    """What may be picked of a question."""

    name: str
    text: str
    record: int
    """The value or node that it is; 0 for none."""


class CardRemark(TypedDict):
    """What is said of an option after an answer."""

    name: str
    mark: Literal["right", "wrong", "missed"]
    because: str
    witness: list[int]


class CardJudgement(TypedDict):
    """What an answer is worth."""

    right: bool
    points: float
    picks: list[str]
    remarks: list[CardRemark]


class CardView(TypedDict):
    """A question of a quiz, beside the views of its program; without its right answer until one was given."""

    title: str
    kind: str
    number: int
    """Counted from 0."""
    done: list[Literal["", "right", "wrong"]]
    """How each question of the quiz was answered."""
    summary: str
    prompt: str
    note: str
    how: str
    several: bool
    """Whether more than one option may be picked."""
    subject: int
    """The value or node that is asked about; 0 for none."""
    options: list[CardOption]
    judged: CardJudgement | None


class StoryStep(TypedDict):
    """One view of a story: what is selected, which state, what is open, what colour means, and a sentence about it."""

    text: str
    """In Markdown."""
    selection: list[int]
    step: int | None
    """The state of the history; None leaves it as it is."""
    open: list[int] | None
    """Boxes that are open; None leaves them as they are."""
    colour: str
    pane: str
    """The one pane that is shown; empty for all."""


class StoryView(TypedDict):
    """A recorded walk through a program."""

    title: str
    steps: list[StoryStep]
    problems: list[str]
    """What steps name that the program does not have."""
    at: int
    """The step that is shown; -1 before the first."""
