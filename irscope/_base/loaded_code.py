"""Source files that this process runs code of: the only ones whose lines are shown without being asked for.

A place in a program is text, and anyone can write a text that names a file of the reader's machine. So a place counts as
the user's own only where Python itself told it in this process: a frame that was running, or a program object whose places
name code that is loaded. A file is read as a regular file of bounded size, with no link on the way out of its folder.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["lines_below", "loaded_files", "loaded_lines"]

_LARGEST: Final = 4 << 20
"""Bytes of a source file that is shown."""
_QUIETLY: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def loaded_files() -> frozenset[str]:
    """Names of the files and notebook cells whose code is loaded.

    >>> __file__ in loaded_files()
    True
    """
    modules = (getattr(module, "__dict__", {}) for module in list(sys.modules.values()))
    files = [module.get("__file__") for module in modules]
    cells = [name for name, entry in list(linecache.cache.items()) if _is_cell(entry)]
    return frozenset([file for file in files if isinstance(file, str)] + cells)


def loaded_lines(file: str) -> list[str]:
    """The lines of a file that Python has told of, or of a notebook's cell; none if it cannot be read."""
    entry: Any = linecache.cache.get(file)
    if entry is not None and _is_cell(entry):
        return [line.rstrip("\n") for line in entry[2]]
    try:
        return _lines(os.open(os.path.realpath(file), _QUIETLY))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return []


def lines_below(folder: Path, file: str) -> list[str]:
    """The lines of a regular file below a folder, by its path from there or by its whole path; none for any other.

    Each step of the path is opened from the one before, and no link is followed, so that nobody moves it meanwhile.
    """
    if "\0" in file:
        return []
    root = Path(os.path.normpath(Path.cwd() / folder))
    whole = Path(os.path.normpath(root / file))
    if root not in whole.parents:
        return []
    *steps, name = whole.relative_to(root).parts
    if os.open not in os.supports_dir_fd:
        return loaded_lines(str(whole)) if root.resolve() in whole.resolve().parents else []
    here = -1
    try:
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for step in steps:
            above, here = here, os.open(step, _QUIETLY | os.O_DIRECTORY, dir_fd=here)
            os.close(above)
        return _lines(os.open(name, _QUIETLY, dir_fd=here))
    except (OSError, ValueError):
        return []
    finally:
        if here >= 0:
            os.close(here)


def _is_cell(entry: tuple[Any, ...]) -> bool:
    """Whether linecache holds lines that have no file: code that was typed in."""
    return len(entry) == 4 and entry[1] is None


def _lines(handle: int) -> list[str]:
    with open(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return []
        data = file.read(_LARGEST + 1)
    return [] if len(data) > _LARGEST or b"\0" in data else data.decode("utf-8", "replace").splitlines()
