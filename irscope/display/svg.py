"""The graph view as one SVG that needs no script, font or network."""

from __future__ import annotations

from collections.abc import Collection

from irscope._base.escaping import in_markup
from irscope.report.boxes import Layout, Rect, Route, lay_out
from irscope.report.view_models import Box, GraphView
from irscope.report.words import PALETTE, WRITES

__all__ = ["MOST_BOXES", "graph_svg"]

MOST_BOXES = 1500
"""The most boxes of a readable picture; outer boxes are closed until it fits."""
_MARGIN = 8.0
_STYLE = (
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


def graph_svg(
    view: GraphView, *, closed: Collection[int] | None = None, selected: Collection[int] = (), themed: bool = False
) -> str:
    """Draw a graph view; `selected` ids are outlined. A `themed` picture follows the reader's colour scheme."""
    shut = _closed_until_it_fits(view, closed)
    layout = lay_out(view, shut)
    boxes = {box["id"]: box for box in view["boxes"]}
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" role="img">',
        f"<style>{_STYLE}{_DARK if themed else ''}</style>",
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
            f'<text class="n" x="{rect.x + rect.width - 4:.1f}" y="{rect.y + 10:.1f}" '
            f'text-anchor="end">={box["equivalence_class"]}</text>'
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
    path = (
        f'<path class="e" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}{_HEAD}"/>'
    )
    if len(route.values) == 1:
        return path
    return f'{path}<text class="n" x="{(x1 + x2) / 2 + 3:.1f}" y="{(y1 + y2) / 2:.1f}">{len(route.values)}</text>'


def _fit(text: str, width: float) -> str:
    """The text, shortened to a width in pixels, escaped."""
    most = max(4, int((width - 10) / 6.0))
    return in_markup(text if len(text) <= most else text[: most - 1] + "…")
