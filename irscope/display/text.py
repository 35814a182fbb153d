"""Programs and tables as terminal text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irscope._base.escaping import one_line
from irscope.report.view_models import Column, ExplorerView, TimelineView
from irscope.report.words import byte_count

__all__ = ["overview", "steps_text", "table_text"]

_WIDEST = 72
_MOST = 20


def overview(view: ExplorerView) -> str:
    """The head line, the remarks and the equivalence classes of an exploration."""
    counts = " · ".join(f"{count['value']} {count['label']}".strip() for count in view["headline"])
    parts = [f"{one_line(view['title'])}: {counts}"]
    missed = [row for row in view["remarks"]["rows"] if row[0] == "missed"]
    if missed:
        parts += ["", "what did not fuse, and why", table_text(view["remarks"]["columns"], missed)]
    if view["classes"]:
        rows: list[Sequence[object]] = [(c["index"], len(c["members"]), c["label"]) for c in view["classes"]]
        parts += ["", "equivalence classes", _aligned(("class", "members", "ops"), rows)]
    if view.get("only_history") and "timeline" in view:
        parts += ["", steps_text(view["timeline"])]
    return "\n".join(parts)


def steps_text(timeline: TimelineView) -> str:
    """The steps of a history as a table, cut after `_MOST` rows."""
    starts = [(stretch["first"], stretch["name"]) for stretch in timeline["passes"] if stretch["steps"]]
    rows = [
        (
            state, next(name for first, name in reversed(starts) if first < state), step["did"],
            byte_count(step["saved"]) if step["saved"] else "", step["because"],
        )
        for state, step in enumerate(timeline["steps"][:_MOST], 1)
    ]  # fmt: skip
    more = len(timeline["steps"]) - _MOST
    text = _aligned(("step", "pass", "what", "saves", "because"), rows)
    return f"{text}\n… and {more:,} more" if more > 0 else text


def table_text(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> str:
    """A table with aligned columns, cut after `_MOST` rows."""
    text = _aligned([column["label"] for column in columns], rows[:_MOST])
    more = len(rows) - _MOST
    return f"{text}\n… and {more} more" if more > 0 else text


def _aligned(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [[_short(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _short(cell: object) -> str:
    text = "" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell)
    text = one_line(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
