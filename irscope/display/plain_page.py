"""A self-contained page without scripts or requests: pictures, tables and text, light or dark as the reader prefers."""

from __future__ import annotations

from typing import Final

from irscope._base.escaping import in_markup

__all__ = ["plain_page"]

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
_PAGE: Final = """<!doctype html>
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
    return _PAGE.format(title=in_markup(title), kind=kind, style=_STYLE, body=body)
