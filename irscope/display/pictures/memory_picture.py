"""A memory plan as SVG, addresses over time, for light and dark pages; needs no script, font or network.

Each allocation is a rectangle: its width is its live range, its height its size. The dashed line marks the peak; allocations
live then have a strong border. Below are the bytes allocated and live at each moment. Hovering describes a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope._base.escaping import in_markup
from irscope.report.view_models import MemoryBar, MemoryView
from irscope.report.words import PALETTE, byte_count

__all__ = ["memory_svg"]

_STYLE: Final = (
    "svg{background:#fff}text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.q{fill:#667085}"
    ".b{fill-opacity:.42;stroke-opacity:.8;stroke-width:.7}.p{fill-opacity:.72;stroke:#1f2328;stroke-width:1.4}"
    ".g{stroke:#d0d5dd;stroke-width:1}.l{stroke:#b42318;stroke-width:1.3;stroke-dasharray:4 3}.r{fill:#b42318}"
    ".n{fill:#4c78a8;fill-opacity:.35;stroke:#4c78a8}.a{fill:none;stroke:#667085;stroke-width:1.2}"
    "@media(prefers-color-scheme:dark){svg{background:#1e1e1e}text{fill:#e5e7eb}.q{fill:#9ca3af}.p{stroke:#f3f4f6}"
    ".g{stroke:#3f4650}.l{stroke:#ff8a80}.r{fill:#ff8a80}.n{fill:#6ea3d8;stroke:#6ea3d8}.a{stroke:#9ca3af}}"
)
_WIDTH: Final = 860.0
_LEFT, _RIGHT, _TOP = 96.0, 14.0, 34.0
_MAP, _GAP, _CURVE = 300.0, 40.0, 70.0
_LEAST: Final = 0.6
"""The least height and width of a rectangle, in pixels."""


def memory_svg(view: MemoryView) -> str:
    """The picture of a memory view."""
    top = max((section["low"] + section["bytes"] for section in view["sections"]), default=0) or 1
    across = (_WIDTH - _LEFT - _RIGHT) / max(view["moments"], 1)
    height = _TOP + _MAP + _GAP + _CURVE + 24
    parts = [_text(_LEFT, 16, f"{view['title']}: {byte_count(view['peak'])} at once")]
    for section in view["sections"]:
        low, high = _y(section["low"], top), _y(section["low"] + section["bytes"], top)
        parts.append(f'<path class="g" d="M{_LEFT:.1f} {low:.1f}H{_WIDTH - _RIGHT:.1f}"/>')
        if low - high > 12:
            middle = (low + high) / 2
            parts.append(_text(_LEFT - 8, middle, section["label"], "q", "end"))
            parts.append(_text(_LEFT - 8, middle + 13, byte_count(section["bytes"]), "q", "end") if low - high > 28 else "")
    parts += [_bar(bar, across, top) for bar in sorted(view["bars"], key=lambda bar: bar["at_peak"])]
    moment = _LEFT + (view["peak_moment"] + 0.5) * across
    bottom = _TOP + _MAP + _GAP + _CURVE
    parts.append(f'<path class="l" d="M{moment:.1f} {_TOP - 6:.1f}V{bottom:.1f}"/>')
    anchor = "end" if moment > _WIDTH / 2 else "start"
    parts.append(_text(moment + (-5 if anchor == "end" else 5), _TOP - 4, "peak", "r", anchor))
    parts += _curves(view, across)
    parts.append(_text(_LEFT, bottom + 16, "time: the nodes of the program, in order", "q"))
    label = in_markup(f"{view['title']}. {view['caption']}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
        f'role="img" aria-label="{label}"><style>{_STYLE}</style>{"".join(parts)}</svg>'
    )


def _y(address: float, top: float) -> float:
    """Address 0 is at the bottom."""
    return _TOP + _MAP * (1 - address / top)


def _bar(bar: MemoryBar, across: float, top: float) -> str:
    x, width = _LEFT + bar["start"] * across, max((bar["end"] - bar["start"] + 1) * across - 0.4, _LEAST)
    y, height = _y(bar["low"] + bar["bytes"], top), max(_MAP * bar["bytes"] / top, _LEAST)
    colour = PALETTE.get(bar["category"], PALETTE["other"])
    strong = bar["at_peak"] and height > 3  # a border would hide a thin rectangle
    line = "" if strong else f";stroke:{colour}"
    text = ""
    if height > 12 and width > 7 * len(bar["label"]) + 6:
        text = _text(x + 4, y + min(height / 2 + 4, height - 3), bar["label"])
    return (
        f'<g><rect class="{"b p" if strong else "b"}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
        f'style="fill:{colour}{line}"><title>{in_markup(bar["title"])}</title></rect>{text}</g>'
    )


def _curves(view: MemoryView, across: float) -> list[str]:
    """Bytes live and bytes allocated, as step functions."""
    bottom = _TOP + _MAP + _GAP + _CURVE
    most = max(view["peak"], view["lower_bound"], 1)
    needed = _steps(view["needed"], view["moments"], across, bottom, most)
    allocated = _steps(view["allocated"], view["moments"], across, bottom, most)
    base = f"M{_LEFT:.1f} {bottom:.1f}"
    return [
        f'<path class="n" d="{base}{needed}V{bottom:.1f}Z"><title>needed at each moment</title></path>',
        f'<path class="a" d="{base}{allocated}V{bottom:.1f}"><title>allocated at each moment</title></path>',
        f'<path class="g" d="{base}H{_WIDTH - _RIGHT:.1f}"/>',
        _text(_LEFT - 8, bottom - _CURVE + 9, byte_count(most), "q", "end"),
        _text(_LEFT - 8, bottom - _CURVE / 2 + 4, "needed,", "q", "end"),
        _text(_LEFT - 8, bottom - _CURVE / 2 + 17, "allocated", "q", "end"),
    ]


def _steps(changes: Sequence[Sequence[int]], moments: int, across: float, bottom: float, most: int) -> str:
    path = [f"H{_LEFT + at * across:.1f}V{bottom - _CURVE * value / most:.1f}" for at, value in changes]
    return "".join(path) + f"H{_LEFT + moments * across:.1f}"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{in_markup(text)}</text>'
