"""The program itself: its text and tables, its graph, and the steps of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from irscope.report.view_models.details import AliasDetail

# Lines of text, table rows, numbers of the head line, and the results of a search.


class Count(TypedDict):
    """One number of the head line; a click selects what it counts."""

    label: str
    value: str
    selects: list[int]
    hint: str
    whole: NotRequired[bool]  # Whether it counts the nodes of the program: a click selects them all.


class TextView(TypedDict):
    """IR text, one entry per line; names in it (`%41`) are resolved by `names`."""

    lines: list[str]
    nodes: list[int]  # The node that each line prints; 0 for none.
    names: dict[str, int]  # Printed name without `%` to value id.
    locations: dict[int, str]  # Node id to `file:line:column`.
    first: NotRequired[int]  # The first of `lines`, for a text sent page by page.
    total: NotRequired[int]  # The number of lines of that text.
    paths: NotRequired[dict[int, list[int]]]
    """For each node on such a page, the ids of its enclosing boxes and its own, outermost first; makes a click on a line instant."""


class Place(TypedDict):
    """Where a record is, for a page that does not hold the whole program."""

    id: int
    line: int  # The line that prints or declares it; -1 for none.
    path: list[int]  # Its enclosing boxes, outermost first, and its own.
    title: str
    values: list[int]  # The results of a node.


class Found(TypedDict):
    """The results of a query."""

    count: int
    ids: list[int]  # The first few thousand in program order, or all if requested.
    shown: list[int]  # The first few.
    titles: list[str]
    lines: list[str]  # Their lines of text.
    trouble: str  # Why the query is invalid; empty if it is valid.


class Column(TypedDict):
    key: str
    label: str
    kind: Literal["text", "number", "record"]


class TableView(TypedDict):
    columns: list[Column]
    rows: list[list[str | float | None]]
    selects: list[list[int]]  # The selection of a click on each row.
    total: NotRequired[int]  # The total number of rows, if only the first are included.


# The boxes and edges of a graph, level by level.

BoxKind = Literal["op", "group", "block", "module", "repeat", "stretch", "lane", "input", "output"]


class Box(TypedDict):
    """A rectangle of the graph view: a node, a fusion group, a block, a module of the user's model, a run of repeated modules, a
    stretch of a long program, or one pass, forward or backward, of a joint graph."""

    id: int
    parent: int  # The enclosing box; 0 at the top.
    kind: BoxKind
    label: str
    detail: str  # Second line: result type, or what a closed box contains.
    category: str  # Op category, for the colour.
    values: list[int]  # Ids of the values that the box produces.
    writes: bool  # Whether it writes memory in place.
    equivalence_class: int  # Number of its class, -1 for none.
    size: int  # Number of ops inside, 1 for an op.
    copies: NotRequired[int]  # For a box of repeated modules, their number.
    lane: NotRequired[str]  # In a joint graph, the pass that it is in: `forward` or `backward`.
    holds: NotRequired[bool]  # Whether it has contents that can be requested.
    crosses: NotRequired[int]
    """1 if it uses a value from outside its parent, 2 if it produces a value used there, 3 for both; only if the view is sent
    level by level."""


class Edge(TypedDict):
    """A value that flows from one innermost box to another, or an effect: the source writes memory that the target reads."""

    source: int
    target: int
    value: int  # Its id; 0 for an effect.


class GraphView(TypedDict):
    boxes: list[Box]  # Each after its parent, siblings in program order.
    edges: list[Edge]
    closed: list[int]  # Boxes that are initially closed.
    kinds: NotRequired[list[str]]
    """For a graph sent level by level, where edges connect boxes of one level: the op categories it has, and `in-place` if a node
    writes in place."""


class Level(TypedDict):
    """The direct contents of one box."""

    around: int
    boxes: list[Box]
    edges: list[Edge]


# What the passes did, step by step, and the earlier states.


class PassView(TypedDict):
    """One pass of a history, as a range of steps."""

    name: str
    first: int  # The number of steps before it.
    steps: int


class StepView(TypedDict):
    """One thing that a pass did. Step 1 leads from state 0, the program as it was loaded, to state 1."""

    did: str  # The change, as a sentence without a full stop: `merged %a and %b`.
    because: str  # The reason; empty if a whole pass is one step.
    rule: str
    nodes: list[int]  # The nodes involved.
    saved: int  # Bytes of memory traffic avoided; 0 if unknown.
    group: int  # The fusion group whose parts it merged; 0 for none.


class MadeGroup(TypedDict):
    """A fusion group created by the steps of a history."""

    id: int
    nodes: list[int]  # The nodes merged into it, without copies of constants.
    inside: list[int]  # The values inside it that correspond to outside values: its inputs, results and copied constants.
    outside: list[int]  # The corresponding outside values, in the same order.


class GoneLine(TypedDict):
    """A line of earlier states, for a node that a pass removed."""

    node: int
    text: str
    values: list[int]  # What the names in it stand for, in order.
    above: int  # The line of the text that it was above.
    since: int  # The first state that contains it.
    until: int  # The first state without it.
    became: int  # The value that replaced its first result; 0 for none.


class EarlierLine(TypedDict):
    """The earlier form of a line whose node a pass rewrote."""

    node: int  # 0 for the return line.
    text: str
    values: list[int]  # What the names in it stand for, in order.
    until: int  # The first state in which the line differs.


class EarlierAlias(TypedDict):
    """The alias detail of a value before a pass changed it, for a page without Python."""

    value: int
    alias: AliasDetail
    until: int  # The first state in which it no longer holds.


class TimelineView(TypedDict):
    """The steps of a program, in terms of its last state, where every node has its final place. Nodes that a state has not
    yet created or merged are drawn as such, so nothing moves between steps."""

    passes: list[PassView]
    steps: list[StepView]
    groups: list[MadeGroup]  # In program order, which defines their numbers.
    since: dict[int, int]  # The first state of each node that a step created.
    gone: list[GoneLine]  # In the order of the text.
    earlier: list[EarlierLine]  # By node, the earliest first.
    names: dict[int, str]  # The names of values that are no longer in the text but correspond to values inside groups.
    earlier_aliases: NotRequired[list[EarlierAlias]]
    """By value, earliest first; what merges do not change is in the details of the last state."""
    kept: dict[int, int]  # For a value used only inside its group, which so needs no memory: the first state where that is so.
    at_least: NotRequired[bool]  # Whether some steps save bytes that are not known.
