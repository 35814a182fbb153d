"""Equal pieces: classes, the ladder, holes, two pieces side by side, repeated boxes."""

from __future__ import annotations

from typing import NotRequired, TypedDict

__all__ = [
    "BesideLine",
    "BesideView",
    "ClassView",
    "CoarserStep",
    "CostView",
    "HoleLine",
    "LadderStep",
    "PlaceView",
    "RepeatView",
    "SameCard",
    "SameClass",
    "SameStep",
    "SameView",
    "VaryingView",
    "Word",
]


class ClassView(TypedDict):
    """One equivalence class."""

    index: int
    label: str
    members: list[int]
    representative: int
    text: list[str]
    """IR of the representative."""
    coarser: NotRequired[list[int]]
    """For each of the `coarser` steps of the view, the number of the class that it is in by that step."""


class CoarserStep(TypedDict):
    """A step of the ladder after the one that the classes are of."""

    step: str
    gives_up: str


class LadderStep(TypedDict):
    """What one body for each class of a relation saves, and gives up."""

    step: str
    pieces: int
    classes: int
    largest: int
    """Members of the largest class."""
    ops: int
    bytes: int
    """Of text."""
    seconds: float
    """Of compiling."""
    measured: bool
    """Whether the seconds are measured; estimated otherwise."""
    gives_up: str


class CostView(TypedDict):
    """What one body for a class saves and costs, before anything is applied."""

    bodies: int
    ops: int
    bytes: int
    seconds: float
    parameters: int
    lost: list[str]
    slowdown: float
    """At most, estimated, as a part of the pieces' run time."""


class SameCard(TypedDict):
    """A class by one step."""

    label: str
    detail: str
    """What its first member gives, and where it is."""
    count: int
    ops: int
    """Of one member."""
    members: list[str]
    """The first ones."""
    selects: list[list[int]]
    """What each of them selects."""
    cost: CostView | None
    """None where it is told when the class is asked for."""


class SameStep(TypedDict):
    """The classes of one step, the largest first."""

    cards: list[SameCard]
    left_out: int
    """Further classes."""


class HoleLine(TypedDict):
    """One place in which members of a class may differ."""

    place: str
    kind: str
    told: str
    """The parameter that says it, or what it follows from; `equal everywhere`."""
    varies: bool
    values: list[str]
    """What stands there in each member that the table shows."""
    node: int


class Word(TypedDict):
    """A piece of a line."""

    text: str
    value: int
    """The value that it names; 0 for none."""
    hole: int
    """The line of the hole table that says what else may stand there; -1 for none."""


class BesideLine(TypedDict):
    """A line of one piece and the line of the other that corresponds to it; empty where there is none."""

    left: list[Word]
    right: list[Word]
    left_node: int
    right_node: int


class BesideView(TypedDict):
    """Two pieces side by side."""

    left: str
    right: str
    because: str
    """What they differ in, or why they are the same."""
    lines: list[BesideLine]
    left_out: int


class SameClass(TypedDict):
    """A class in full."""

    members: list[str]
    """Those of the hole table."""
    holes: list[HoleLine]
    """Those that vary first."""
    holes_left_out: int
    cost: CostView | None
    """None for a class of one."""
    advice: str
    """The step that is recommended for it, and why."""
    beside: BesideView | None
    """The first member and the second."""


class SameView(TypedDict):
    """Which pieces are the same, step by step; a page without Python holds the largest classes."""

    step: str
    """The step that is shown first."""
    note: str
    """What the pieces are."""
    ladder: list[LadderStep]
    steps: dict[str, SameStep]
    """By the step's name; a live page asks for them."""
    classes: dict[str, SameClass]
    """By the step's name and the place in it, `constants 3`; a live page asks for them."""


class VaryingView(TypedDict):
    """One thing that differs between modules that are alike."""

    kind: str
    """`constant`, `type`, `value` (from outside), or `chain`: what the one before makes."""
    where: str
    """The op and its operand or result, and how many places vary with it."""
    name: str
    """What a value is called behind the name of its module, `query.weight`; empty if it has no such name."""
    values: list[str]
    """What each of them has there, in their order."""


class PlaceView(TypedDict):
    """One of several modules that are alike, and its box."""

    label: str
    box: int


class RepeatView(TypedDict):
    """Modules that are alike, which are drawn as one box."""

    label: str
    """`29 nodes ×12`."""
    sentence: str
    """What differs between them."""
    places: list[PlaceView]
    """In program order."""
    places_left_out: int
    varying: list[VaryingView]
    """Constants first, then types, then what they are handed."""
    left_out: int
