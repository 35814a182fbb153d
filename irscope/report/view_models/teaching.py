"""A card of a quiz, and a story."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["CardJudgement", "CardOption", "CardRemark", "CardView", "StoryStep", "StoryView"]


class CardOption(TypedDict):
    """One option of a question."""

    name: str
    text: str
    record: int
    """The value or node it represents; 0 for none."""


class CardRemark(TypedDict):
    """The comment on an option after an answer."""

    name: str
    mark: Literal["right", "wrong", "missed"]
    because: str
    witness: list[int]


class CardJudgement(TypedDict):
    """The judgement of an answer."""

    right: bool
    points: float
    picks: list[str]
    remarks: list[CardRemark]


class CardView(TypedDict):
    """A question of a quiz, shown beside its program; the right answer is absent until the user has answered."""

    title: str
    kind: str
    number: int
    """Counted from 0."""
    done: list[Literal["", "right", "wrong"]]
    """The result of each question of the quiz."""
    summary: str
    prompt: str
    note: str
    how: str
    several: bool
    """Whether several options may be chosen."""
    subject: int
    """The value or node the question is about; 0 for none."""
    options: list[CardOption]
    judged: CardJudgement | None


class StoryStep(TypedDict):
    """One view of a story: selection, state, open boxes, colour, and a sentence about it."""

    text: str
    """Markdown."""
    selection: list[int]
    step: int | None
    """The state of the history; None leaves it as it is."""
    open: list[int] | None
    """The open boxes; None leaves them as they are."""
    colour: str
    pane: str
    """The only pane shown; empty for all."""


class StoryView(TypedDict):
    """A recorded walk through a program."""

    title: str
    steps: list[StoryStep]
    problems: list[str]
    """Names in steps that the program does not have."""
    at: int
    """The step shown; -1 before the first."""
