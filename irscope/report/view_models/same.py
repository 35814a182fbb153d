"""Equal pieces: classes, the ladder, holes, two pieces side by side, repeated boxes."""

from typing import NotRequired, TypedDict


class ClassView(TypedDict):
    """One equivalence class."""

    index: int
    label: str
    members: list[int]
    coarser: NotRequired[list[int]]  # For each of the view's `coarser` steps, the number of its class at that step.


class CoarserStep(TypedDict):
    """A step of the ladder coarser than that of the classes."""

    step: str
    gives_up: str


class LadderStep(TypedDict):
    """One step of the ladder: what one body per class saves and gives up."""

    step: str
    pieces: int
    classes: int
    ops: int
    seconds: float  # Seconds of compilation.
    measured: bool  # Whether the seconds are measured; estimated otherwise.
    gives_up: str


class CostView(TypedDict):
    """The estimated savings and cost of one body for a class."""

    bodies: int
    ops: int
    bytes: int
    seconds: float
    parameters: int
    lost: list[str]
    slowdown: float  # Estimated upper bound, as a fraction of the pieces' run time.


class SameCard(TypedDict):
    """A class at one step."""

    label: str
    detail: str  # The results and the location of its first member.
    count: int
    ops: int  # The number of ops of one member.
    members: list[str]  # The first few members.
    selects: list[list[int]]  # The selection for each of them.
    cost: CostView | None  # None if it is computed when the class is opened.


class SameStep(TypedDict):
    """The classes of one step, largest first."""

    cards: list[SameCard]
    left_out: int  # The number of classes not listed.


class HoleLine(TypedDict):
    """One position at which members of a class may differ."""

    place: str
    kind: str
    told: str  # The parameter that determines it, or what it follows from, or `equal everywhere`.
    varies: bool
    values: list[str]  # Its value in each member shown.
    node: int


class Word(TypedDict):
    """A token of a line."""

    text: str
    value: int  # The value that it names; 0 for none.
    hole: int  # The row of the hole table with the values it may have; -1 for none.


class BesideLine(TypedDict):
    """A line of one piece and the corresponding line of the other; empty if there is none."""

    left: list[Word]
    right: list[Word]
    left_node: int
    right_node: int


class BesideView(TypedDict):
    """Two pieces side by side."""

    left: str
    right: str
    because: str  # How they differ, or why they are the same.
    lines: list[BesideLine]
    left_out: int


class SameClass(TypedDict):
    """A class in full."""

    members: list[str]  # The members in the hole table.
    holes: list[HoleLine]  # Varying holes first.
    holes_left_out: int
    cost: CostView | None  # None for a class with one member.
    advice: str  # The step recommended for it, and why.
    beside: BesideView | None  # The first member and the second.


class SameView(TypedDict):
    """Which pieces are the same at each step; a page without Python has only the largest classes."""

    step: str  # The step shown initially.
    note: str  # A description of the pieces.
    ladder: list[LadderStep]
    steps: dict[str, SameStep]  # By the name of the step; a live page requests them.
    classes: dict[str, SameClass]  # By the name of the step and the position in it, as `constants 3`; a live page requests them.


class VaryingView(TypedDict):
    """One difference between repeated modules."""

    kind: str  # `constant`, `type`, `value` (from outside), or `chain` (a result of the previous module).
    where: str  # The op and its operand or result, and how many positions vary with it.
    name: str  # The name of a value after that of its module, as `query.weight`; empty if it has none.
    own: bool  # Whether it is a parameter that each module has under this name.
    values: list[str]  # Its value in each module, in order.


class PlaceView(TypedDict):
    """One of several repeated modules, and its box."""

    label: str
    short: str  # Without what the paths of all of them begin with.
    box: int


class RepeatView(TypedDict):
    """Repeated modules drawn as one box."""

    label: str  # `29 nodes ×12`.
    sentence: str  # The differences between them.
    places: list[PlaceView]  # In program order.
    beside: NotRequired[BesideView]  # The first two; in a page without Python, of the first boxes.
    places_left_out: int
    varying: list[VaryingView]  # Constants first, then types, then values passed in.
    left_out: int
