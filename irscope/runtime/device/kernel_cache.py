"""Caches of compiled kernels: in memory for this process, as object files for later ones.

In memory, one entry is built once however many threads ask for it. On disk, an entry is a file that appears whole or
not at all (written aside, then renamed), and is deleted when its content is not what was written. Several processes may
share a directory: at worst two of them build the same entry, and the later file replaces an equal one.

The files hold machine code, which runs as the user. So the directory is used only if it belongs to the user and nobody else may
write in it (`private_folder`); otherwise a remark says why. Each file begins with a digest of its name and its bytes: a damaged file
does not run.

The names of files depend on the version of their format, so that versions of irscope do not delete each other's. Uses and
misses of all processes are counted by the lengths of two files in the directory, to which each appends a byte. Files that
kernels need but that are not kernels (the code by which Python enters them, a module of several kernels) are kept beside
them under another suffix; their bytes are counted, but not their number or uses.
"""

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MAGIC: Final = b"irscope-object-4\n"
"""The first bytes of a file; the number is the version of its format."""
_KERNEL: Final = ".o"
_OTHER: Final = ".aux"
_UNFINISHED: Final = ".new-"
_DIGEST_BYTES: Final = 32
_LISTED_EVERY: Final = 64
"""Entries that this process saves before it lists the directory, to see what others have saved."""
_NOTES: Final = ("compiled",)
"""Files that record what was compiled; see `irscope.runtime.device.miss_log`."""
_ABANDONED: Final = 3600.0
"""Seconds after which an unfinished file is assumed to belong to a dead process."""


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """The contents of a directory of compiled kernels, and its uses by all processes since it was last cleared."""

    directory: Path | None
    """None: the user has no home, and so no place for a cache."""
    entries: int
    """Kernels."""
    size_bytes: int
    """Of all files, including those that are not kernels but needed by kernels."""
    limit_bytes: int
    hits: int
    """Kernels that were loaded instead of compiled."""
    misses: int
    """Kernels that were absent or damaged."""
    trouble: str = ""
    """Why the directory is not used; empty if it can be."""


class KernelCache(Generic[T]):
    """Values by key, each built at most once at a time; bounded, the least recently used are evicted first."""

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._lock = threading.RLock()
        self._values: dict[Hashable, T] = {}
        self._building: dict[Hashable, threading.RLock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Returns the value of a key, built if it is missing; other callers that ask for it meanwhile wait. An error of
        `build` is not kept.
        """
        with self._lock:
            if key in self._values:
                return self._used(key)
            building = self._building.setdefault(key, threading.RLock())
        with building:
            with self._lock:
                if key in self._values:  # another thread has built it
                    return self._used(key)
            value = build()
            with self._lock:
                self._building.pop(key, None)
                self._values[key] = value
                while len(self._values) > self._limit:
                    self._values.pop(next(iter(self._values)))
        return value

    def _used(self, key: Hashable) -> T:
        value = self._values[key] = self._values.pop(key)
        return value


class ObjectStore:
    """Files of machine code in one directory, by key. No method raises: without a usable directory the store is empty."""

    def __init__(self, directory: Path | None, *, limit_bytes: int = 256 << 20) -> None:
        self.directory = directory
        """The folder of the files, created on first use; None keeps nothing."""
        self.refused = 0
        """How many entries could not be saved."""
        self._refusal = ""
        self._limit = limit_bytes
        self._unlisted = 0
        self._room = -1

    def load(self, key: str) -> bytes | None:
        """Returns the bytes of a kernel saved under a key, or None; counts the use. Deletes a damaged or foreign file."""
        found = self.read(key)
        self.count(found=found is not None)
        return found

    def read(self, key: str, *, kernel: bool = True) -> bytes | None:
        """As `load`, but without counting, and also for entries that are not kernels."""
        try:
            with suppress(FileNotFoundError):
                return self._read(_name(key, kernel))
        except OSError as error:
            self._refusal = _reason(error)
        return None

    def _read(self, name: str) -> bytes | None:
        """The payload of a file; one that is torn or was changed is deleted. Raises OSError."""
        path, start = self._folder() / name, len(_MAGIC) + _DIGEST_BYTES
        data = path.read_bytes()
        if data.startswith(_MAGIC) and data[len(_MAGIC) : start] == _digest(name, data[start:]):
            with suppress(OSError):
                os.utime(path)  # the least recently used go first
            return data[start:]
        path.unlink()
        return None

    def count(self, *, found: bool) -> None:
        """Counts a lookup of a kernel: appending a byte needs no lock."""
        with suppress(OSError):  # nowhere to count
            _append(self._folder() / ("hits" if found else "misses"), b".")

    def save(self, key: str, payload: bytes, *, kernel: bool = True) -> bool:
        """Saves bytes under a key; returns False when the directory cannot take them."""
        name = _name(key, kernel)
        try:
            folder = self._folder()
            aside = folder / f"{_UNFINISHED}{token_hex(8)}"
            try:
                aside.write_bytes(_MAGIC + _digest(name, payload) + payload)
                aside.replace(folder / name)  # at once: no process reads half a file
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        except OSError as error:
            self.refused += 1
            self._refusal = _reason(error)
            return False
        self._refusal = ""
        self._room -= len(payload)
        self._unlisted += 1
        if self._room < 0 or self._unlisted >= _LISTED_EVERY:
            self._shrink()
        return True

    def clear(self) -> int:
        """Deletes every entry and the counts, but no other files; returns how many kernels there were."""
        files = self._files()
        with suppress(OSError):
            folder = self._folder()
            for name in [*(name for _, _, name in files), "hits", "misses", *_NOTES]:
                (folder / name).unlink(missing_ok=True)
            self._sweep(folder, 0.0)
        return _kernels(files)

    def summary(self) -> StoreSummary:
        """Returns entries, bytes, uses, and the reason why the directory is not used, if it is not."""
        files = self._files()
        size = sum(size for _, size, _ in files)
        counts = {"hits": 0, "misses": 0}
        with suppress(OSError):
            counts |= {name: status.st_size for name, status in _files_in(self._folder()) if name in counts}
        return StoreSummary(self.directory, _kernels(files), size, self._limit, **counts, trouble=self.trouble())

    def trouble(self) -> str:
        """Returns why nothing is kept here, or why the last entry was not; empty if entries can be saved."""
        try:
            trial = self._folder() / f"{_UNFINISHED}{token_hex(8)}"
            trial.touch()
            trial.unlink()
        except OSError as error:
            return _reason(error)
        return self._refusal

    def read_note(self, name: str) -> bytes:
        """Returns a file of notes on the entries, kept beside them; empty if there is none."""
        with suppress(OSError):
            return (self._folder() / name).read_bytes()
        return b""

    def add_note(self, name: str, line: bytes, *, most: int) -> None:
        """Appends a line to such a file, which is deleted once it has more bytes than `most`."""
        with suppress(OSError):
            path = self._folder() / name
            if _append(path, line) > most:
                path.unlink(missing_ok=True)

    def _folder(self) -> Path:
        """Returns the directory, made if it is missing. Raises OSError if it cannot be used."""
        if self.directory is None:
            raise PermissionError(errno.EACCES, "this user has no home; set XDG_CACHE_HOME to a folder that is the user's alone")
        return private_folder(self.directory)

    def _files(self) -> list[tuple[float, int, str]]:
        """Returns time of last use, bytes and name of each entry."""
        try:
            files = list(_files_in(self._folder()))
        except OSError:
            return []
        return [(status.st_mtime, status.st_size, name) for name, status in files if name.endswith((_KERNEL, _OTHER))]

    def _sweep(self, folder: Path, age: float) -> None:
        """Deletes the files that killed processes left unfinished."""
        oldest = time.time() - age
        for name, status in _files_in(folder):
            if name.startswith(_UNFINISHED) and status.st_mtime <= oldest:
                (folder / name).unlink(missing_ok=True)

    def _shrink(self) -> None:
        """Deletes the least recently used files until half of the limit is free, if the limit is exceeded."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        self._unlisted, self._room = 0, self._limit - total
        with suppress(OSError):
            folder = self._folder()
            self._sweep(folder, _ABANDONED)
            if total <= self._limit:
                return
            for _, size, name in sorted(files):
                (folder / name).unlink(missing_ok=True)
                total -= size
                if total <= self._limit // 2:
                    break
        self._room = self._limit - total


def private_folder(path: Path) -> Path:
    """Returns a folder that belongs to the user and in which nobody else may write; made, with mode 0700, if it is missing.

    Trusted are also root, and who may rename the folders above it. Raises PermissionError for any other folder, OSError if it
    cannot be made. Windows has no such modes: there a user's folders are private by their place.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, f"it belongs to user {status.st_uid}")
        if status.st_mode & 0o022:
            raise PermissionError(errno.EACCES, "other users may write in it; chmod go-w makes it private")
    return path


def _files_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the regular files of a folder with their status; other processes may delete some meanwhile."""
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False)


def _append(path: Path, data: bytes) -> int:
    """Appends to a file, which is created if it does not exist; returns its size."""
    with path.open("ab") as file:
        file.write(data)
        return file.tell()


def _digest(name: str, payload: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + payload).digest()


def _name(key: str, kernel: bool = True) -> str:
    return hashlib.sha256(_MAGIC + key.encode()).hexdigest() + (_KERNEL if kernel else _OTHER)


def _kernels(files: Iterable[tuple[float, int, str]]) -> int:
    return sum(name.endswith(_KERNEL) for _, _, name in files)


def user_cache_directory() -> Path | None:
    """Returns the folder of this user's caches: `$XDG_CACHE_HOME/irscope` or `~/.cache/irscope`.

    None for a user without a home, as in some containers: a folder that anyone can create is no place for code.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "irscope"
    try:
        return Path.home() / ".cache" / "irscope"
    except RuntimeError:
        return None


def user_store(device: str) -> ObjectStore:
    """Returns the user's store of compiled kernels for one device."""
    folder = user_cache_directory()
    return ObjectStore(None if folder is None else folder / device)


def user_stores() -> dict[str, ObjectStore]:
    """Returns the user's store of compiled kernels for each device that compiles."""
    return {device: user_store(device) for device in ("cpu", "cuda")}


def _reason(error: OSError) -> str:
    if isinstance(error, PermissionError) and error.filename is None:  # of `private_folder`
        return str(error.strerror)
    return f"it cannot be written: {error.strerror or error}"
