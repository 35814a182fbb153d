"""A profile on one screen, for a notebook cell and for readers without scripts."""

from __future__ import annotations

from collections.abc import Iterator

from irscope._base.escaping import in_markup
from irscope.display.embedded import embedded_svg
from irscope.display.pictures.profile_pictures import (
    before_after_svg,
    heat_svg,
    icicle_svg,
    nodes_svg,
    roofline_svg,
    timeline_svg,
)
from irscope.report.panes import profile_view
from irscope.report.view_models import ProfileView
from irscope.runtime.profile import Profile

__all__ = ["profile_body", "profile_cell"]


def profile_cell(profile: Profile) -> str:
    """The HTML of a profile in a cell."""
    return profile_body(profile_view(profile))


def profile_body(view: ProfileView) -> str:
    """The pictures as images, which survive a notebook's sanitizer; all but the first are folded."""
    parts = [f"<p><b>{in_markup(warning)}</b></p>" for warning in view["warnings"]]
    parts.append(f"<p><b>{in_markup(view['title'])}</b> · {in_markup(view['verdict'])}</p>")
    for place, (label, svg) in enumerate(_pictures(view)):
        image = embedded_svg(svg, label)
        if place == 0:
            parts += [image, _helps(view)]
        else:
            parts.append(
                f"<details{' open' if place == 1 else ''}><summary>{in_markup(label)}</summary>{image}</details>"
            )
    parts.append(f'<p style="max-width:60em;opacity:.75;font-size:.9em">{in_markup(view["caption"])}</p>')
    return "".join(parts)


def _helps(view: ProfileView) -> str:
    if not view["helps"]:
        return "<p>Nothing that is known would help.</p>"
    items = "".join(f"<li>{in_markup(each['text'])}</li>" for each in view["helps"][:6])
    return f'<h2 style="font-size:1em">What would help</h2><ol start="0">{items}</ol>'


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
