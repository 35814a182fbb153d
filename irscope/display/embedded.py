"""Embeds a picture in an `<img>`, which survives a notebook's sanitizer."""

from __future__ import annotations

from base64 import b64encode

from irscope._base.escaping import in_markup

__all__ = ["embedded_svg"]


def embedded_svg(svg: str, alt: str) -> str:
    """An `<img>` with the picture as its data URL."""
    data = b64encode(svg.encode()).decode()
    return f'<img alt="{in_markup(alt)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
