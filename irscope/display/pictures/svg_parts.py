"""The parts of pictures: text, bars, and the style sheet that each picture includes.

Colours are classes of that sheet, which follows the reader's preferred colour scheme. Hovering describes a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irscope._base.escaping import in_markup

__all__ = ["WIDTH", "cut", "picture", "rect", "text"]

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
