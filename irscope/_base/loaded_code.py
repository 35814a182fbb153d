"""Reads the source files of code loaded in this process, the only files whose lines are shown without being requested.

A location in a program is text, and anyone can write a text that names a file of the reader's machine. So a location counts
as the user's own only if Python itself reported it in this process: a frame that was running, or a program object whose
locations name loaded code. A file is read only if it is a regular file of bounded size, and no link leads out of its folder.
"""

import linecache
import os
import stat
import sys
from pathlib import Path
from typing import Any, Final

_LARGEST: Final = 4 << 20
"""The most bytes of a source file that is shown."""
_QUIETLY: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def loaded_files() -> frozenset[str]:
    """The names of the files and notebook cells whose code is loaded."""
    modules = (getattr(module, "__dict__", {}) for module in list(sys.modules.values()))
    files = [module.get("__file__") for module in modules]
    cells = [name for name, entry in linecache.cache.copy().items() if _is_cell(entry)]
    return frozenset([file for file in files if isinstance(file, str)] + cells)


_CELLS: Final[dict[str, str]] = {}
"""The files of notebook cells, by the names that `cell_name` gave them."""


def cell_name(file: str) -> str:
    """The name of a file for its user: `In[3]` for a cell of this notebook, whose file has a name of ten digits.

    >>> cell_name("model.py")
    'model.py'
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    told = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    if not told:
        return file
    _CELLS[told[1]] = file
    return str(told[1])


def file_of(name: str) -> str:
    """The file whose name `cell_name` returned."""
    return _CELLS.get(name, name)


def loaded_lines(file: str) -> list[str]:
    """The lines of a file that Python reported, or of a notebook cell; empty if it cannot be read."""
    file = file_of(file)
    entry: Any = linecache.cache.get(file)
    if entry is not None and _is_cell(entry):
        return [line.rstrip("\n") for line in entry[2]]
    try:
        return _lines(os.open(os.path.realpath(file), _QUIETLY))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return []


def lines_below(folder: Path, file: str) -> list[str]:
    """The lines of a regular file below a folder, by its relative or absolute path; empty for any other file.

    Each step of the path is opened relative to the previous one, and no link is followed, so that the path cannot be changed
    meanwhile.
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
    """Whether a linecache entry has lines without a file: code that was typed in."""
    return len(entry) == 4 and entry[1] is None


def _lines(handle: int) -> list[str]:
    with open(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return []
        data = file.read(_LARGEST + 1)
    return [] if len(data) > _LARGEST or b"\0" in data else data.decode("utf-8", "replace").splitlines()
