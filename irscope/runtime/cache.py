"""Compiled kernels kept: in memory for this process, as object files for later ones.

In memory, one entry is built once however many threads ask for it. On disk, an entry is a file that appears whole or
not at all (written aside, then renamed), carries a checksum, and is thrown away when the checksum disagrees. Several
processes may share a directory: at worst two of them build the same entry, and the later file replaces an equal one.

The files hold machine code. The directory must therefore belong to the user alone; otherwise it is not used.

The names of files depend on the version of their format, so that versions of irscope do not delete each other's. Uses and
misses of all processes are counted beside the directory by the lengths of two files, to which each adds a byte.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

__all__ = ["CacheCounts", "KernelCache", "ObjectStore", "StoreSummary", "user_cache_directory", "user_stores"]

T = TypeVar("T")

_MAGIC: Final = b"irscope-object-2\n"
"""What a file starts with; the number is the version of its format."""
_UNFINISHED: Final = ".new-"
_LISTED_EVERY: Final = 64
"""Entries saved by this process after which it looks at what others have saved."""


_ABANDONED: Final = 3600.0
"""Seconds after which an unfinished file belongs to a process that is gone."""


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """What a directory of compiled kernels holds, and how it was used by all processes since it was last cleared."""

    directory: Path
    entries: int
    size_bytes: int
    limit_bytes: int
    hits: int
    """Kernels that were loaded instead of compiled."""
    misses: int
    """Kernels that were not there, or damaged."""
    trouble: str = ""
    """Why the directory is not used; empty if it can be."""


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What a cache has done so far."""

    hits: int = 0
    misses: int = 0
    build_seconds: float = 0.0
    """Time spent building what was missing, summed over threads."""


class KernelCache(Generic[T]):
    """Values by key, each built at most once at a time; bounded, the least recently used leave first.

    >>> cache = KernelCache(limit=10)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.counts.hits
    (1, 1, 1)
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: dict[Hashable, T] = {}
        self._building: dict[Hashable, threading.Lock] = {}
        self._counts = CacheCounts()

    @property
    def counts(self) -> CacheCounts:
        """Hits, misses and building time since it was made."""
        return self._counts

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """The value of a key, built if it is missing; who asks for it meanwhile waits. An error of `build` is not
        kept.
        """
        with self._lock:
            if key in self._values:
                return self._hit(key)
            turn = self._building.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                if key in self._values:
                    return self._hit(key)
            start = time.perf_counter()
            try:
                value = build()
            except BaseException:
                with self._lock:
                    self._building.pop(key, None)
                raise
            with self._lock:
                self._building.pop(key, None)
                self._keep(key, value, time.perf_counter() - start)
        return value

    def _keep(self, key: Hashable, value: T, seconds: float) -> None:
        self._values[key] = value
        counts = self._counts
        self._counts = replace(counts, misses=counts.misses + 1, build_seconds=counts.build_seconds + seconds)
        while len(self._values) > self._limit:
            del self._values[next(iter(self._values))]

    def _hit(self, key: Hashable) -> T:
        value = self._values.pop(key)
        self._values[key] = value
        self._counts = replace(self._counts, hits=self._counts.hits + 1)
        return value


class ObjectStore:
    """Files of machine code in one directory, by key. Nothing here raises: without a usable directory it is empty.

    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = ObjectStore(Path(directory) / "objects")
    ...     store.save("k", b"code"), store.load("k"), store.load("other"), store.summary().hits
    (True, b'code', None, 1)
    """

    def __init__(self, directory: Path, *, limit_bytes: int = 256 << 20) -> None:
        self.directory = directory
        """Where the files are; made when the first one is saved."""
        self.refused = 0
        """How many entries could not be saved."""
        self._refusal = ""
        self._limit = limit_bytes
        self._unlisted = 0
        self._room = -1

    def load(self, key: str) -> bytes | None:
        """The bytes saved under a key, or None. A damaged file is deleted."""
        path = self._path(key)
        try:
            if not self._is_private():
                return None
            data = path.read_bytes()
        except OSError:
            self._count("misses")
            return None
        start = len(_MAGIC) + 32
        payload = data[start:]
        if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
            self.drop(key)
            self._count("misses")
            return None
        _try(lambda: os.utime(path))
        self._count("hits")
        return payload

    def save(self, key: str, payload: bytes) -> bool:
        """Keep bytes under a key; False when the directory cannot take them."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_private():
                self.refused += 1
                return False
            handle, name = tempfile.mkstemp(dir=self.directory, prefix=_UNFINISHED)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
                Path(name).replace(self._path(key))
            except BaseException:
                _try(Path(name).unlink)
                raise
        except OSError as error:
            self.refused += 1
            self._refusal = _cannot_be_written(error)
            return False
        self._refusal = ""
        self._room -= len(payload)
        self._unlisted += 1
        if self._room < 0 or self._unlisted >= _LISTED_EVERY:
            self._shrink()
        return True

    def drop(self, key: str) -> None:
        """Delete the entry of a key, if there is one."""
        _try(self._path(key).unlink)

    def clear(self) -> int:
        """Delete every entry, and the counts; gives how many entries there were. Other files are left alone."""
        files = self._files()
        for _, _, path in files:
            _try(path.unlink)
        self._sweep(0.0)
        for kind in ("hits", "misses"):
            _try(self._counter(kind).unlink)
        return len(files)

    def summary(self) -> StoreSummary:
        """Entries, bytes, uses, and why the directory is not used if it is not."""
        files = self._files()
        size = sum(size for _, size, _ in files)
        hits, misses = (_size(self._counter(kind)) for kind in ("hits", "misses"))
        return StoreSummary(self.directory, len(files), size, self._limit, hits, misses, self.trouble())

    def trouble(self) -> str:
        """Why nothing is kept here, or the last entry was not; empty if entries can be saved."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_private():
                return "other users may write in it; chmod go-w makes it private"
            handle, name = tempfile.mkstemp(dir=self.directory, prefix=_UNFINISHED)
            os.close(handle)
            Path(name).unlink()
        except OSError as error:
            return _cannot_be_written(error)
        return self._refusal

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(_MAGIC + key.encode()).hexdigest()}.o"

    def _counter(self, kind: str) -> Path:
        return self.directory.with_name(f"{self.directory.name}.{kind}")

    def _count(self, kind: str) -> None:
        """One more: appending a byte needs no lock."""
        try:
            handle = os.open(self._counter(kind), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, b".")
            finally:
                os.close(handle)
        except OSError:
            pass  # no place to count

    def _is_private(self) -> bool:
        """Whether nobody else can put code there."""
        if not hasattr(os, "geteuid"):
            return True
        status = self.directory.stat()
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, bytes and path of each entry."""
        found = []
        for path in _listed(self.directory, "*.o"):
            try:
                status = path.stat()
            except OSError:
                continue  # it left between two looks
            found.append((status.st_mtime, status.st_size, path))
        return found

    def _sweep(self, age: float) -> None:
        """Delete what processes that were killed left unfinished."""
        oldest = time.time() - age
        for path in _listed(self.directory, f"{_UNFINISHED}*"):
            _try(lambda path=path: path.stat().st_mtime <= oldest and path.unlink())  # type: ignore[misc]

    def _shrink(self) -> None:
        """If the limit is passed, delete the files used longest ago until half of it is free."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        self._unlisted, self._room = 0, self._limit - total
        self._sweep(_ABANDONED)
        if total <= self._limit:
            return
        for _, size, path in sorted(files, key=lambda file: file[0]):
            _try(path.unlink)
            total -= size
            if total <= self._limit // 2:
                break
        self._room = self._limit - total


def user_cache_directory() -> Path:
    """Where this user's programs keep what they can make again: `$XDG_CACHE_HOME/irscope` or `~/.cache/irscope`.

    A user without a home, as in some containers, has a directory of the system's for temporary files.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "irscope"
    try:
        return Path.home() / ".cache" / "irscope"
    except RuntimeError:
        own = getattr(os, "geteuid", lambda: "user")()
        return Path(tempfile.gettempdir()) / f"irscope-{own}"


def user_stores() -> dict[str, ObjectStore]:
    """The user's directory of compiled kernels for each device that compiles.

    >>> list(user_stores())
    ['cpu', 'cuda']
    """
    return {device: ObjectStore(user_cache_directory() / device) for device in ("cpu", "cuda")}


def _listed(directory: Path, pattern: str) -> list[Path]:
    try:
        return list(directory.glob(pattern))
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _cannot_be_written(error: OSError) -> str:
    return f"it cannot be written: {error.strerror or error}"


def _try(action: Callable[[], object]) -> None:
    with suppress(OSError):
        action()
