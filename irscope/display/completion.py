"""Tab completion of value names inside strings: `f.why_not("co` offers values of the program of `f`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["names_for", "register"]

_ASKED = re.compile(r"""([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.\w+\((?:[^()]*,\s*)?(["'])(%?)([\w.]*)$""")
"""An object, a method of it, and an unfinished string."""
_MOST = 200


def register(shell: Any) -> None:
    """Register the completer with an IPython shell, once."""
    completer = getattr(shell, "Completer", None)
    matchers = getattr(completer, "custom_matchers", None)
    if matchers is None or any(getattr(matcher, "is_of_irscope", False) for matcher in matchers):
        return

    def matcher(text: str) -> list[str]:
        line = completer.line_buffer if completer is not None else ""
        found = names_for(line, shell.user_ns)
        typed = _ASKED.search(line)
        if typed is None:
            return []
        # the word that the completer passes may begin anywhere in the string
        begun = typed[3] + typed[4]
        extra = len(begun) - len(text)
        return [name[extra:] for name in found] if extra >= 0 else [text[: len(text) - len(begun)] + name for name in found]

    matcher.is_of_irscope = True  # type: ignore[attr-defined]
    matchers.append(matcher)


def names_for(line: str, namespace: dict[str, Any]) -> list[str]:
    """The completions of a line that ends inside a string: names in the program of the object before it.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %cost : Tensor = aten::relu(%x)\\n  return (%cost)")
    >>> names_for('f.why_not("x", "%c', {"f": irs.fuse(g)}), names_for('open("c', {"open": open})
    (['%cost'], [])
    """
    typed = _ASKED.search(line)
    if typed is None:
        return []
    names = _names(_looked_up(typed[1], namespace))
    return [f"{typed[3]}{name}" for name in sorted(name for name in names if name.startswith(typed[4]))[:_MOST]]


def _looked_up(path: str, namespace: dict[str, Any]) -> Any:
    """The irscope object that a dotted name refers to; evaluates nothing but properties of such objects."""
    first, *rest = path.split(".")
    found = namespace.get(first)
    for name in rest:
        if not type(found).__module__.startswith("irscope."):
            return None
        found = getattr(found, name, None)
    return found


def _names(thing: Any) -> Iterable[str]:
    if not type(thing).__module__.startswith("irscope."):
        return ()
    for holder in (thing, getattr(thing, "graph", None), getattr(thing, "source", None)):
        names = getattr(holder, "names", None)
        if names is not None and type(holder).__name__ == "Graph":
            return [str(name) for name in names.values()]
    return ()
