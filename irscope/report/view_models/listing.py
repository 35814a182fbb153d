"""Lines of text, table rows, numbers of the head line, and the results of a search."""

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
    """IR text, one entry per line; names in it (`%41`) are resolved by `names`."""

    lines: list[str]
    nodes: list[int]
    """The node that each line prints; 0 for none."""
    names: dict[str, int]
    """Printed name without `%` to value id."""
    locations: dict[int, str]
    """Node id to `file:line:column`."""
    first: NotRequired[int]
    """The first of `lines`, for a text sent page by page."""
    total: NotRequired[int]
    """The number of lines of that text."""
    paths: NotRequired[dict[int, list[int]]]
    """For each node on such a page, the ids of its enclosing boxes and its own, outermost first; makes a click on a line instant."""


class Place(TypedDict):
    """Where a record is, for a page that does not hold the whole program."""

    id: int
    line: int
    """The line that prints or declares it; -1 for none."""
    path: list[int]
    """Its enclosing boxes, outermost first, and its own."""
    title: str
    values: list[int]
    """The results of a node."""


class Found(TypedDict):
    """The results of a query."""

    count: int
    ids: list[int]
    """The first few thousand in program order, or all if requested."""
    shown: list[int]
    """The first few."""
    titles: list[str]
    lines: list[str]
    """Their lines of text."""
    trouble: str
    """Why the query is invalid; empty if it is valid."""


class Column(TypedDict):
    key: str
    label: str
    kind: Literal["text", "number", "record"]


class TableView(TypedDict):
    columns: list[Column]
    rows: list[list[str | float | None]]
    selects: list[list[int]]
    """The selection of a click on each row."""
    total: NotRequired[int]
    """The total number of rows, if only the first are included."""
