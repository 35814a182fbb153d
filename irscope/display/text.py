"""Programs, tables and profiles as terminal text."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from irscope._base.nested import grouped
from irscope._base.words import byte_count, one_line
from irscope.errors import IrscopeError
from irscope.ir import GROUPS
from irscope.report.view_models import ExplorerView, TimelineView
from irscope.report.words import duration
from irscope.runtime.profile import Profile
from irscope.transforms.base import NAMES

_WIDEST = 72
_MOST = 20


def overview(view: ExplorerView) -> str:
    """The head line, the remarks and the equivalence classes of an exploration."""
    counts = " · ".join(f"{count['value']} {count['label']}".strip() for count in view["headline"])
    parts = [f"{one_line(view['title'])}: {counts}"]
    declined = (row for row in view["remarks"]["rows"] if row[0] == "missed")
    alike = grouped(((row[1], NAMES.sub("%", str(row[-1]))), row) for row in declined)
    missed = [(f"{len(rows)}×" if len(rows) > 1 else "", *rows[0]) for rows in alike.values()]
    if missed:
        head = ["×", *(column["label"] for column in view["remarks"]["columns"])]
        parts += ["", "what did not fuse, and why", _aligned(head, missed[:_MOST])]
        parts += [f"… and {len(missed) - _MOST} more"] if len(missed) > _MOST else []
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


def _aligned(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [[*map(_short, row[:-1]), _told(row[-1])] for row in (head, *rows)]  # a terminal wraps the last column
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)


def _told(cell: object) -> str:
    return one_line("" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell))


def _short(cell: object) -> str:
    text = _told(cell)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


# A profile on one terminal screen: the time, where it goes, what fuses, what does not and why, and advice.

_WIDEST_LINE = 150
_MOST_ROWS = 6


def profile_text(profile: Profile) -> str:
    """The profile as text; tables have at most `_MOST_ROWS` rows."""
    return "\n".join([repr(profile), *_fused(profile), *_apart(profile)])


def _fused(profile: Profile) -> list[str]:
    if "fused" not in profile.ways:
        return ["what fuses: nothing"]
    table = profile.table("group").sort_values("before ms", ascending=False)
    lines = [f"what fuses: {len(table)} group{'s' * (len(table) != 1)}"]
    for _, row in table.head(_MOST_ROWS).iterrows():
        times = f"{duration(row['before ms'])} → {duration(row['after ms'])}"
        moved = f"{byte_count(1e6 * row['MB before'])} → {byte_count(1e6 * row['MB after'])}"
        lines.append(f"  {row['node']:24} {row['ops']:3} ops  {times:22} {moved:22} {row['verdict']}")
    return [*lines, *([f"  … and {len(table) - _MOST_ROWS} more"] if len(table) > _MOST_ROWS else [])]


def _apart(profile: Profile) -> list[str]:
    """The slowest ops outside kernels, each with the reason."""
    fusion = profile.measured.fusion
    if fusion is None:
        return []
    alone = [row for row in profile.rows() if row.node.op not in GROUPS and row.launches and not row.node.blocks]
    alone.sort(key=lambda row: -row.self_time.median)
    lines = [f"what does not fuse: {len(alone)} op{'s' * (len(alone) != 1)} with kernels of the library"] if alone else []
    for row in alone[:_MOST_ROWS]:
        why = "it was made after the groups"  # by the fusion's cleanups
        with suppress(IrscopeError):
            why = fusion.why_alone(row.node).because
        told = one_line(f"  {row.name} = {row.node.op}, {row.share:.0%}: {why}")
        lines.append(told if len(told) <= _WIDEST_LINE else f"{told[: _WIDEST_LINE - 1]}…")
    return [*lines, *([f"  … and {len(alone) - _MOST_ROWS} more"] if len(alone) > _MOST_ROWS else [])]
