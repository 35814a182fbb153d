"""Caches of compiled kernels: in memory for this process, as object files for later ones.

In memory, one entry is built once however many threads ask for it. On disk, an entry is a file that appears whole or
not at all (written aside, then renamed), and is deleted when its content is not what was written. Several processes may
share a directory: at worst two of them build the same entry, and the later file replaces an equal one.

The files hold machine code, which runs as the user. The directory must therefore belong to the user alone
(`irscope._base.private_folder` defines this); otherwise it is not used, and a remark says why. A file is read whole, then
authenticated, then loaded from memory: it carries a MAC of its key and its bytes, computed with a secret that is kept in
the directory in a file that only the user can read. So an entry written by another user, or stored under another entry's
name, does not run. Those who can read the secret, the user and root, are trusted.

The names of files depend on the version of their format, so that versions of irscope do not delete each other's. Uses and
misses of all processes are counted by the lengths of two files in the directory, to which each appends a byte. Files that
kernels need but that are not kernels (the code by which Python enters them, a module of several kernels) are kept beside
them under another suffix; their bytes are counted, but not their number or uses.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes
from typing import Final, Generic, TypeVar

from irscope._base.private_folder import Distrusted, PrivateFolder

__all__ = [
    "CacheCounts", "KernelCache", "ObjectStore", "StoreSummary", "user_cache_directory", "user_store", "user_stores",
]  # fmt: skip

T = TypeVar("T")

_MAGIC: Final = b"irscope-object-3\n"
"""The first bytes of a file; the number is the version of its format."""
_KERNEL: Final = ".o"
_OTHER: Final = ".aux"
_UNFINISHED: Final = ".new-"
_SECRET: Final = "secret"
_SECRET_BYTES: Final = 32
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


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """The activity of a cache so far."""

    hits: int = 0
    misses: int = 0
    build_seconds: float = 0.0
    """Time spent building what was missing, summed over threads."""


class KernelCache(Generic[T]):
    """Values by key, each built at most once at a time; bounded, the least recently used are evicted first.

    >>> cache = KernelCache(limit=10)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.counts.hits
    (1, 1, 1)
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._lock = threading.RLock()
        self._values: dict[Hashable, T] = {}
        self._building: dict[Hashable, threading.RLock] = {}
        self._counts = CacheCounts()

    @property
    def counts(self) -> CacheCounts:
        """Hits, misses and building time since the cache was created."""
        return self._counts

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Returns the value of a key, built if it is missing; other callers that ask for it meanwhile wait. An error of
        `build` is not kept.
        """
        with self._lock:
            if found := self._hit(key):
                return found[0]
            building = self._building.setdefault(key, threading.RLock())
        with building:
            with self._lock:
                if found := self._hit(key):  # another thread has built it
                    return found[0]
            start = time.perf_counter()
            value = build()
            with self._lock:
                self._keep(key, value, time.perf_counter() - start)
        return value

    def _keep(self, key: Hashable, value: T, seconds: float) -> None:
        self._building.pop(key, None)
        self._values[key] = value
        counts = self._counts
        self._counts = replace(counts, misses=counts.misses + 1, build_seconds=counts.build_seconds + seconds)
        while len(self._values) > self._limit:
            self._values.pop(next(iter(self._values)))

    def _hit(self, key: Hashable) -> tuple[T] | None:
        if key not in self._values:
            return None
        value = self._values[key] = self._values.pop(key)
        self._counts = replace(self._counts, hits=self._counts.hits + 1)
        return (value,)


class ObjectStore:
    """Files of machine code in one directory, by key. No method raises: without a usable directory the store is empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = ObjectStore(Path(directory) / "objects")
    ...     store.save("k", b"code"), store.load("k"), store.load("other"), store.summary().hits
    (True, b'code', None, 1)
    """

    def __init__(self, directory: Path | None, *, limit_bytes: int = 256 << 20) -> None:
        self.directory = directory
        """The folder of the files, created on first use; None keeps nothing."""
        self.refused = 0
        """How many entries could not be saved."""
        self._refusal = ""
        self._limit = limit_bytes
        self._unlisted = 0
        self._room = -1
        self._open: _OpenStore | None = None

    def load(self, key: str) -> bytes | None:
        """Returns the bytes of a kernel saved under a key, or None; counts the use. Deletes a damaged or foreign file."""
        found = self.read(key)
        self.count(found=found is not None)
        return found

    def read(self, key: str, *, kernel: bool = True) -> bytes | None:
        """As `load`, but without counting, and also for entries that are not kernels."""
        try:
            return self._opened().load(_name(key, kernel))
        except OSError as error:
            self._refusal = _reason(error)
            return None

    def count(self, *, found: bool) -> None:
        """Counts a lookup of a kernel: appending a byte needs no lock."""
        with suppress(OSError):  # nowhere to count
            self._opened().folder.append("hits" if found else "misses", b".")

    def save(self, key: str, payload: bytes, *, kernel: bool = True) -> bool:
        """Saves bytes under a key; returns False when the directory cannot take them."""
        try:
            self._opened().save(_name(key, kernel), payload)
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

    def drop(self, key: str) -> None:
        """Deletes the entry of a key, if there is one."""
        with suppress(OSError):
            self._opened().folder.remove(_name(key))

    def clear(self) -> int:
        """Deletes every entry and the counts, but no other files; returns how many kernels there were."""
        files = self._files()
        with suppress(OSError):
            folder = self._opened().folder
            for _, _, name in files:
                folder.remove(name)
            self._sweep(folder, 0.0)
            for kind in ("hits", "misses", *_NOTES):
                folder.remove(kind)
        return _kernels(files)

    def summary(self) -> StoreSummary:
        """Returns entries, bytes, uses, and the reason why the directory is not used, if it is not."""
        files = self._files()
        size = sum(size for _, size, _ in files)
        counts = {"hits": 0, "misses": 0}
        with suppress(OSError):
            counts |= {name: status.st_size for name, status in self._opened().folder.files() if name in counts}
        return StoreSummary(self.directory, _kernels(files), size, self._limit, **counts, trouble=self.trouble())

    def trouble(self) -> str:
        """Returns why nothing is kept here, or why the last entry was not; empty if entries can be saved."""
        try:
            self._opened().try_out()
        except OSError as error:
            return _reason(error)
        return self._refusal

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries."""
        return sum(size for _, size, _ in self._files())

    def read_note(self, name: str) -> bytes:
        """Returns a file of notes on the entries, kept beside them; empty if there is none."""
        with suppress(OSError):
            return self._opened().folder.read(name)
        return b""

    def add_note(self, name: str, line: bytes, *, most: int) -> None:
        """Appends a line to such a file, which is deleted once it has more bytes than `most`."""
        with suppress(OSError):
            folder = self._opened().folder
            if folder.append(name, line) > most:
                folder.remove(name)

    def _opened(self) -> _OpenStore:
        """Returns the directory, held open. Raises OSError if it cannot be used."""
        if self.directory is None:
            raise Distrusted("this user has no home; set XDG_CACHE_HOME to a folder that is the user's alone")
        found = self._open
        if found is None or not found.folder.is_valid():
            found = self._open = _OpenStore(PrivateFolder(self.directory))
        return found

    def _files(self) -> list[tuple[float, int, str]]:
        """Returns time of last use, bytes and name of each entry."""
        try:
            files = list(self._opened().folder.files())
        except OSError:
            return []
        return [(status.st_mtime, status.st_size, name) for name, status in files if name.endswith((_KERNEL, _OTHER))]

    def _sweep(self, folder: PrivateFolder, age: float) -> None:
        """Deletes the files that killed processes left unfinished."""
        oldest = time.time() - age
        for name, status in folder.files():
            if name.startswith(_UNFINISHED) and status.st_mtime <= oldest:
                folder.remove(name)

    def _shrink(self) -> None:
        """Deletes the least recently used files until half of the limit is free, if the limit is exceeded."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        self._unlisted, self._room = 0, self._limit - total
        with suppress(OSError):
            folder = self._opened().folder
            self._sweep(folder, _ABANDONED)
            if total <= self._limit:
                return
            for _, size, name in sorted(files):
                folder.remove(name)
                total -= size
                if total <= self._limit // 2:
                    break
        self._room = self._limit - total


class _OpenStore:
    """A private folder with the secret that its entries are authenticated with."""

    def __init__(self, folder: PrivateFolder) -> None:
        self.folder = folder
        self._secret = _secret_of(folder)

    def load(self, name: str) -> bytes | None:
        try:
            data = self.folder.read(name, touch=True)
        except FileNotFoundError:
            return None
        except OSError:  # a link, a pipe, another user's: not what was saved
            self.folder.remove(name)
            return None
        start = len(_MAGIC) + 32
        payload = data[start:]
        if not data.startswith(_MAGIC) or not hmac.compare_digest(self._mac(name, payload), data[len(_MAGIC) : start]):
            self.folder.remove(name)
            return None
        return payload

    def save(self, name: str, payload: bytes) -> None:
        self.folder.write(name, _MAGIC + self._mac(name, payload) + payload, prefix=_UNFINISHED)

    def try_out(self) -> None:
        """Raises OSError if nothing can be written."""
        self.folder.write(f"{_UNFINISHED}trial", b"", prefix=_UNFINISHED)
        self.folder.remove(f"{_UNFINISHED}trial")

    def _mac(self, name: str, payload: bytes) -> bytes:
        return hmac.digest(self._secret, name.encode() + b"\n" + payload, "sha256")


def _secret_of(folder: PrivateFolder) -> bytes:
    """Returns the folder's secret, created if there is none. Raises Distrusted if it is not the user's own.

    Two processes may create one at once: the earlier one remains.
    """
    with suppress(FileNotFoundError):
        found = folder.read(_SECRET, secret=True)
        if len(found) == _SECRET_BYTES:
            return found
        raise Distrusted(f"{_SECRET} in it is damaged; delete it")
    folder.write(_SECRET, token_bytes(_SECRET_BYTES), prefix=_UNFINISHED, replace=False)
    return folder.read(_SECRET, secret=True)


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
    """Returns the user's store of compiled kernels for each device that compiles.

    >>> list(user_stores())
    ['cpu', 'cuda']
    """
    return {device: user_store(device) for device in ("cpu", "cuda")}


def _reason(error: OSError) -> str:
    if isinstance(error, Distrusted):
        return str(error.strerror)
    return f"it cannot be written: {error.strerror or error}"
