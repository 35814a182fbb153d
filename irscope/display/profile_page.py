"""A profile on one screen, for a notebook cell and for readers without scripts."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

from irscope._base.words import byte_count, in_markup
from irscope.display.svg import WIDTH, cut, embedded_svg, free_spot, picture, rect, text
from irscope.report.panes import profile_view
from irscope.report.view_models import HeatLine, IcicleBox, ProfileView, TimedGroup, TimedWay
from irscope.report.words import duration
from irscope.runtime.profile import Profile

# The pictures of a profile as SVG, for light and dark pages; none needs a script, font or network.
#
# Colours are classes of a style sheet included in each picture, which follows the reader's preferred colour scheme. Hovering
# describes a part.

_LIGHT_HEAT: Final = ("#fff7ec", "#fee8c8", "#fdd49e", "#fdbb84", "#fc8d59", "#ef6548", "#d7301f")
"""From cold to hot; text on them is dark except on the last."""
_DARK_HEAT: Final = ("#2b2724", "#423122", "#5b3d1f", "#7a4a1b", "#9a4d1c", "#b03a22", "#cc2e24")
_STEPS: Final = len(_LIGHT_HEAT)
_ROW: Final = 18
_WHISKER: Final = 1.3  # The limit of whiskers, relative to the longest bar: one disturbed run must not squeeze all bars.


def _rules(colours: Sequence[str], ink: str) -> str:
    return "".join(f".h{place}{{fill:{colour}}}" for place, colour in enumerate(colours)) + f".ink{{fill:{ink}}}"


_HEATED: Final = (
    f"<style>{_rules(_LIGHT_HEAT, '#1f2328')}.h{_STEPS - 1}+.ink{{fill:#fff}}"
    f"@media(prefers-color-scheme:dark){{{_rules(_DARK_HEAT, '#f3f4f6')}}}</style>"
)
"""Colours of shares, and of the text right after a rectangle that has one."""


def _heat(share: float, most: float) -> str:
    return f"h{min(_STEPS - 1, int((share / most if most else 0.0) ** 0.5 * _STEPS))}"


def nodes_svg(way: TimedWay) -> str:
    """The twelve slowest nodes as bars: median, quartiles, share, and distance from the roofline."""
    nodes = way["nodes"][:12]
    longest = _WHISKER * max((node["ms"] for node in nodes), default=1.0) or 1.0
    left, bars = 330.0, 250.0
    parts = [text(left, 13, "median and quartiles", "q"), text(640, 13, "share", "q")]
    found = (695, "of copy", [node["of_copy"] for node in nodes]), (760, "of peak", [node["of_peak"] for node in nodes])
    limits = [limit for limit in found if any(part is not None for part in limit[2])]  # of a GPU there are none
    parts += [text(x, 13, words, "q") for x, words, _ in limits]
    for place, node in enumerate(nodes):
        y = 22 + place * _ROW
        file, colon, line = node["line"].rpartition("/")[2].rpartition(":")
        parts.append(text(4, y + 12, cut(f"{node['label']} = {node['op'].partition('::')[2]}", 200, 6.6), "m"))
        parts.append(text(left - 8, y + 12, cut(file, 104 - 6 * len(line)) + colon + line, "q", "end"))
        length = bars * node["ms"] / longest
        title = f"{node['label']} = {node['op']}: {duration(node['ms'])} ({duration(node['low'])} to {duration(node['high'])})"
        parts.append(rect(left, y + 3, length, _ROW - 6, "b", title))
        low, high, middle = (left + bars * min(t / longest, 1.0) for t in (node["low"], node["high"], node["ms"]))
        parts.append(f'<path class="w" d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 6}v6M{high:.1f} {y + 6}v6"/>')
        parts.append(text(max(high, middle) + 6, y + 12, duration(node["ms"]), "q"))
        parts.append(text(640, y + 12, f"{node['share']:.1%}"))
        parts += [text(x, y + 12, f"{part:.0%}") for x, _, each in limits if (part := each[place]) is not None]
    return picture(28 + len(nodes) * _ROW, parts, f"the slowest nodes of {way['label']}")


def heat_svg(lines: Sequence[HeatLine]) -> str:
    """The first forty source lines, coloured by time."""
    shown = lines[:40]
    hottest = max((line["share"] for line in shown), default=1.0)
    parts = [_HEATED, *(rect(118 + 26 * place, 6, 26, 10, f"h{place}") for place in range(_STEPS))]
    parts += [text(106, 15, "0 %", "q", "end"), text(118 + 26 * _STEPS + 6, 15, f"{hottest:.0%} of the time", "q")]
    y, file, before = 26.0, "", 0
    for line in shown:
        if line["file"] != file:
            file, before = line["file"], line["line"]
            parts.append(text(4, y + 12, Path(file).name, "q"))
            y += _ROW
        elif line["line"] > before + 1:
            parts.append(text(30, y + 8, "⋯", "q"))
            y += 12
        before = line["line"]
        words = f"{line['line']:4}  {cut(line['text'].expandtabs(), WIDTH - 170, 6.7)}"
        if line["share"] > 0:
            parts.append(text(106, y + 13, duration(line["ms"]), "", "end"))
            parts.append(rect(118, y, WIDTH - 122, _ROW - 1, _heat(line["share"], hottest), f"{duration(line['ms'])}, {line['share']:.1%}"))
        parts.append(text(122, y + 13, words, "m ink" if line["share"] > 0 else "m", "", "white-space:pre"))
        y += _ROW
    return picture(y + 6, parts, "source lines on the colour of their time")


def icicle_svg(way: TimedWay) -> str:
    """Modules, lines and ops, each as wide as its time."""
    boxes: list[IcicleBox] = way["icicle"]
    depth = max((box["depth"] for box in boxes), default=0)
    hottest = max((box["share"] for box in boxes if box["depth"]), default=1.0)
    parts = [_HEATED]
    for box in boxes:
        x, width = box["start"] * WIDTH, box["share"] * WIDTH
        look = _heat(box["share"], hottest) if box["depth"] else "e"
        title = f"{box['label']}: {duration(box['share'] * way['ms'])}, {box['share']:.1%}"
        parts.append(rect(x, box["depth"] * 20, width, 19, f"x {look}", title))
        told = cut(box["label"], width - 6)
        if told:
            parts.append(text(x + 4, box["depth"] * 20 + 14, told, "ink"))
    return picture((depth + 1) * 20 + 2, parts, f"modules and lines of {way['label']} by time")


def timeline_svg(way: TimedWay) -> str:
    """One run: its instructions in lanes, and live memory below."""
    spans, memory = way["spans"], way["memory"]
    end = max((span["start"] + span["duration"] for span in spans), default=0.0) or way["ms"] or 1.0
    lanes = list(dict.fromkeys(span["lane"] for span in spans)) or ["host"]
    left, width = 60.0, WIDTH - 70.0
    longest = max((span["duration"] for span in spans), default=1.0)
    parts = [_HEATED]
    for place, lane in enumerate(lanes):
        parts.append(text(4, 18 + place * 26, lane, "q"))
    for span in spans:
        y = 4 + lanes.index(span["lane"]) * 26
        x, long = left + width * span["start"] / end, width * span["duration"] / end
        parts.append(rect(x, y, long, 20, f"x {_heat(span['duration'], longest)}", f"{span['label']}: {duration(span['duration'])}"))
        told = cut(span["label"].partition("::")[2], long - 4)
        if told:
            parts.append(text(x + 3, y + 14, told, "ink"))
    top, high = 12 + len(lanes) * 26, 60.0
    most = max((bytes_ for _, bytes_ in memory), default=0.0)
    if most:
        points, last = [f"M{left} {top + high}"], 0.0
        for at, bytes_ in memory:
            x = left + width * min(at, end) / end
            points.append(f"L{x:.1f} {top + high * (1 - last / most):.1f}L{x:.1f} {top + high * (1 - bytes_ / most):.1f}")
            last = bytes_
        points.append(f"L{left + width:.1f} {top + high * (1 - last / most):.1f}L{left + width:.1f} {top + high}Z")
        parts.append(f'<path class="f" d="{"".join(points)}"><title>bytes alive, at most {byte_count(most)}</title></path>')
        parts.append(text(4, top + 12, byte_count(most), "q") + text(4, top + high, "memory", "q"))
    parts += [
        text(left + width * part, top + high + 16, duration(end * part) if part else "0", "q", anchor)
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ]
    return picture(top + high + 22, parts, f"one run of {way['label']}")


def roofline_svg(view: ProfileView) -> str:
    """The roofline: operations per second over operations per byte, a mark for each node; empty if the machine's limits are unknown."""
    way = view["ways"][-1]
    marks, bandwidth, peak = way["marks"], view["bandwidth"], view["peak"]
    if not marks or not bandwidth or not peak:
        return ""
    width, height, left, bottom = 560.0, 300.0, 62.0, 270.0
    xs = [mark["intensity"] for mark in marks] + [peak / bandwidth]
    ys = [mark["gflops"] for mark in marks] + [peak]
    x0, x1, y0, y1 = log10(min(xs)) - 0.4, log10(max(xs)) + 0.6, log10(min(ys)) - 0.4, log10(max(ys)) + 0.3

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (width - left - 10) * (log10(x) - x0) / (x1 - x0),
            bottom - (bottom - 14) * min(max((log10(y) - y0) / (y1 - y0), 0.0), 1.0),
        )

    knee, first, end = at(peak / bandwidth, peak), 10**x0, at(10**x1, peak)
    start = at(max(first, 10**y0 / bandwidth), max(first * bandwidth, 10**y0))
    parts = [f'<path class="l" d="M{start[0]:.1f} {start[1]:.1f}L{knee[0]:.1f} {knee[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>']
    parts.append(text(end[0], end[1] - 5, f"multiply-adds {peak:.0f} GFLOP/s", "q", "end"))
    parts.append(text(start[0] + 18, min(start[1] + 12, bottom - 4), f"copy {bandwidth:.0f} GB/s", "q"))
    for power in range(ceil(x0), floor(x1) + 1):
        x, _ = at(10.0**power, 10**y0)
        parts.append(f'<path class="g" d="M{x:.1f} 14V{bottom}"/>' + text(x, bottom + 14, f"{10.0**power:g}", "q", "middle"))
    for power in range(ceil(y0), floor(y1) + 1):
        _, y = at(10**x0, 10.0**power)
        parts.append(f'<path class="g" d="M{left} {y:.1f}H{width - 10}"/>' + text(left - 4, y + 4, f"{10.0**power:g}", "q", "end"))
    told = list[tuple[float, float, float]]()  # Left, right and base line of each label.
    labels = list[str]()
    for place, mark in enumerate(sorted(marks, key=lambda mark: -mark["share"])):
        x, y = at(mark["intensity"], mark["gflops"])
        title = f"{mark['label']}: {mark['gflops']:.3g} GFLOP/s, {mark['intensity']:.2g} FLOP/B, {mark['share']:.1%} of the time"
        radius = 3 + 9 * mark["share"] ** 0.5
        parts.append(f'<circle class="k" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{in_markup(title)}</title></circle>')
        words = cut(mark["label"], 140)
        wide = 6.8 * len(words)
        beside, above, below = y + 4, y - radius - 4, y + radius + 12
        spots = [(x + radius + 3, beside), (x - radius - 3 - wide, beside), (x - wide / 2, above), (x - wide / 2, below)]
        inside = [(start, line) for start, line in spots if left < start < width - wide and line < bottom]
        if place < 4 and (spot := free_spot(told, wide, inside, 12)) is not None:
            labels.append(text(*spot, words, "x", "", "paint-order:stroke;stroke-width:3"))
    parts += labels
    parts.append(text((left + width) / 2, height - 4, "FLOP for each byte moved", "q", "middle"))
    parts.append(text(4, 12, "GFLOP/s", "q"))
    return picture(height, parts, "roofline", width)


def before_after_svg(groups: Sequence[TimedGroup]) -> str:
    """The first ten fusion groups: the time of their nodes one by one, and of their kernels."""
    shown = groups[:10]
    longest = max((max(group["before"], group["after"]) for group in shown), default=1.0) or 1.0
    parts = [rect(200, 4, 10, 10, "b") + text(214, 13, "op by op", "q") + rect(280, 4, 10, 10, "a") + text(294, 13, "fused", "q")]
    for place, group in enumerate(shown):
        y = 22 + place * 30
        parts.append(text(4, y + 16, cut(group["label"], 190, 6.6), "m"))
        for offset, kind, took in ((2, "b", group["before"]), (14, "s" if group["verdict"] == "slower" else "a", group["after"])):
            parts.append(rect(200, y + offset, 480 * took / longest, 10, kind, f"{group['label']}: {duration(took)}"))
            parts.append(text(206 + 480 * took / longest, y + offset + 9, duration(took), "q"))
        ratio = group["before"] / group["after"] if group["after"] and group["verdict"] in ("faster", "slower") else 0.0
        parts.append(text(WIDTH - 8, y + 16, f"{ratio:.2g}×" if ratio else group["verdict"], "", "end"))
    return picture(26 + len(shown) * 30, parts, "groups before and after")


def profile_cell(profile: Profile) -> str:
    return profile_body(profile_view(profile))


def profile_body(view: ProfileView) -> str:
    """The pictures as images, which survive a notebook's sanitizer; all but the first are folded."""
    parts = [f"<p><b>{in_markup(warning)}</b></p>" for warning in view["warnings"]]
    parts.append(f"<p><b>{in_markup(view['title'])}</b> · {in_markup(view['verdict'])}</p>")
    for place, (label, svg) in enumerate(_pictures(view)):
        image = embedded_svg(svg, label)
        if place == 0:
            items = "".join(f"<li>{in_markup(each['text'])}</li>" for each in view["helps"][:6])
            helps = f'<h2 style="font-size:1em">What would help</h2><ol start="0">{items}</ol>'
            parts += [image, helps if view["helps"] else "<p>Nothing that is known would help.</p>"]
        else:
            parts.append(f"<details{' open' if place == 1 else ''}><summary>{in_markup(label)}</summary>{image}</details>")
    parts.append(f'<p style="max-width:60em;opacity:.75;font-size:.9em">{in_markup(view["caption"])}</p>')
    return "".join(parts)


def _pictures(view: ProfileView) -> Iterator[tuple[str, str]]:
    """The pictures available for this profile, with captions."""
    way = view["ways"][-1]
    yield f"The slowest nodes, {way['label']}", nodes_svg(way)
    if view["lines"]:
        yield "Source lines, op by op", heat_svg(view["lines"])
    if view["groups"]:
        yield "Fusion groups, before and after", before_after_svg(view["groups"])
    for each in reversed(view["ways"]):
        yield f"Modules, lines and ops, {each['label']}", icicle_svg(each)
        yield f"One run, {each['label']}, and its memory", timeline_svg(each)
    roof = roofline_svg(view)
    if roof:
        yield f"Roofline, {way['label']}", roof
