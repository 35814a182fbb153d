"""Files that may hold code: such a file is refused unless the caller trusts it.

A file is read once, whole, so that the bytes that were checked are the bytes that are loaded: it cannot change in
between.
"""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from irscope.errors import LoadError

__all__ = ["contents", "not_trusted", "refuse_pointer"]


def not_trusted(path: Path, why: str) -> LoadError:
    """Returns the error for a file that would run code of its author when it is loaded.

    >>> print(not_trusted(Path("m.pt2"), "its example inputs are a pickle"))
    'm.pt2' can run code when it is loaded, and is not trusted: its example inputs are a pickle   [code-is-trusted]
      hint: if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md
    """
    return LoadError(
        f"{str(path)!r} can run code when it is loaded, and is not trusted: {why}", rule="code-is-trusted",
        hint="if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md",
    )  # fmt: skip


def contents(path: Path) -> io.BytesIO:
    """Reads the bytes of a regular file. Raises LoadError for a pipe or a device, which may never end."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LoadError(f"{str(path)!r} is not a regular file", hint="give a file that holds a program")
            return io.BytesIO(file.read())
    except OSError as error:
        raise LoadError(f"{str(path)!r} cannot be read: {error.strerror}", hint="check who may read it") from None
    except MemoryError:
        raise LoadError(
            f"there is not enough memory to check {str(path)!r}", hint="if you trust it, trust=True loads it unchecked"
        ) from None


def refuse_pointer(path: Path) -> None:
    """Raises LoadError for a text that Git LFS leaves in the place of a large file."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            what = f"{str(path)!r} is not the file itself but Git LFS's note of where it is"
            raise LoadError(what, hint="fetch it: git lfs pull, in its repository")


_POINTER: Final = b"version https://git-lfs"
