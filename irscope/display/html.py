"""The explorer as one HTML file: the same front end and view model, with precomputed answers.

The page needs no server, network or kernel; its security policy forbids requests. Readers without scripts see the
picture.
"""

from base64 import b64encode
from gzip import compress
from hashlib import sha256
from importlib import resources
from typing import Final

from irscope._base.words import in_markup, in_script
from irscope.display.profile_page import profile_body
from irscope.display.svg import embedded_svg, graph_svg, in_text
from irscope.display.text import overview
from irscope.errors import LoadError
from irscope.report.pages import Exploration
from irscope.report.pages.parts import explorer_view, history_view
from irscope.report.view_models import ExplorerView
from irscope.transforms.base import History

_PLACE: Final = "irscope/widgets/static"


def front_end() -> str:
    """Read the bundle built from `widgets/`, for notebooks and standalone pages: one ES module, which adds its style sheet to its document.

    A page draws itself when it holds an `ExplorerView` in a `<script type="application/json" data-irscope="view">` and an element with
    `data-irscope="explorer"`. Raises LoadError, with the build command, if the package was installed without the bundle.
    """
    try:
        return (resources.files("irscope") / "widgets" / "static" / "irscope.js").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LoadError(
            f"the front end {error.filename or 'irscope.js'} is not there", where=_PLACE, rule="front-end-is-built",
            hint="in a checkout: pip install --editable . builds it; or python widgets/hatch_build.py",
        ) from None  # fmt: skip


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
    script = front_end()
    code = script.replace("</script", "<\\/script")  # would end the element early
    digest = b64encode(sha256(code.encode()).digest()).decode()
    data, packed = in_script(view), ""
    if len(data) > _PACKED_FROM:
        data, packed = b64encode(compress(data.encode(), 6, mtime=0)).decode(), ' data-packed="gzip"'
    return _PAGE.format(digest=digest, title=in_markup(view["title"]), static=static_html(view), packed=packed, view=data, script=code)


def static_html(view: ExplorerView) -> str:
    """The picture and the overview in plain HTML, for readers without scripts, a kernel, or trust."""
    picture = embedded_svg(graph_svg(view["graph"], themed=True), f"the graph of {view['title']}")
    times = profile_body(view["profile"]) if "profile" in view else ""
    return f"{times}{picture}{in_text(overview(view))}"


_NO_ERROR: Final = (
    "<style>.jp-OutputArea-child:has(.irs-static) + .jp-OutputArea-child .jupyter-widgets:not(:has(*)) { display: none; }</style>"
)
"""Hides Lab's "Error displaying widget: model not found" below a picture: its element has no other element in it."""


def saved_part(html: str) -> str:
    """What a saved notebook shows in the place of live views; hidden while they are there."""
    return f'<div class="irs-static">{html}{_NO_ERROR}</div>'


# A self-contained page without scripts or requests: pictures, tables and text, light or dark as the reader prefers.

_STYLE: Final = (
    "body{font:14px/1.45 ui-sans-serif,system-ui,sans-serif;max-width:900px;margin:1.5em auto;padding:0 1em;background:#fff;color:#1f2328}"
    "h1{font-size:1.3em;margin:0}h2{font-size:1em;margin:1.8em 0 .4em}svg{max-width:100%;height:auto}li{margin:.25em 0}"
    "pre{overflow-x:auto;font-size:12px}p.c{color:#5b6472;font-size:.9em}"
    "table{border-collapse:collapse;font-size:13px}td,th{text-align:left;vertical-align:top;padding:.15em .8em .15em 0;"
    "overflow-wrap:anywhere}th{border-bottom:1px solid #d0d5dd;white-space:nowrap}td.n{text-align:right;white-space:nowrap}"
    "details:target{outline:2px solid #4c78a8}summary{cursor:pointer}a{color:inherit}"
    "@media(prefers-color-scheme:dark){body{background:#1e1e1e;color:#e5e7eb}p.c{color:#9ca3af}th{border-color:#3f4650}"
    "details:target{outline-color:#6ea3d8}}"
)
_PLAIN_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title} · irscope {kind}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def plain_page(title: str, kind: str, body: str) -> str:
    """A page of a `kind` ("profile", "survey") with this markup as its body.

    >>> "<title>a &lt; b · irscope survey</title>" in plain_page("a < b", "survey", "<p>none</p>")
    True
    """
    return _PLAIN_PAGE.format(title=in_markup(title), kind=kind, style=_STYLE, body=body)
