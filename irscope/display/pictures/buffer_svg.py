"""Pictures of buffers and layouts: the views of a buffer as a byte map to scale, and the axes of a tensor in memory order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope._base.escaping import in_markup
from irscope.report.view_models import AxisView, BufferView
from irscope.report.words import PALETTE, WRITES

__all__ = ["buffer_svg", "layout_svg"]

_LABEL, _MAP, _ROW, _EDGE = 150, 560, 27, 10
_FLAGS: Final = {"contiguous": "#54a24b", "gap": "#f58518", "broadcast": "#c3cad6", "expanded": "#b279a2"}
_STYLE: Final = (
    "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2430}.d{fill:#667085;font-size:10px}"
    ".h{fill:url(#met)}.t{fill:#eef1f5}.w{fill:#fff}.c{fill:#f6f7f9}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.d{fill:#a3adba}.t{fill:#2f343c}.w{fill:#1e1e1e}.c{fill:#272a30}}"
)


def _open(width: float, height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>{in_markup(title)}</title><style>{_STYLE}</style>"
        '<defs><pattern id="met" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="2" height="5" fill="{WRITES}"/></pattern></defs><rect width="{width:.0f}" height="{height:.0f}" rx="6" class="w"/>'
    )


def buffer_svg(view: BufferView) -> str:
    """Draw one buffer: a line per value, indented by its depth in the view chain, and hatched where it overlaps an unrelated
    value."""
    width, top = _LABEL + _MAP + 2 * _EDGE, 40
    height = top + len(view["rows"]) * _ROW + (28 if view["left_out"] else 12)
    parts = [_open(width, height, f"the buffer of {view['root']}")]
    window = view["window"]
    parts_of_it = f"{view['bytes'] // window:,} such parts"
    times = f", of which the first {window:,} are drawn: the same lies in each of {parts_of_it}" if window < view["bytes"] else ""
    parts.append(f'<text x="{_EDGE}" y="20">the buffer of {in_markup(view["root"])}, {view["bytes"]:,} bytes{times}</text>')
    left = _EDGE + _LABEL
    parts += [
        f'<text class="d" x="{left + at * _MAP:.1f}" y="34" text-anchor="{anchor}">{round(at * window):,}</text>'
        for at, anchor in ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end"))
    ]
    for index, row in enumerate(view["rows"]):
        y = top + index * _ROW
        indent = _EDGE + min(row["depth"], 8) * 10
        parts.append(f'<g data-id="{row["id"]}"><title>{in_markup(row["name"])}: {in_markup(row["told"])}</title>')
        parts.append(f'<text x="{indent}" y="{y + 11}">{in_markup(_short(row["name"], row["depth"]))}</text>')
        parts.append(f'<text class="d" x="{indent}" y="{y + 22}">{in_markup(row["op"].removeprefix("aten::"))}</text>')
        parts.append(f'<rect class="t" x="{left}" y="{y + 3}" width="{_MAP}" height="{_ROW - 8}"/>')
        colour = PALETTE["input"] if not row["depth"] else PALETTE["view"]
        parts += [_bar(left, y, run, f'fill="{colour}"') for run in row["runs"]]
        parts += [_bar(left, y, run, 'class="h"') for run in row["shared"]]
        parts.append("</g>")
    if view["left_out"]:
        parts.append(f'<text class="d" x="{_EDGE}" y="{height - 10}">and {view["left_out"]} more views</text>')
    parts.append("</svg>")
    return "".join(parts)


def _bar(left: float, y: float, run: Sequence[float], paint: str) -> str:
    return f'<rect x="{left + run[0] * _MAP:.1f}" y="{y + 3}" width="{(run[1] - run[0]) * _MAP:.1f}" height="{_ROW - 8}" {paint}/>'


def _short(name: str, depth: int) -> str:
    most = 22 - min(depth, 8)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def layout_svg(name: str, axes: Sequence[AxisView]) -> str:
    """Draw the axes of one tensor in memory order, slowest on the left, coloured by their flags."""
    box, gap = 104, 8
    width = max(2 * _EDGE + len(axes) * (box + gap), 240)
    parts = [_open(width, 92, f"the layout of {name}"), f'<text x="{_EDGE}" y="18">{in_markup(name)}: axes in memory order</text>']
    for index, axis in enumerate(axes):
        x = _EDGE + index * (box + gap)
        frame = f'class="c" stroke="{_FLAGS[axis["flag"]]}" stroke-width="2"'
        parts.append(f'<rect x="{x}" y="28" width="{box}" height="52" rx="5" {frame}/>')
        lines = (f"axis {axis['axis']}: {axis['extent']}", f"stride {axis['stride']}", axis["flag"])
        for line, text in enumerate(lines):
            style = "" if line == 0 else ' class="d"'
            parts.append(f'<text{style} x="{x + 8}" y="{44 + line * 14}">{in_markup(_cut(text))}</text>')
    if not axes:
        parts.append(f'<text class="d" x="{_EDGE}" y="50">one element</text>')
    parts.append("</svg>")
    return "".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= 18 else f"{text[:17]}…"
