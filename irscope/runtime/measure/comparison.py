"""The measurements of several ways to run one program, as a table, as bars and as a roofline."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, Literal

from irscope._base.words import time_words
from irscope.errors import ArgumentError, MissingExtra, new_table, public
from irscope.runtime.timer import Spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Row:
    """One competitor; times are in milliseconds."""

    label: str
    median: float
    low: float
    """The lower quartile."""
    high: float
    """The upper quartile."""
    compile: float
    """Time to compile its kernels, with nothing in any cache; 0 where there is nothing to compile. For a foreign competitor:
    the excess of its first call over a later one."""
    kernels: int
    """Kernels compiled; a group that joins tensors has several, and equal groups may share one."""
    launched: int | None
    """Groups with kernels, and library calls, of one run, as `Fusion.cost` has them; None where they are not counted."""
    error: float | None
    """Largest difference from the float64 run, relative to the largest element of each result; where a result is zero but for
    rounding, which the caption says, relative to the size of the numbers that cancel in it."""
    absolute_error: float | None
    note: str = ""
    warm_compile: float | None = None
    """Time to load the kernels from the disk cache in a later process; None for a foreign competitor."""
    bandwidth: float | None = None
    """GB/s: the least bytes that the program must move, divided by the time."""
    copy_fraction: float | None = None
    """That bandwidth divided by that of the machine's fastest copy of as many bytes on as many threads."""
    gflops: float | None = None
    """Additions and multiplications of the program, in 10^9 per second."""
    peak_bytes: int | None = None
    """The peak bytes of the tensors of one run, without arguments and parameters."""
    best: float | None = None
    """The fastest turn, which a busy machine disturbs least."""
    turns: int = 0
    wrong: str = ""
    """What is wrong with its results that an error does not say: `NaN in 16 of 16`, `3 of 9 differ`."""

    @property
    def spread(self) -> Spread:
        """Its times in nanoseconds, to be compared with those of another row."""
        return Spread(self.median * 1e6, self.low * 1e6, self.high * 1e6, (self.best or 0.0) * 1e6, self.turns)


_COLUMNS: Final = {
    "median ms": "median", "low ms": "low", "high ms": "high", "best ms": "best", "GB/s": "bandwidth", "of copy": "copy_fraction",
    "GFLOP/s": "gflops", "compile ms": "compile", "warm ms": "warm_compile", "kernels": "kernels",
    "launched": "launched", "peak MB": "peak_bytes", "relative error": "error", "absolute error": "absolute_error",
    "wrong": "wrong", "note": "note",
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Times and errors of several ways to run one program."""

    name: str
    rows: tuple[Row, ...]
    caption: str
    """The machine and the settings of the measurement."""
    missing: tuple[tuple[str, str], ...] = ()
    """Competitors that did not run, each with the reason."""
    bytes: int = 0
    """The least bytes that a run must move: everything read, and every result, once."""
    flops: int = 0
    """The additions and multiplications of a run."""
    copy_bandwidth: float = 0.0
    """GB/s of the fastest copy of as many bytes; 0 where it was not measured."""
    peak_gflops: float = 0.0
    """The processor's peak, in 10^9 multiplications and additions per second; 0 where it was not measured."""
    warnings: tuple[str, ...] = ()
    """What a reader must know before the numbers: others that kept the machine busy, results that differ."""
    no_errors: str = ""
    """Why there is no float64 run to tell errors against; empty where there is one."""

    def table(self) -> pd.DataFrame:
        """Returns one row per competitor; `.attrs` has the `warnings` and the `caption`."""
        data = {title: [getattr(row, name) for row in self.rows] for title, name in _COLUMNS.items()}
        data["peak MB"] = [None if value is None else value / 1e6 for value in data["peak MB"]]
        data["wrong"] = [row.wrong or (self.no_errors and f"not known: {self.no_errors}") or None for row in self.rows]
        made = new_table(data, index=[row.label for row in self.rows]).rename_axis(self.name)
        made.attrs = {"warnings": list(self.warnings), "caption": self.caption}
        return made

    @public
    def chart(self, kind: Literal["bars", "roofline"] = "bars", *, theme: Theme = "light") -> Figure:
        """Draws medians as bars, with the quartiles; or the roofline. Raises MissingExtra without matplotlib."""
        if kind == "roofline":
            return self.roofline(theme=theme)
        if kind != "bars":
            raise ArgumentError(f"there is no chart of kind {kind!r}", hint='the kinds are "bars" and "roofline"')
        colors = _COLORS[theme]
        figure, axes = _figure((7, 0.9 + 0.45 * len(self.rows)), colors)
        longest = max((row.median for row in self.rows), default=1.0)
        unit, scale = ("microseconds", 1e3) if longest < 0.1 else ("milliseconds", 1.0)
        end = _WHISKER * longest * scale  # the end of a whisker: one disturbed run must not squeeze all bars
        places = range(len(self.rows))
        medians, lows = [row.median * scale for row in self.rows], [row.low * scale for row in self.rows]
        highs = [min(row.high * scale, end) for row in self.rows]
        spread = [[m - low for m, low in zip(medians, lows, strict=True)], [h - m for h, m in zip(highs, medians, strict=True)]]
        axes.barh(places, medians, xerr=spread, color=colors["bar"], ecolor=colors["text"], capsize=3)
        axes.set_yticks(places, [row.label for row in self.rows])
        axes.invert_yaxis()
        for place, (row, high) in enumerate(zip(self.rows, highs, strict=True)):
            beyond = f" (to {_ms(row.high)})" if row.high * scale > end else ""
            part = row.copy_fraction
            share = "" if part is None else f", {part:.0%} of copy" if part >= 0.005 else ", below 1% of copy"
            axes.annotate(
                f"{_ms(row.median)}{beyond}{share}", (high, place), (4, 0), textcoords="offset points", va="center",
                color=colors["text"],
            )  # fmt: skip
        axes.margins(x=0.3)
        axes.set_xlabel(f"{unit} a run: median, and the middle half of the runs")
        axes.set_title(self.name, loc="left", color=colors["text"])
        return figure

    @public
    def roofline(self, *others: Comparison, theme: Theme = "light") -> Figure:
        """Draws arithmetic per second over arithmetic per byte, under the machine's limits.

        The slope is the measured copy bandwidth (the fastest of all comparisons shown), the roof the measured rate of
        multiply-adds. Each program is at one intensity, with a mark for each competitor; a mark on the slope is as fast as
        memory allows. Raises ArgumentError if nothing measured can be drawn, MissingExtra without matplotlib.
        """
        shown = [each for each in (self, *others) if each.flops and each.bytes and each.copy_bandwidth]
        if not shown:
            what = "no roofline can be drawn: the arithmetic or the copy bandwidth of the program is not known"
            raise ArgumentError(what, hint="compare a program with arithmetic in it, on the processor")
        colors = _COLORS[theme]
        figure, axes = _figure((7, 5), colors)
        bandwidth = max(each.copy_bandwidth for each in shown)
        roof = max(each.peak_gflops for each in shown)
        intensities = [each.flops / each.bytes for each in shown]
        left, right = min(intensities) / 4, max(*intensities, roof / bandwidth) * 4
        axes.plot([left, roof / bandwidth, right], [left * bandwidth, roof, roof], color=colors["roof"], lw=1.5)
        axes.annotate(f"copy {bandwidth:.0f} GB/s", (left, left * bandwidth), (14, -6), textcoords="offset points", color=colors["spread"])
        axes.annotate(
            f"multiply-adds {roof:.0f} GFLOP/s", (right, roof), (-4, 5), textcoords="offset points", ha="right",
            color=colors["spread"],
        )  # fmt: skip
        labels = list(dict.fromkeys(row.label for each in shown for row in each.rows))
        for place, label in enumerate(labels):
            marks = [
                (intensity, row.gflops)
                for each, intensity in zip(shown, intensities, strict=True) for row in each.rows
                if row.label == label and row.gflops
            ]  # fmt: skip
            if marks:
                color, mark = colors["marks"][place % len(colors["marks"])], _MARKS[place % len(_MARKS)]
                axes.scatter(*zip(*marks, strict=True), color=color, marker=mark, s=48, label=label, zorder=3)
        for each, intensity in zip(shown, intensities, strict=True):
            highest = max(row.gflops or 0.0 for row in each.rows)
            axes.annotate(each.name, (intensity, highest), (0, 9), textcoords="offset points", ha="center", color=colors["text"])
        rates = [row.gflops for each in shown for row in each.rows if row.gflops]
        low, high = min(rates, default=roof), max(*rates, roof)
        axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(min(low, left * bandwidth) / 2, high * 2))
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(subs=(1, 2, 5))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        axes.set_xlabel("arithmetic for each byte that must be moved (FLOP/B)")
        axes.set_ylabel("GFLOP/s")
        legend = axes.legend(loc="lower right", frameon=False)
        for text in legend.get_texts():
            text.set_color(colors["text"])
        return figure

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as plain data."""
        return asdict(self)

    def error_words(self, row: Row) -> str:
        """Returns a row's error in a few characters."""
        if row.error is None:
            return "unknown" if self.no_errors else "–"
        return "0" if row.error == 0 else f"{row.error:.1e}"

    def cells(self) -> dict[str, list[str]]:
        """What is shown of each row, by the titles of the columns; the last says which is faster, and what is wrong."""
        titles = ("median", "middle half", "of copy", "compile", "kernels", "launched", "error", "")
        rows = [
            (
                _ms(row.median), _span(row.low, row.high), _part(row.copy_fraction),
                _ms(row.compile) if row.compile else "–", *(["–", "–"] if row.launched is None else [str(row.kernels), str(row.launched)]),
                self.error_words(row), "; ".join(filter(None, (row.note, row.wrong))),
            )
            for row in self.rows
        ]  # fmt: skip
        return {self.name: [row.label for row in self.rows], **{title: [row[k] for row in rows] for k, title in enumerate(titles)}}

    def __repr__(self) -> str:
        cells = self.cells()
        wide = {title: max(map(len, (title, *column))) for title, column in cells.items()}
        rows = [list(cells), *map(list, zip(*cells.values(), strict=True))]
        lines = list(self.warnings)
        for label, *numbers, note in rows:
            first, *others = wide.values()
            told = (f"{number:>{width}}" for number, width in zip(numbers, others, strict=False))
            lines.append("  ".join([f"{label:<{first}}", *told, note]).rstrip())
        lines += [f"{label:<{next(iter(wide.values()))}}  did not run: {why}" for label, why in self.missing]
        return "\n".join([*lines, fill(self.caption, _LETTERS, break_on_hyphens=False)])


_LETTERS: Final = 100
"""So many letters of text stand in a cell of JupyterLab in a window of 1280; it breaks what is longer within a word."""
_WHISKER: Final = 1.5
"""The end of a chart's whiskers, in lengths of its longest bar."""
_MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
_COLORS: Final[dict[str, dict[str, Any]]] = {
    "light": {
        "back": "#ffffff", "text": "#1f2328", "bar": "#4c78a8", "spread": "#6b7280", "roof": "#1f2328",
        "marks": ("#4c78a8", "#e45756", "#2f8f5b", "#b279a2", "#d97706", "#0f766e", "#6b7280"),
    },
    "dark": {
        "back": "#1e1e1e", "text": "#e5e7eb", "bar": "#6ea3d8", "spread": "#9ca3af", "roof": "#e5e7eb",
        "marks": ("#6ea3d8", "#ff8a80", "#6fd19c", "#d7a6cc", "#fbbf24", "#5eead4", "#9ca3af"),
    },
}  # fmt: skip


def _figure(size: tuple[float, float], colors: dict[str, Any]) -> tuple[Figure, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", extra="lab", purpose="to draw a chart") from None
    figure = Figure(figsize=size, layout="constrained", facecolor=colors["back"])
    axes = figure.subplots()
    axes.set_facecolor(colors["back"])
    axes.tick_params(which="both", colors=colors["text"])
    axes.xaxis.label.set_color(colors["text"])
    axes.yaxis.label.set_color(colors["text"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(colors["spread"])
    return figure, axes


def _part(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.0%}" if fraction >= 0.005 else "< 1%"


def _ms(value: float) -> str:
    return time_words(value * 1e6)


def _span(low: float, high: float) -> str:
    """Two times, with one unit if it is the same.

    >>> _span(0.0108, 0.0151), _span(0.9, 1.2)
    ('10.8 – 15.1 µs', '900 µs – 1.2 ms')
    """
    first, last = _ms(low).split(), _ms(high).split()
    return f"{first[0] if first[1] == last[1] else ' '.join(first)} – {' '.join(last)}"
