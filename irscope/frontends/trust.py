"""Files that may hold code: such a file is refused unless the caller trusts it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from irscope.errors import LoadError

__all__ = ["not_trusted", "refuse_pointer"]


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


def refuse_pointer(path: Path) -> None:
    """Raises LoadError for a text that Git LFS leaves in the place of a large file."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            what = f"{str(path)!r} is not the file itself but Git LFS's note of where it is"
            raise LoadError(what, hint="fetch it: git lfs pull, in its repository")


_POINTER: Final = b"version https://git-lfs"
