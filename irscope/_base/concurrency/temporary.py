"""Temporary folders that are removed correctly despite interrupts.

If Ctrl-C arrives while Python's own is being emptied, it closes a file descriptor twice and raises OSError, or leaves files behind.
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
    """A folder that exists during a `with`; an interrupt during its removal is raised when the removal is done.

    >>> with temporary_folder() as folder:
    ...     _ = (folder / "note").write_text("here")
    >>> folder.exists()
    False
    """
    folder = tempfile.TemporaryDirectory(prefix="irscope-")  # removes itself if an interrupt arrives before `try`
    try:
        yield Path(folder.name)
    finally:
        put_off(folder.cleanup)


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents; files that cannot be removed stay."""
    put_off(lambda: shutil.rmtree(folder, ignore_errors=True))
