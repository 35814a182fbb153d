"""Results that have a picture: what one may ask of each stands here, how they are drawn is told from above.

A program and its analyses know nothing of SVG. The root of the package tells `Drawn` who draws, by a function that is called when
somebody asks for a picture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Drawn"]


class Drawn:
    """What can be drawn: in a notebook, for a paper, or for Graphviz."""

    __slots__ = ()
    drawing: ClassVar[Callable[[], Any]]
    """Gives the module that draws."""

    def to_svg(self, path: str | Path | None = None) -> str:
        """The picture as SVG, which needs no script, font or network; with a path it is written there, too.

        A large program is drawn with its outer boxes closed, as a cell shows it.

        >>> import irscope as irs
        >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
        >>> g.to_svg().count("<text"), irs.fuse(g).to_svg()[:4]
        (6, '<svg')
        """
        return _written(path, type(self).drawing().svg_of(self))

    def to_png(self, path: str | Path | None = None, *, scale: float = 2.0) -> bytes:
        """The same picture as PNG, `scale` pixels to a point. Raises MissingExtra without `irscope[lab]`."""
        picture: bytes = type(self).drawing().png_of(self, scale)
        if path is not None:
            Path(path).write_bytes(picture)
        return picture

    def to_graphviz(self) -> Any:
        """A `graphviz.Source`: it shows itself in a notebook, `.source` is its text, `.render()` writes a file by `dot`.

        Raises MissingExtra without `irscope[lab]`.
        """
        return type(self).drawing().graphviz_of(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _written(path: str | Path | None, text: str) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
