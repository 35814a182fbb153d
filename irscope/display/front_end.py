"""The front end as text: the bundle built from `widgets/`, for notebooks and standalone pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib import resources
from typing import Final

from irscope.errors import LoadError

__all__ = ["FrontEnd", "front_end"]

_PLACE: Final = "irscope/widgets/static"


@dataclass(frozen=True)
class FrontEnd:
    """One ES module and its style sheet.

    The module contains the style sheet and adds it to its document; `style` is for pages that must look right before any
    script runs. A page draws itself when it holds an `ExplorerView` in a
    `<script type="application/json" data-irscope="view">` and an element with `data-irscope="explorer"`.
    """

    script: str
    style: str

    @cached_property
    def digest(self) -> str:
        """A content hash of this bundle."""
        return sha256(self.script.encode()).hexdigest()[:16]


def front_end() -> FrontEnd:
    """Read the bundle; raises LoadError, with the build command, if the package was installed without it.

    >>> "</script" in front_end().script
    False
    """
    static = resources.files("irscope") / "widgets" / "static"
    try:
        script = (static / "irscope.js").read_text(encoding="utf-8")
        style = (static / "irscope.css").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LoadError(
            f"the front end {error.filename or 'irscope.js'} is not there", where=_PLACE, rule="front-end-is-built",
            hint="in a checkout: pip install --editable . builds it; or python widgets/hatch_build.py",
        ) from None  # fmt: skip
    return FrontEnd(script, style)
