"""Compiled kernels kept: in memory for this process, as object files for later ones.

In memory, one entry is built once however many threads ask for it. On disk, an entry is a file that appears whole or
not at all (written aside, then renamed), carries a checksum, and is thrown away when the checksum disagrees. Several
processes may share a directory: at worst two of them build the same entry, and the later file replaces an equal one.

The files hold machine code. The directory must therefore belong to the user alone; otherwise it is not used.
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

__all__ = ["CacheCounts", "KernelCache", "ObjectStore", "user_cache_directory"]

T = TypeVar("T")

_MAGIC: Final = b"irscope-object-1\n"


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

    def __init__(self, limit: int = 4096) -> None:
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
    ...     store.save("k", b"code"), store.load("k"), store.load("other")
    (True, b'code', None)
    """

    def __init__(self, directory: Path, *, limit_bytes: int = 256 << 20) -> None:
        self.directory = directory
        """Where the files are; made when the first one is saved."""
        self._limit = limit_bytes

    def load(self, key: str) -> bytes | None:
        """The bytes saved under a key, or None. A damaged file is deleted."""
        path = self._path(key)
        try:
            if not self._is_private():
                return None
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + 32
        payload = data[start:]
        if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC):start]:
            _try(path.unlink)
            return None
        _try(lambda: os.utime(path))
        return payload

    def save(self, key: str, payload: bytes) -> bool:
        """Keep bytes under a key; False when the directory cannot take them."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_private():
                return False
            handle, name = tempfile.mkstemp(dir=self.directory, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
                Path(name).replace(self._path(key))
            except BaseException:
                _try(Path(name).unlink)
                raise
        except OSError:
            return False
        self._shrink()
        return True

    def clear(self) -> int:
        """Delete every entry; gives how many there were."""
        files = self._files()
        for _, _, path in files:
            _try(path.unlink)
        return len(files)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(key.encode()).hexdigest()}.o"

    def _is_private(self) -> bool:
        """Whether nobody else can put code there."""
        if not hasattr(os, "geteuid"):
            return True
        status = self.directory.stat()
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        try:
            for entry in os.scandir(self.directory):
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
        except OSError:
            pass  # the directory is gone, or a file left between two looks
        return found

    def _shrink(self) -> None:
        """Delete the files used longest ago until half the limit is free."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total <= self._limit:
            return
        for _, size, path in sorted(files, key=lambda file: file[0]):
            _try(path.unlink)
            total -= size
            if total <= self._limit // 2:
                return


def user_cache_directory() -> Path:
    """Where this user's programs keep what they can make again: `$XDG_CACHE_HOME/irscope` or `~/.cache/irscope`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "irscope"


def _try(action: Callable[[], object]) -> None:
    with suppress(OSError):
        action()
