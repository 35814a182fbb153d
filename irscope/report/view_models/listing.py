"""Lines of text, rows of a table, numbers of the head line, and the places where something was found."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = ["Column", "Count", "Found", "Place", "TableView", "TextView"]


class Count(TypedDict):
    """One number of the head line; a click selects what it counts."""

    label: str
    value: str
    selects: list[int]
    hint: str


class TextView(TypedDict):
    """IR text, one entry a line; names in it (`%41`) are looked up in `names`."""

    lines: list[str]
    nodes: list[int]
    """The node that each line prints; 0 where a line prints none."""
    names: dict[str, int]
    """Printed name without `%` to value id."""
    locations: dict[int, str]
    """Node id to `file:line:column`."""
    first: NotRequired[int]
    """Where `lines` begin, of a text that is given page by page."""
    total: NotRequired[int]
    """How many lines that text has."""
    paths: NotRequired[dict[int, list[int]]]
    """The boxes around each node on such a page and its own, by their ids, the outermost first: a click on a line is seen at once."""


class Place(TypedDict):
    """Where a record is, for a page that does not hold the whole program."""

    id: int
    line: int
    """The line that prints or declares it; -1 for none."""
    path: list[int]
    """The boxes around it, the outermost first, and the one that stands for it."""
    title: str
    values: list[int]
    """What a node makes."""


class Found(TypedDict):
    """What a query found."""

    count: int
    ids: list[int]
    """The first thousands, in program order, or all of it for who asks for all."""
    shown: list[int]
    """The first few."""
    titles: list[str]
    lines: list[str]
    """Their lines of text."""
    trouble: str
    """Why the query means nothing; empty if it does."""


class Column(TypedDict):
    key: str
    label: str
    kind: Literal["text", "number", "record"]


class TableView(TypedDict):
    columns: list[Column]
    rows: list[list[str | float | None]]
    selects: list[list[int]]
    """What a click on each row selects."""
    total: NotRequired[int]
    """How many rows there would be, where only the first are here."""
