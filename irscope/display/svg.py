"""Pictures as SVG that need no script, font or network: the graph view, and the parts that other pictures are made of."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Sequence
from typing import Final

from irscope._base.words import in_markup
from irscope.report.layout import Layout, Rect, Route, lay_out
from irscope.report.view_models import Box, GraphView
from irscope.report.words import PALETTE, WRITES


def embedded_svg(svg: str, alt: str) -> str:
    """An `<img>` with the picture as its data URL."""
    data = b64encode(svg.encode()).decode()
    return f'<img alt="{in_markup(alt)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


# The parts of pictures: text, bars, and the style sheet that each picture includes.
#
# Colours are classes of that sheet, which follows the reader's preferred colour scheme. Hovering describes a part.


_STYLE: Final = (
    "svg{background:#fff}text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.m{font-family:ui-monospace,monospace}"
    ".q{fill:#667085}.b{fill:#4c78a8}.a{fill:#2f8f5b}.s{fill:#e45756}.g{stroke:#d0d5dd;stroke-width:1}.l{stroke:#1f2328;fill:none;"
    "stroke-width:1.3}.w{stroke:#1f2328;stroke-width:1}.f{fill:#72b7b2;fill-opacity:.35;stroke:#2f7d78}.x{stroke:#fff;"
    "stroke-width:1}.k{fill:#4c78a8;fill-opacity:.75}.e{fill:#c4cad3}"
    "@media(prefers-color-scheme:dark){svg{background:#1e1e1e}text{fill:#e5e7eb}.q{fill:#9ca3af}.b,.k{fill:#6ea3d8}.a{fill:#6fd19c}"
    ".s{fill:#ff8a80}.g{stroke:#3f4650}.l,.w{stroke:#e5e7eb}.f{fill:#2f7d78;stroke:#72b7b2}.x{stroke:#1e1e1e}.e{fill:#4b5563}}"
)
WIDTH: Final = 860
"""The default width of a picture, in pixels."""


def picture(height: float, parts: Sequence[str], label: str, width: float = WIDTH) -> str:
    """A picture of these parts, with `label` for screen readers. Its role is a group if it contains links."""
    role = "group" if any("<a " in part for part in parts) else "img"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="{role}" aria-label="{in_markup(label)}"><style>{_STYLE}</style>{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "", style: str = "") -> str:
    """A line of text; `kind` is a class of the style sheet, `anchor` is SVG's."""
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}{f" style={chr(34)}{style}{chr(34)}" if style else ""}>{in_markup(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, title: str = "", fill: str = "") -> str:
    """A bar, at least half a pixel wide."""
    told = f"<title>{in_markup(title)}</title>" if title else ""
    color = f' style="fill:{fill}"' if fill else ""
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{height:.2f}" class="{kind}"{color}>{told}</rect>'


def cut(words: str, width: float, letter: float = 6.1) -> str:
    """The text, cut to a width in pixels."""
    most = int(width / letter)
    return words if len(words) <= most else words[: max(most - 1, 0)] + "…" if most > 2 else ""


MOST_BOXES = 1500
"""The most boxes of a readable picture; outer boxes are closed until it fits."""
_MARGIN = 8.0
_GRAPH_STYLE = (
    "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2430}"
    ".d{fill:#667085;font-size:10px}.e{fill:none;stroke:#98a2b3;stroke-width:1.1}"
    ".n{fill:#667085;font-size:10px}.w{fill:#fff}.m{fill:#f6f7f9;stroke:#c3cad6}.g{fill:#eef4fb}"
)
_DARK = (
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.d,.n{fill:#a3adba}.e{stroke:#7c8798}"
    ".w{fill:#1e1e1e}.m{fill:#272a30}.g{fill:#1f2d3b}}"
)


_HEAD = "m-3-5l3 5 3-5"
"""The arrow head of an edge, which arrives from above."""


def graph_svg(view: GraphView, *, closed: Collection[int] | None = None, selected: Collection[int] = (), themed: bool = False) -> str:
    """Draw a graph view; `selected` ids are outlined. A `themed` picture follows the reader's colour scheme."""
    shut = _closed_until_it_fits(view, closed)
    layout = lay_out(view, shut)
    boxes = {box["id"]: box for box in view["boxes"]}
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" role="img">',
        f"<style>{_GRAPH_STYLE}{_DARK if themed else ''}</style>",
        f'<rect x="{-_MARGIN:.0f}" y="{-_MARGIN:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" class="w"/>',
    ]
    drawn = [(boxes[id], rect) for id, rect in layout.rects.items()]
    inner = {box["parent"] for box, _ in drawn}
    for box, rect in drawn:
        if box["id"] in inner:
            picture.append(_frame(box, rect, box["id"] in selected))
    picture += [_edge(route, layout) for route in layout.routes]
    picture += [_box(box, rect, box["id"] in selected) for box, rect in drawn if box["id"] not in inner]
    picture.append("</svg>")
    return "\n".join(picture)


def _closed_until_it_fits(view: GraphView, closed: Collection[int] | None) -> set[int]:
    shut = set(view["closed"] if closed is None else closed)
    children: dict[int, int] = {}
    for box in view["boxes"]:
        children[box["parent"]] = children.get(box["parent"], 0) + 1
    visible: dict[int, bool] = {0: True}
    count = 0
    for box in view["boxes"]:
        visible[box["id"]] = visible[box["parent"]] and box["parent"] not in shut
        count += visible[box["id"]]
        if count > MOST_BOXES and box["id"] in children:
            shut.add(box["id"])
    return shut


def _frame(box: Box, rect: Rect, is_selected: bool) -> str:
    """An open box; its children are drawn over it."""
    kind = "g" if box["kind"] == "group" else "m"
    colour = PALETTE.get(box["category"], PALETTE["other"])
    line = ' style="stroke-width:2.5"' if is_selected else ""
    return (
        f'<g><rect class="{kind}" x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" rx="6" '
        f'stroke="{colour}"{line}/><text x="{rect.x + 8:.1f}" y="{rect.y + 14:.1f}">{_fit(box["label"], rect.width)}</text></g>'
    )


def _box(box: Box, rect: Rect, is_selected: bool) -> str:
    """A closed box or an op."""
    colour = WRITES if box["writes"] else PALETTE.get(box["category"], PALETTE["other"])
    line = 2.5 if is_selected else 1.2
    fill = "g" if box["kind"] == "group" else "m" if box["kind"] in ("module", "block") else "w"
    round_corner = 12 if box["kind"] in ("input", "output") else 4
    middle = rect.x + rect.width / 2
    badge = ""
    if box["equivalence_class"] >= 0:
        badge = (
            f'<text class="n" x="{rect.x + rect.width - 4:.1f}" y="{rect.y + 10:.1f}" text-anchor="end">={box["equivalence_class"]}</text>'
        )
    return (
        f"<g><title>{in_markup(box['label'])} {in_markup(box['detail'])}</title>"
        f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" rx="{round_corner}" '
        f'class="{fill}" style="stroke:{colour};stroke-width:{line}"/>'
        f'<rect x="{rect.x:.1f}" y="{rect.y + 4:.1f}" width="3" height="{rect.height - 8:.1f}" fill="{colour}"/>'
        f'<text x="{middle:.1f}" y="{rect.y + rect.height / 2 - 2:.1f}" text-anchor="middle">{_fit(box["label"], rect.width)}</text>'
        f'<text class="d" x="{middle:.1f}" y="{rect.y + rect.height / 2 + 11:.1f}" text-anchor="middle">'
        f"{_fit(box['detail'], rect.width * 1.15)}</text>{badge}</g>"
    )


def _edge(route: Route, layout: Layout) -> str:
    source, target = layout.rects[route.source], layout.rects[route.target]
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    bend = max(12.0, min(60.0, abs(y2 - y1) / 2))
    path = f'<path class="e" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}{_HEAD}"/>'
    if len(route.values) == 1:
        return path
    return f'{path}<text class="n" x="{(x1 + x2) / 2 + 3:.1f}" y="{(y1 + y2) / 2:.1f}">{len(route.values)}</text>'


def _fit(text: str, width: float) -> str:
    """The text, shortened to a width in pixels, escaped."""
    most = max(4, int((width - 10) / 6.0))
    return in_markup(text if len(text) <= most else text[: most - 1] + "…")
