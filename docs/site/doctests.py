"""Examples in docstrings as code: a paragraph that begins with a prompt is one, for those who read the reference as for doctest."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> (?:.+\n?)+")


class Doctests(griffe.Extension):
    """Puts fences around examples before docstrings are read as Markdown."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Of every object that has a docstring of its own."""
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
