"""Pictures as SVG that need no script, font or network: the graph view, and the parts that other pictures are made of."""

import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log2
from typing import Final

from irscope._base.words import in_markup, plural
from irscope.report.layout import MOST_DETAIL, Layout, Rect, Route, lay_out
from irscope.report.view_models import Box, ComparedView, GraphView
from irscope.report.words import COMPARED, PALETTE, WRITES


def in_text(words: str) -> str:
    """Lines as they are; a long one breaks between words, where a notebook's style would break it anywhere."""
    return f'<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">{in_markup(words)}</pre>'


def embedded_svg(svg: str, alt: str, tallest: float = 720) -> str:
    """An `<img>` with the picture as its data URL; one that is wider than its page shrinks until its smallest letters have nine pixels,
    and then scrolls, as does one of more than `tallest` pixels."""
    data, words = b64encode(_INERT.sub(lambda found: _ZEROS.sub("", found[1] or ""), svg).encode()).decode(), in_markup(alt)
    wide, tall = (int(re.findall(rf'{way}="(\d+)', svg)[0]) for way in ("width", "height"))
    least = f";min-width:{_SMALLEST * wide:.0f}px" if wide > WIDTH else ""
    image = f'<img alt="{words}" style="max-width:100%{least}" src="data:image/svg+xml;base64,{data}">'
    if not least and tall <= tallest:
        return image
    style = f"overflow:auto;max-height:{tallest}px" if tall > tallest else "overflow-x:auto"
    return f'<div style="{style}" tabindex="0" role="region" aria-label="{words}">{image}</div>'


_INERT = re.compile(r'(?<= )((?:d|x|y|width|height)="[^"]*")|<title>[^<]*</title>| data-[a-z]+="[^"]*"|\n')
"""Titles and ids, which no image shows, and numbers, whose zeros a notebook need not hold."""
_ZEROS = re.compile(r"\.0(?!\d)")


# The parts of pictures: text, bars, and the style sheet that each picture includes.
#
# Colours are classes of that sheet, which follows the reader's preferred colour scheme. Hovering describes a part.

_STYLE: Final = (
    ".ground{fill:#fff}text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.m{font-family:ui-monospace,monospace}"
    ".q{fill:#667085}.b{fill:#4c78a8}.a{fill:#2f8f5b}.s{fill:#e45756}.g{stroke:#d0d5dd;stroke-width:1}.l{stroke:#1f2328;fill:none;"
    "stroke-width:1.3}.w{stroke:#1f2328;stroke-width:1}.f{fill:#72b7b2;fill-opacity:.35;stroke:#2f7d78}.x{stroke:#fff;"
    "stroke-width:1}.k{fill:#4c78a8;fill-opacity:.75}.e{fill:#c4cad3}"
    "@media(prefers-color-scheme:dark){.ground{fill:#1e1e1e}text{fill:#e5e7eb}.q{fill:#9ca3af}.b,.k{fill:#6ea3d8}.a{fill:#6fd19c}"
    ".s{fill:#ff8a80}.g{stroke:#3f4650}.l,.w{stroke:#e5e7eb}.f{fill:#2f7d78;stroke:#72b7b2}.x{stroke:#1e1e1e}.e{fill:#4b5563}}"
)
WIDTH: Final = 860  # The default width of a picture, in pixels.
_SMALLEST = 0.82  # Shrunk further, the smallest letters have less than nine pixels.


def picture(height: float, parts: Sequence[str], label: str, width: float = WIDTH, style: str = _STYLE) -> str:
    """A picture of these parts on a ground, with `label` for screen readers. Its role is a group if it contains links."""
    role, size = "group" if any("<a " in part for part in parts) else "img", f'width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" role="{role}" '
        f'aria-label="{in_markup(label)}"><style>{style}</style><rect {size} class="ground"/>{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "", style: str = "") -> str:
    """A line of text; `kind` is a class of the style sheet, `anchor` is SVG's."""
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}{f" style={chr(34)}{style}{chr(34)}" if style else ""}>{in_markup(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """A bar, at least half a pixel wide."""
    told = f"<title>{in_markup(title)}</title>" if title else ""
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{height:.2f}" class="{kind}">{told}</rect>'


def free_spot(
    told: list[tuple[float, float, float]], wide: float, spots: Iterable[tuple[float, float]], gap: float
) -> tuple[float, float] | None:
    """The first of some starts and base lines at which a label meets none of those told (left, right and base line), among which it
    then is; None if it meets one everywhere."""
    for start, line in spots:
        if all(start > end or start + wide < begin or abs(line - other) > gap for begin, end, other in told):
            told.append((start, start + wide, line))
            return start, line
    return None


def cut(words: str, width: float, letter: float = 7.1) -> str:
    """The text, cut to a width in pixels, but for the number of a line at its end; nothing where not even three letters have room.

    >>> cut("modeling_gemma.py:112", 110), cut("aten::convolution", 60), cut("relu", 16)
    ('modeling_g…:112', 'aten::c…', '')
    """
    most = int(width / letter)
    if len(words) <= most:
        return words
    line = re.search(r":\d+$", words)
    end = line[0] if line else ""
    left = most - 1 - len(end)
    return f"{words[:left]}…{end}" if left > 2 else ""


MOST_BOXES = 1500  # The most boxes of a readable picture; outer boxes are closed until it fits.
_FEW_EFFECTS = 40
_MARGIN = 20.0
_GRAPH_STYLE = (
    "text{font:11.5px ui-sans-serif,system-ui,sans-serif;fill:#1f2430}.h{font:600 13px ui-monospace,monospace}"
    ".d{fill:#57606f}.e{fill:none;stroke:#98a2b3;stroke-width:1.1}.t{stroke-dasharray:2 1.5}"
    ".f{stroke:#d62728}.p{stroke-dasharray:6 3}.w{fill:#fff}.k{fill-opacity:.12}.o{fill-opacity:.06}"
    ".r{fill:#667085}.c{font-weight:600;font-size:11px;fill:#fff}"
)
_DARK = (
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.d{fill:#a3adba}.e{stroke:#7c8798}"
    ".w{fill:#1e1e1e}.r{fill:#a3adba}.c{fill:#1e1e1e}}"
)
PEN = "M1 9.5L2 6.5L8 .5L10.5 3L4.5 9L1 9.5Z"  # The mark of a box that writes memory in place.


def graph_svg(
    view: GraphView, *, closed: Collection[int] | None = None, selected: Collection[int] = (), themed: bool = False,
    compared: ComparedView | None = None, layout: Layout | None = None, lacking: Collection[int] = (),
) -> str:  # fmt: skip
    """Draw a graph view, as the explorer does; `selected` ids are outlined. A `themed` picture follows the reader's colour scheme. With
    another grouping, colours say which pairs of ops it has in one kernel, too, and a legend says so. In a given layout, of boxes that
    this program lacks only the places are shown.

    A few effects are drawn as dashed red edges; of many, none.
    """
    if sum(not edge["value"] for edge in view["edges"]) > _FEW_EFFECTS:
        view = view | {"edges": [edge for edge in view["edges"] if edge["value"]]}
    shut = _closed_until_it_fits(view, closed)
    layout = layout or lay_out(view, shut)
    words = _compared_words(compared) if compared is not None else []
    if not view["boxes"]:
        words = [("none", "no ops")]
    width = max(layout.width, *(24.0 + 6.4 * len(word) for _, word in words), 0.0) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + 18 * len(words)
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" role="img">',
        f"<style>{_GRAPH_STYLE}{_DARK if themed else ''}</style>",
        f'<rect x="{-_MARGIN:.0f}" y="{-_MARGIN:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" class="w"/>',
    ]
    drawn = [box for box in view["boxes"] if box["id"] in layout.rects]
    inner = {box["parent"] for box in drawn}
    pairs = _drawn_pairs(view, layout, compared) if compared is not None else {}
    kinds = compared["kinds"] if compared is not None else None

    def boxes(*, is_open: bool) -> list[str]:
        those = [box for box in drawn if (box["id"] in inner) == is_open]
        return [
            _place(layout.rects[box["id"]]) if box["id"] in lacking
            else _box(box, layout, is_open=is_open, is_selected=box["id"] in selected, colour=_colour(box, kinds))
            for box in those
        ]  # fmt: skip

    picture += boxes(is_open=True)
    picture += dict.fromkeys(part for route in layout.routes for part in _edge(route, layout, pairs.get((route.source, route.target), "")))
    picture += boxes(is_open=False)
    for line, (colour, word) in enumerate(words):
        y = layout.height + _MARGIN + 18 * line
        picture.append(f'<rect x="0" y="{y - 4:.0f}" width="12" height="12" rx="3" fill="{colour}"/>')
        picture.append(f'<text x="18" y="{y + 6:.0f}">{in_markup(word)}</text>')
    picture.append("</svg>")
    return "\n".join(picture)


def _compared_words(compared: ComparedView) -> list[tuple[str, str]]:
    """The legend: the colour and the words of each kind of pair that there is."""
    words = {
        "same": "as in the other", "here": f"one kernel only in {compared['here']}", "there": f"one kernel only in {compared['there']}",
        "unmatched": "not compared",
    }  # fmt: skip
    counts = compared["counts"]
    found = [(COMPARED[kind], f"{word}: {plural(counts[kind], 'pair')} of ops") for kind, word in words.items() if counts.get(kind)]
    return [*found, *([(COMPARED["both"], "some of each")] if "both" in compared["kinds"].values() else [])]


def _drawn_pairs(view: GraphView, layout: Layout, compared: ComparedView) -> dict[tuple[int, int], str]:
    """The colours of edges between boxes that are drawn, where groupings differ."""
    around = {box["id"]: box["parent"] for box in view["boxes"]}

    def chain(id: int) -> list[int]:
        """The boxes around one that are drawn, from the outermost to itself."""
        found = [id]
        while (around.get(found[-1], 0)) != 0:
            found.append(around[found[-1]])
        return [box for box in reversed(found) if box in layout.rects]

    found: dict[tuple[int, int], str] = {}
    for pair in compared["pairs"]:
        if pair["kind"] in ("here", "there"):
            both = zip(chain(pair["producer"]), chain(pair["consumer"]), strict=False)
            ends, colour = next(((one, other) for one, other in both if one != other), (0, 0)), COMPARED[pair["kind"]]
            found[ends] = colour if found.get(ends, colour) == colour else COMPARED["both"]
    return found


def _colour(box: Box, kinds: Mapping[int, str] | None) -> str:
    if kinds is not None:
        return COMPARED[kinds.get(box["id"], "unmatched")]
    if box["writes"]:
        return WRITES
    category = "pointwise" if box["kind"] == "group" else "module" if box["kind"] in _CLUSTERS else box["category"]
    return PALETTE.get(category, PALETTE["other"])


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


def _box(box: Box, layout: Layout, *, is_open: bool, is_selected: bool, colour: str) -> str:
    """A box with its lines; the children of an open one are drawn over it."""
    rect, copies, kind = layout.rects[box["id"]], layout.copies.get(box["id"], 0), box["kind"]
    right, bottom, middle = rect.x + rect.width, rect.y + rect.height, rect.x + rect.width / 2
    corner = rect.height / 2 if kind in ("input", "output") else 7 if kind != "op" else 4
    dashes = ";stroke-dasharray:5 3" if is_open and kind == "group" and not is_selected else ""
    thick = ";stroke-width:3" if is_selected else ";stroke-width:1.8" if box["writes"] else ""
    place = f'x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" rx="{corner:.0f}"'
    parts = [f"<title>{in_markup(box['label'])} {in_markup(box['detail'])}</title>"]
    if box["size"] > 1 and not is_open and kind not in ("op", "input", "output"):
        behind = place.replace(f'x="{rect.x:.1f}" y="{rect.y:.1f}"', f'x="{rect.x + 3:.1f}" y="{rect.y + 3:.1f}"', 1)
        parts.append(f'<rect {behind} class="w" style="stroke:{colour};stroke-opacity:.5"/>')
    look = f'class="{"o" if is_open else "k"}" style="fill:{colour};stroke:{colour}{thick}{dashes}"'
    parts.append(f'<rect {place} class="w"/><rect {place} {look}/>')
    if kind == "op":
        parts.append(f'<rect x="{rect.x:.1f}" y="{rect.y + 3:.1f}" width="4" height="{rect.height - 6:.1f}" rx="2" fill="{colour}"/>')
    if box["id"] in layout.reads:
        parts.append(f'<path class="e" d="M{middle:.1f} {rect.y - 10:.1f}v2m0 2v2m0 2v2{_HEAD}"/>')
    if box["id"] in layout.feeds:
        parts.append(f'<path class="e t" d="M{middle:.1f} {bottom:.1f}v8"/>')
    centred = kind in ("input", "output")
    x, anchor = (middle, ' text-anchor="middle"') if centred else (rect.x + 12, "")
    baseline = rect.y + (17 if is_open or box["detail"] else rect.height / 2 + 4.5)
    parts.append(f'<text class="h" x="{x:.1f}" y="{baseline:.1f}"{anchor}>{in_markup(layout.labels[box["id"]])}</text>')
    if box["detail"] and not is_open:
        detail = box["detail"] if len(box["detail"]) <= MOST_DETAIL else f"{box['detail'][: MOST_DETAIL - 1]}…"
        parts.append(f'<text class="d" x="{x:.1f}" y="{rect.y + 33:.1f}"{anchor}>{in_markup(detail)}</text>')
    wide = 10 + 7 * len(f"×{copies}") if copies else 0
    if copies:
        parts.append(f'<rect class="r" x="{right - wide - 4:.1f}" y="{rect.y + 4:.1f}" width="{wide}" height="15" rx="7.5"/>')
        parts.append(f'<text class="c" x="{right - wide / 2 - 4:.1f}" y="{rect.y + 15.5:.1f}" text-anchor="middle">×{copies}</text>')
    if box["writes"]:
        parts.append(f'<path transform="translate({right - 16 - wide:.1f} {rect.y + 7:.1f})" fill="{colour}" d="{PEN}"/>')
    return f'<g data-box="{box["id"]}">{"".join(parts)}</g>'


def _place(rect: Rect) -> str:
    """Where another program has a box."""
    return f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" rx="4" class="e t"/>'


_CLUSTERS: Final = ("module", "repeat", "stretch", "lane")
_HEAD: Final = "m-3-5l3 5 3-5"  # The arrow head of an edge that arrives from above.


def _edge(route: Route, layout: Layout, colour: str = "") -> list[str]:
    """The path of an edge, wider for several values; two stubs for an edge without a route, which are those of the next such edge, too."""
    thick = 2.4 if colour else min(3.0, 1.1 + 0.4 * log2(len(route.values))) if len(route.values) > 1 else 0
    looks = [f"stroke-width:{thick:.1f}"] * (thick > 0) + [f"stroke:{colour}"] * (colour != "")
    wide = f' style="{";".join(looks)}"' if looks else ""
    ends = f'data-from="{route.source}" data-to="{route.target}"{wide}'
    if route.points is None:
        source, target = layout.rects[route.source], layout.rects[route.target]
        leaves = f"M{source.x + 0.8 * source.width:.1f} {source.y + source.height:.1f}v9m-3 0h6"  # beside the edges with a route
        enters = f"M{target.x + 0.2 * target.width:.1f} {target.y:.1f}"
        return [
            f'<path class="e t"{wide} d="{leaves}"/>',
            f'<path class="e t"{wide} d="{enters}m-3-12h6m-3 0v12"/><path class="e"{wide} d="{enters}{_HEAD}"/>',
        ]
    (x, y), *others = route.points
    path = f"M{x:.1f} {y:.1f}"
    (x0, y0), (x1, y1) = route.points[-2:]
    head = _HEAD if y1 > y0 else "m-3 5l3-5 3 5" if y1 < y0 else "m-5-3l5 3-5 3" if x1 > x0 else "m5-3l-5 3 5 3"
    for to_x, to_y in others:
        if to_x == x or to_y == y:
            path += f"L{to_x:.1f} {to_y:.1f}"
        else:
            bend = (to_y - y) / 2
            path += f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    if any(route.values):
        return [f'<path class="e" {ends} d="{path}{head}"/>']
    told = "<title>it reads memory that the other writes</title>"
    return [f'<path class="e f p" {ends} d="{path}">{told}</path><path class="e f" d="M{x:.1f} {y:.1f}{head}"/>']
