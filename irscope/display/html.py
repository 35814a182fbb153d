"""The explorer as one HTML file: the same front end and view model, with precomputed answers.

The page needs no server, network or kernel; its security policy forbids requests. Readers without scripts see the
picture.
"""

from __future__ import annotations

from base64 import b64encode
from gzip import compress
from hashlib import sha256

from irscope._base.escaping import in_markup, in_script
from irscope.display.embedded import embedded_svg
from irscope.display.front_end import front_end
from irscope.display.profile_page import profile_body
from irscope.display.svg import graph_svg
from irscope.display.text import overview
from irscope.report.pages import Exploration
from irscope.report.pages.history_view import history_view
from irscope.report.pages.parts import explorer_view
from irscope.report.view_models import ExplorerView
from irscope.transforms.history import History

__all__ = ["history_html", "page_html", "standalone_html", "static_html"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'">
<title>{title} · irscope</title>
</head>
<body>
<main data-irscope="explorer">{static}</main>
<script type="application/json" data-irscope="view"{packed}>{view}</script>
<script type="module">{script}</script>
</body>
</html>
"""


_PACKED_FROM = 400_000
"""The size of JSON, in characters, above which a page holds it compressed: answers are repetitive, and the 54 MB of 20,000 nodes
become 5 MB. Below, the page can be read and searched as text."""


def standalone_html(exploration: Exploration, *, answers: bool | None = None) -> str:
    """The page of an exploration, with or without answers about every value and node; by default with them up to a size."""
    return page_html(explorer_view(exploration, details=True, answers=answers))


def history_html(history: History) -> str:
    """The page of a history: its steps in text, graph and alias view."""
    return page_html(history_view(history, details=True))


def page_html(view: ExplorerView) -> str:
    """The page of a view with precomputed answers."""
    script = front_end().script
    code = script.replace("</script", "<\\/script")  # would end the element early
    digest = b64encode(sha256(code.encode()).digest()).decode()
    data, packed = in_script(view), ""
    if len(data) > _PACKED_FROM:
        data, packed = b64encode(compress(data.encode(), 6, mtime=0)).decode(), ' data-packed="gzip"'
    return _PAGE.format(
        digest=digest, title=in_markup(view["title"]), static=static_html(view), packed=packed, view=data, script=code
    )


def static_html(view: ExplorerView) -> str:
    """The picture and the overview in plain HTML, for readers without scripts, a kernel, or trust."""
    picture = embedded_svg(graph_svg(view["graph"], themed=True), f"the graph of {view['title']}")
    times = profile_body(view["profile"]) if "profile" in view else ""
    return f"{times}{picture}<pre>{in_markup(overview(view))}</pre>"
