"""Pictures of memory as SVG, for light and dark pages: who may be where, a buffer with its views to scale, and a memory plan."""

from collections.abc import Sequence
from typing import Final

from irscope._base.words import byte_count, in_markup
from irscope.display.svg import PEN, free_spot, picture
from irscope.display.svg import text as _text
from irscope.report.view_models import BufferView, MemoryBar, MemoryView, PointsToArrow, PointsToBox, PointsToView
from irscope.report.words import PALETTE, WRITES


def _open(width: float, height: float, title: str, style: str, definitions: str = "") -> str:
    """The beginning of a picture with a title and a ground."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f'<title>{in_markup(title)}</title><style>{style}</style>{definitions}<rect {size} rx="6" class="w"/>'
    )


# Who may be where: names in the lanes of their memories, in the order of time.

_POINTS_STYLE: Final = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2430}.n,.o,.l{font-family:ui-monospace,monospace}.n{font-weight:600}"
    ".o,.l,.q{font-size:11px;fill:#5b6472}.o{paint-order:stroke;stroke:#fff;stroke-width:3px}.w{fill:#fff}.v{fill:#e3e8ef}"
    ".b{fill:#fff;stroke:#667085}.location{fill:#e3f1e8;stroke:#2f855a}.outside{fill:#fdf0da;stroke:#b7791f}"
    ".a{fill:none;stroke:#667085;stroke-width:1.3}.may{stroke-dasharray:5 3}.holds{stroke-dasharray:1.5 2.5}.writes,.x{stroke:#c6282b}"
    ".x{stroke-width:2}.t{stroke:#1f6feb;stroke-width:2.2}.s{stroke:#1f6feb;stroke-width:2.5}.k{fill:#1f6feb}"
    ".c{fill:#fff;font-weight:600;font-size:11px}.p{fill:#c6282b}.c1{fill:#1f6feb;fill-opacity:.07;stroke:#1f6feb;stroke-opacity:.5}"
    ".c2{fill:#b7791f;fill-opacity:.08;stroke:#b7791f;stroke-opacity:.6}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.o,.l,.q{fill:#a3adba}.o{stroke:#1e1e1e}.w{fill:#1e1e1e}.v{fill:#30363f}"
    ".b{fill:#1e1e1e;stroke:#9ca3af}.location{fill:#1d3a2a;stroke:#6fd19c}.outside{fill:#40331a;stroke:#e0b35c}.a{stroke:#9ca3af}"
    ".writes,.x{stroke:#ff7b72}.t,.s{stroke:#6ea8fe}.p{fill:#ff7b72}.c{fill:#fff}}"
)
_TOLD: Final = 17


def points_to_svg(view: PointsToView) -> str:
    """Draw who may be where."""
    width, top = view["width"], view["height"]
    height = top + _TOLD * (len(view["told"]) + len(view["legend"])) + 12
    parts = [_open(width, height, view["title"], _POINTS_STYLE)]
    for place, cone in enumerate(view["cones"], 1):
        at = f'x="{cone["x"]:.1f}" y="{cone["y"]:.1f}" width="{cone["width"]:.1f}" height="{cone["height"]:.1f}"'
        parts.append(f'<rect {at} rx="9" class="c{place}"/>{_text(cone["x"] + 9, cone["y"] + 15, cone["label"], "q")}')
    parts += [
        f'<rect class="v" x="{band["x"] - 3:.1f}" y="{band["top"]:.1f}" width="6" height="{band["bottom"] - band["top"]:.1f}" rx="3"/>'
        for band in view["bands"]
    ]
    for line in view["lines"]:
        y = line["y"] + 4
        parts += [_step(16 + 18 * k, y, step) for k, step in enumerate(line["steps"])]
        parts += [_text(50, y, str(line["number"]), "l", "end"), _text(60, y, line["text"], "l")]
    parts += [_points_arrow(arrow) for arrow in view["arrows"]]
    parts += [_points_box(box) for box in view["boxes"]]
    parts += [_text(arrow["x"], arrow["y"], arrow["label"], "o") for arrow in view["arrows"] if arrow["label"]]
    numbered = [arrow for arrow in view["arrows"] if arrow["step"] and arrow["kind"] == "is"]
    parts += [_step(arrow["x"] + 6.7 * len(arrow["label"]) + 12, arrow["y"], arrow["step"]) for arrow in numbered]
    told = [(line, "") for line in view["told"]] + [(line, "q") for line in view["legend"]]
    parts += [_text(_EDGE + 6, top + 14 + k * _TOLD, line, kind, style="white-space:pre") for k, (line, kind) in enumerate(told)]
    return "".join([*parts, "</svg>"])


def _step(x: float, y: float, number: int) -> str:
    return f'<circle class="k" cx="{x:.1f}" cy="{y - 4:.1f}" r="8"/>' + _text(x, y, str(number), "c", "middle")


def _points_arrow(arrow: PointsToArrow) -> str:
    if not arrow["points"]:
        return ""
    (x0, y0), *others = arrow["points"]
    path = f"M{x0:.1f} {y0:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in others)
    x, y = others[-1]
    if arrow["kind"] == "is":
        before = others[-2] if len(others) > 1 else (x0, y0)
        head = "m-5-3l5 3-5 3" if before[1] == y else "m-3-5l3 5 3-5" if before[1] < y else "m-3 5l3-5 3 5"
        return f'<path class="a{" t" if arrow["step"] else ""}" d="{path}{head}"/>'
    end = f'<circle class="{"p" if arrow["kind"] == "writes" else "b"}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    return f'<path class="a {arrow["kind"]}{" t" if arrow["step"] else ""}" d="{path}"/>{end}'


def _points_box(box: PointsToBox) -> str:
    kind = "b" if box["kind"] == "name" else box["kind"]
    x, y, wide = box["x"], box["y"], box["width"]
    look = f"{kind}{' x' if box['writes'] else ''}{' s' if box['subject'] else ''}"
    pen = f'<path class="p" transform="translate({x + wide - 15:.1f} {y + 7:.1f})" d="{PEN}"/>' if box["writes"] else ""
    round_ = 12 if box["kind"] != "name" else 4
    return (
        f'<g data-record="{box["record"]}"><rect class="{look}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="24" rx="{round_}"/>'
        f"{_text(x + 9, y + 16, box['label'], 'n')}{pen}</g>"
    )


# Pictures of buffers: the views of a buffer as a byte map to scale.

_LABEL, _MAP, _ROW, _EDGE = 150, 560, 27, 10
_STYLE: Final = (
    "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2430}.d{fill:#667085;font-size:10px}"
    ".h{fill:url(#met)}.t{fill:#eef1f5}.w{fill:#fff}.c{fill:#f6f7f9}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.d{fill:#a3adba}.t{fill:#2f343c}.w{fill:#1e1e1e}.c{fill:#272a30}}"
)
_HATCH: Final = (
    '<defs><pattern id="met" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="2" height="5" fill="{WRITES}"/></pattern></defs>'
)


def buffer_svg(view: BufferView) -> str:
    """Draw one buffer: a line per value, indented by its depth in the view chain, and hatched where it overlaps another
    part of the buffer."""
    width, top = _LABEL + _MAP + 2 * _EDGE, 40
    height = top + len(view["rows"]) * _ROW + (28 if view["left_out"] else 12)
    parts = [_open(width, height, f"the buffer of {view['root']}", _STYLE, _HATCH)]
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
        indent, most, name = _EDGE + min(row["depth"], 8) * 10, 22 - min(row["depth"], 8), row["name"]
        name = name if len(name) <= most else f"{name[: most - 1]}…"
        parts.append(f'<g data-id="{row["id"]}"><title>{in_markup(row["name"])}: {in_markup(row["told"])}</title>')
        parts.append(f'<text x="{indent}" y="{y + 11}">{in_markup(name)}</text>')
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


# A memory plan as SVG, addresses over time, for light and dark pages; needs no script, font or network.
#
# Each allocation is a rectangle: its width is its live range, its height its size. The dashed line marks the peak; allocations
# live then have a strong border. Below are the bytes allocated and live at each moment. Hovering describes a part.

_PLAN_STYLE: Final = (
    ".ground{fill:#fff}text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}.q{fill:#667085}"
    ".b{fill-opacity:.42;stroke-opacity:.8;stroke-width:.7}.p{fill-opacity:.72;stroke:#1f2328;stroke-width:1.4}"
    ".o{stroke:#fff;stroke-width:3;paint-order:stroke}"
    ".g{stroke:#d0d5dd;stroke-width:1}.l{stroke:#b42318;stroke-width:1.3;stroke-dasharray:4 3}.r{fill:#b42318}"
    ".n{fill:#4c78a8;fill-opacity:.35;stroke:#4c78a8}.a{fill:none;stroke:#667085;stroke-width:1.2}"
    "@media(prefers-color-scheme:dark){.ground{fill:#1e1e1e}text{fill:#e5e7eb}.q{fill:#9ca3af}.p{stroke:#f3f4f6;fill-opacity:.5}.o{stroke:#1e1e1e}"
    ".g{stroke:#3f4650}.l{stroke:#ff8a80}.r{fill:#ff8a80}.n{fill:#6ea3d8;stroke:#6ea3d8}.a{stroke:#9ca3af}}"
)
_WIDTH: Final = 860.0
_LEFT, _RIGHT, _TOP = 96.0, 14.0, 34.0
_PLAN, _GAP, _CURVE = 300.0, 40.0, 70.0
_LEAST: Final = 0.6  # The least height and width of a rectangle, in pixels.


def memory_svg(view: MemoryView) -> str:
    top = max((section["low"] + section["bytes"] for section in view["sections"]), default=0) or 1
    across = (_WIDTH - _LEFT - _RIGHT) / max(view["moments"], 1)
    height = _TOP + _PLAN + _GAP + _CURVE + 42
    parts = [_text(_LEFT, 16, f"{view['title']}: {byte_count(view['peak'])} at once")]
    for section in view["sections"]:
        low, high = _y(section["low"], top), _y(section["low"] + section["bytes"], top)
        parts.append(f'<path class="g" d="M{_LEFT:.1f} {low:.1f}H{_WIDTH - _RIGHT:.1f}"/>')
        if low - high > 12:
            middle = (low + high) / 2
            parts.append(_text(_LEFT - 8, middle, section["label"], "q", "end"))
            parts.append(_text(_LEFT - 8, middle + 13, byte_count(section["bytes"]), "q", "end") if low - high > 28 else "")
    bars = sorted(view["bars"], key=lambda bar: bar["at_peak"])
    parts += [_plan_bar(bar, across, top) for bar in bars]
    parts += _plan_labels([(bar, *_plan_place(bar, across, top)) for bar in bars])
    moment = _LEFT + (view["peak_moment"] + 0.5) * across
    bottom = _TOP + _PLAN + _GAP + _CURVE
    parts.append(f'<path class="l" d="M{moment:.1f} {_TOP - 6:.1f}V{bottom:.1f}"/>')
    anchor = "end" if moment > _WIDTH / 2 else "start"
    parts.append(_text(moment + (-5 if anchor == "end" else 5), _TOP - 4, "peak", "r", anchor))
    parts += _curves(view, across)
    parts.append(_text(_LEFT, bottom + 16, "time: the nodes of the program, in order", "q"))
    x = _LEFT
    for category in sorted({bar["category"] for bar in view["bars"]}):
        parts.append(f'<rect class="b" x="{x:.0f}" y="{bottom + 25:.0f}" width="10" height="10" style="fill:{_colour(category)}"/>')
        parts.append(_text(x + 14, bottom + 34, category, "q"))
        x += 28 + 6.2 * len(category)
    return picture(height, parts, f"{view['title']}. {view['caption']}", _WIDTH, _PLAN_STYLE)


def _y(address: float, top: float) -> float:
    """Address 0 is at the bottom."""
    return _TOP + _PLAN * (1 - address / top)


def _colour(category: str) -> str:
    return PALETTE.get(category, PALETTE["other"])


def _plan_place(bar: MemoryBar, across: float, top: float) -> tuple[float, float, float, float]:
    """Left, top, width and height of a rectangle."""
    width, height = max((bar["end"] - bar["start"] + 1) * across - 0.4, _LEAST), max(_PLAN * bar["bytes"] / top, _LEAST)
    return _LEFT + bar["start"] * across, _y(bar["low"] + bar["bytes"], top), width, height


def _plan_bar(bar: MemoryBar, across: float, top: float) -> str:
    x, y, width, height = _plan_place(bar, across, top)
    colour = _colour(bar["category"])
    strong = bar["at_peak"] and height > 3  # a border would hide a thin rectangle
    line = "" if strong else f";stroke:{colour}"
    return (
        f'<rect class="{"b p" if strong else "b"}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
        f'style="fill:{colour}{line}"><title>{in_markup(bar["title"])}</title></rect>'
    )


def _plan_labels(bars: Sequence[tuple[MemoryBar, float, float, float, float]]) -> list[str]:
    """The names that fit into their rectangles, and those of what makes the peak beside it, where no other name is."""
    told = list[tuple[float, float, float]]()  # Left, right and base line of each.
    drawn, narrow = list[str](), list[tuple[str, float, float, list[float]]]()
    for bar, x, y, width, height in bars:
        wide = 7.0 * len(bar["label"])
        if height > 12 and width > wide + 6:
            told.append((x + 4, x + 4 + wide, line := y + min(height / 2 + 4, height - 3)))
            drawn.append(_text(x + 4, line, bar["label"]))
        elif height > 12 and bar["at_peak"]:
            lines = [y + height / 2 + 4, *(y + 12 + 13 * k for k in range(int(height / 13)))]
            narrow.append((bar["label"], x + width + 4, x - 4 - wide, lines))
    for label, after, before, lines in narrow:
        wide = 7.0 * len(label)
        spots = [(start, line) for line in lines for start in (after, before) if _LEFT < start < _WIDTH - wide]
        if (spot := free_spot(told, wide, spots, 11)) is not None:
            drawn.append(_text(*spot, label, "o"))
    return drawn


def _curves(view: MemoryView, across: float) -> list[str]:
    """Bytes live and bytes allocated, as step functions."""
    bottom = _TOP + _PLAN + _GAP + _CURVE
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
