"""Temporary folders that an interrupt does not spoil.

Python's own, when Ctrl-C comes while it is emptied, closes a file descriptor twice and ends in an OSError, or leaves files behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irscope._base.concurrency.waiting import put_off

__all__ = ["remove_folder", "temporary_folder"]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the time of a `with`; an interrupt that comes while it is taken away is raised when that is done.

    >>> with temporary_folder() as folder:
    ...     _ = (folder / "note").write_text("here")
    >>> folder.exists()
    False
    """
    folder = tempfile.TemporaryDirectory(prefix="irscope-")  # which takes itself away if an interrupt comes before `try`
    try:
        yield Path(folder.name)
    finally:
        put_off(folder.cleanup)


def remove_folder(folder: Path) -> None:
    """Take a folder away with all that is in it; what cannot be, stays."""
    put_off(lambda: shutil.rmtree(folder, ignore_errors=True))
