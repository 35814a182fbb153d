"""A folder that only the user can write, held open, so that its files are never reached by a path that others can redirect.

Every folder from the root down must belong to root or to the user, and may be writable for others only if they cannot rename
the files of others in it (the sticky bit). The folder itself must belong to the user, and no other user may write in it. Each
step is opened relative to the previous one without following a link; links on the path (such as a relocated home) are resolved
here, if they belong to root or the user. Files are opened relative to the open folder, never through a link, never waiting for
a pipe, and only regular files of the user are read or written. Violations raise `Distrusted` with a reason.

The argument: another user can at most rename folders in which he may write. Then the next step opens something
that belongs to him, and is refused, or something of the user's own, in which he cannot write. Root can do anything, and is
trusted. On Windows, which lacks such calls, the user's folders are private by their location, and are accessed by their paths.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

__all__ = ["Distrusted", "PrivateFolder"]

_BY_DESCRIPTOR: Final = {os.open, os.mkdir, os.stat, os.unlink, os.rename, os.readlink} <= os.supports_dir_fd
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE: Final = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MOST_LINKS: Final = 40


class Distrusted(OSError):
    """Raised if another user could place files here; `strerror` says how."""

    def __init__(self, why: str) -> None:
        super().__init__(None, why)


class PrivateFolder:
    """An open private folder. Raises Distrusted if others may write in it, OSError if it cannot be created or opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = PrivateFolder(Path(place) / "mine")
    ...     folder.write("a", b"bytes")
    ...     folder.read("a"), folder.names()
    (b'bytes', ['a'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1
        if _BY_DESCRIPTOR:
            self._handle = _opened(path)
            self._identity = _identity(os.fstat(self._handle))
        else:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        handle, self._handle = getattr(self, "_handle", -1), -1
        if handle < 0 or is_ending():  # then the system closes it, and this module may be empty already
            return
        with suppress(OSError):
            if _identity(os.fstat(handle)) == self._identity:  # else it was closed elsewhere, and the number is another file's
                os.close(handle)

    def is_valid(self) -> bool:
        """Whether the folder still exists and is the same one. Raises Distrusted if others may write in it now."""
        if self._handle < 0:
            return self.path.is_dir()
        try:
            status = os.fstat(self._handle)
        except OSError:
            return False
        if _identity(status) != self._identity or status.st_nlink == 0:
            return False
        _check_own(status)
        return True

    def read(self, name: str, *, touch: bool = False, secret: bool = False) -> bytes:
        """The content of a file of the user; `touch` marks it as used now, `secret` requires that no other user may read it."""
        handle = self._open(name, os.O_RDONLY, forbidden=0o077 if secret else 0o022)
        with os.fdopen(handle, "rb", buffering=0) as file:
            if touch:
                with suppress(OSError):
                    os.utime(handle if os.utime in os.supports_fd else self.path / name)
            return file.readall()

    def append(self, name: str, data: bytes) -> int:
        """Append to a file of the user, which is created if it does not exist; returns its size."""
        handle = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if _BY_DESCRIPTOR and os.fstat(handle).st_nlink != 1:
                raise Distrusted(f"{name} in it is a file of another folder, too")
            os.write(handle, data)
            return os.fstat(handle).st_size
        finally:
            os.close(handle)

    def write(self, name: str, data: bytes, *, prefix: str = ".new-", replace: bool = True) -> None:
        """Write a file atomically, in place of an existing one; without `replace` an existing file stays."""
        aside = self._aside(prefix, data)
        where: dict[str, Any] = {"src_dir_fd": self._handle, "dst_dir_fd": self._handle} if self._handle >= 0 else {}
        try:
            if replace or not self._linked(aside, name, where):
                os.replace(self._at(aside)[0], self._at(name)[0], **where)
        except BaseException:
            self.remove(aside)
            raise

    def _linked(self, aside: str, name: str, where: dict[str, Any]) -> bool:
        """Give a file its name unless the name is taken; False if the file system has no hard links."""
        try:
            os.link(self._at(aside)[0], self._at(name)[0], **where)
        except FileExistsError:
            pass
        except OSError:
            return False
        self.remove(aside)
        return True

    def remove(self, name: str) -> bool:
        """Delete a file or a link; False if there is none, or it is a folder."""
        place, where = self._at(name)
        with suppress(OSError):
            os.unlink(place, **where)
            return True
        return False

    def names(self) -> list[str]:
        """The names of the folder's entries."""
        return os.listdir(self._handle if self._handle >= 0 else self.path)

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """The regular files, with their status."""
        for name in self.names():
            place, where = self._at(name)
            with suppress(OSError):
                status = os.stat(place, follow_symlinks=False, **where)
                if stat.S_ISREG(status.st_mode):
                    yield name, status

    def _aside(self, prefix: str, data: bytes) -> str:
        name = f"{prefix}{token_hex(8)}"
        place, where = self._at(name)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, **where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        except BaseException:
            self.remove(name)
            raise
        return name

    def _open(self, name: str, flags: int, forbidden: int = 0o022) -> int:
        place, where = self._at(name)
        try:
            handle = os.open(place, flags | _FILE, 0o600, **where)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise Distrusted(f"{name} in it is a link") from None
            raise
        try:
            _check_file(name, os.fstat(handle), forbidden)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _at(self, name: str) -> tuple[str, dict[str, Any]]:
        return (name, {"dir_fd": self._handle}) if self._handle >= 0 else (str(self.path / name), {})


def _check_file(name: str, status: os.stat_result, forbidden: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Distrusted(f"{name} in it is not a regular file")
    if not _BY_DESCRIPTOR:
        return
    if status.st_uid != os.geteuid():
        raise Distrusted(f"{name} in it belongs to user {status.st_uid}")
    if status.st_mode & forbidden:
        raise Distrusted(f"others may {'write' if status.st_mode & 0o022 else 'read'} {name} in it")


def _check_own(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise Distrusted(f"it belongs to user {status.st_uid}")
    if status.st_mode & 0o022:
        raise Distrusted("other users may write in it; chmod go-w makes it private")


def _check_above(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise Distrusted(f"{path}, which contains it, belongs to user {status.st_uid}")
    if status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX:
        raise Distrusted(f"any user may rename entries of {path}")


def _opened(path: Path) -> int:
    """A descriptor of a folder, created if it does not exist, after every step of its path was checked."""
    steps = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    here, place, links = os.open("/", _FOLDER), "/", 0
    trail = [here]
    try:
        while steps:
            _check_above(place, os.fstat(here))
            step = steps.pop()
            if step == "..":  # of a link
                if len(trail) > 1:
                    os.close(trail.pop())
                here, place = trail[-1], os.path.dirname(place)
                continue
            target = _link_target(step, here)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise Distrusted(f"the link {step} leads in circles")
                steps += reversed([part for part in Path(target).parts if part != "/"])
                if target.startswith("/"):
                    for handle in trail:
                        os.close(handle)
                    trail, place = [os.open("/", _FOLDER)], "/"
                    here = trail[0]
                continue
            with suppress(FileExistsError):
                os.mkdir(step, 0o700, dir_fd=here)
            here, place = os.open(step, _FOLDER, dir_fd=here), os.path.join(place, step)
            trail.append(here)
        _check_own(os.fstat(here))
        return trail.pop()
    finally:
        for handle in trail:
            os.close(handle)


def _link_target(name: str, folder: int) -> str | None:
    """The target of a link of root or the user; None if it is not a link. Raises Distrusted for another user's link."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid not in (0, os.geteuid()):
        raise Distrusted(f"{name}, on its path, is a link of user {status.st_uid}")
    return os.readlink(name, dir_fd=folder)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
