"""Converts MLIR's locations to a location in a source, a name, and a path of scopes.

A location may be a file's line, a name around another location (JAX names each op after the functions and loops around
it, `jit(f)/while/body/add`), a call site, or several locations fused. The location used is the innermost one in a file; the name of a
place is the last part of the innermost name, such as `add`, and its scope the parts before it without the outermost function's, such as
`while.body`.
"""

from __future__ import annotations

import re
from typing import Any

from irscope.frontends.emit import Place
from irscope.frontends.mlir.read.utf8 import check_utf8
from irscope.ir import Location

__all__ = ["PlaceReader"]

_CALL = re.compile(r"^(?:p?jit|vmap|jvp|transpose|remat|checkpoint|custom_jvp|custom_vjp)\((.*)\)$")
_MAX_STEPS = 64


class PlaceReader:
    """Reads the locations of one context, each once. `file` replaces the name that MLIR gives to a text."""

    def __init__(self, ir: Any, file: str = "") -> None:
        self._ir = ir
        self._file = file
        self._known: dict[Any, Place] = {}

    def __call__(self, location: Any) -> Place:
        found = self._known.get(location)
        if found is None:
            found = self._known[location] = self._read(location)
        return found

    def _read(self, location: Any) -> Place:
        """Raises UnicodeDecodeError for a name that is not UTF-8, for which the bindings would end the process."""
        check_utf8(location)
        ir, name = self._ir, ""
        if isinstance(location, ir.FileLineColLoc):
            return Place(self._file_place(location), "", "")
        for _ in range(_MAX_STEPS):
            if isinstance(location, ir.NameLoc):
                name = name or str(location.name_str)
                location = location.child_loc
            elif isinstance(location, ir.CallSiteLoc):
                location = location.callee
            elif isinstance(location, ir.FusedLoc):
                inner = list(location.locations)
                if not inner:
                    break
                location = next((part for part in inner if not isinstance(part, ir.UnknownLoc)), inner[0])
            else:
                break
        if not name and isinstance(location, ir.UnknownLoc):
            return Place()
        return Place(self._file_place(location), *_split(name))

    def _file_place(self, location: Any) -> Location | None:
        if not isinstance(location, self._ir.FileLineColLoc):
            return None
        file = location.filename
        file = str(getattr(file, "value", file))
        if file in ("-", ""):
            file = self._file or "<mlir>"
        return Location(file, location.start_line, location.start_col)


def _split(name: str) -> tuple[str, str]:
    """Returns the last part of a path of names, and the parts before it.

    >>> _split("jit(f)/while/body/add"), _split("x"), _split("jit(f)/jit(g)/sin")
    (('add', 'while.body'), ('x', ''), ('sin', 'g'))
    """
    *path, last = name.rstrip(":").split("/")
    if path and _CALL.match(path[0]):
        del path[0]
    plain = [_plain(part) for part in path]
    return _plain(last), ".".join(part for part in plain if part)


def _plain(part: str) -> str:
    found = _CALL.match(part)
    return re.sub(r"[\s#,()]+", "_", found.group(1) if found else part).strip("_")
