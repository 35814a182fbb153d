"""Charts of measurements, drawn with matplotlib."""

from __future__ import annotations

from typing import Any

from irscope.errors import MissingExtra
from irscope.report.view_models import TimingView

__all__ = ["timing_figure"]


def timing_figure(view: TimingView) -> Any:
    """Horizontal bars of median run times with their spread; a matplotlib Figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", extra="lab", purpose="to draw charts") from None
    bars = view["bars"]
    figure = Figure(figsize=(7.0, 0.9 + 0.45 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    medians = [bar["median"] for bar in bars]
    spread = [[bar["median"] - bar["low"] for bar in bars], [bar["high"] - bar["median"] for bar in bars]]
    axes.barh(range(len(bars)), medians, xerr=spread, color="#4c78a8", ecolor="#667085", capsize=3)
    axes.set_yticks(range(len(bars)), [bar["label"] for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel("median run time, ms (whiskers: fastest and slowest run)")
    axes.set_title(view["caption"], fontsize=10, loc="left")
    for position, bar in enumerate(bars):
        axes.annotate(f"{bar['median']:.3g} ms", (bar["high"], position), xytext=(4, 0), textcoords="offset points", va="center")
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
