"""Caches of kernels: one build per key, files whole or absent, damage found, size bounded, private."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from irscope.runtime.cache import KernelCache, ObjectStore, user_cache_directory


def test_many_threads_build_each_key_once() -> None:
    cache: KernelCache[int] = KernelCache()
    built: list[int] = []

    def build(key: int) -> Callable[[], int]:
        def run() -> int:
            built.append(key)
            time.sleep(0.01)
            return key * 10

        return run

    barrier = threading.Barrier(8)

    def ask(_: int) -> list[int]:
        barrier.wait()
        return [cache.get(key, build(key)) for key in range(5)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert answers == [[0, 10, 20, 30, 40]] * 8
    assert sorted(built) == [0, 1, 2, 3, 4]
    assert (cache.counts.hits, cache.counts.misses) == (35, 5)
    assert cache.counts.build_seconds >= 0.05


def test_distinct_keys_are_built_side_by_side() -> None:
    cache: KernelCache[int] = KernelCache()
    both = threading.Barrier(2, timeout=5)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda key: cache.get(key, lambda: both.wait() * 0 + key), range(2)))
    assert results == [0, 1]


def test_a_failed_build_is_not_kept() -> None:
    cache: KernelCache[int] = KernelCache()

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("k", fail)
    assert cache.get("k", lambda: 7) == 7


def test_the_least_recently_used_leave_first() -> None:
    cache: KernelCache[str] = KernelCache(limit=2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda key=key: key.upper())  # type: ignore[misc]
    assert len(cache) == 2
    misses = cache.counts.misses
    cache.get("a", lambda: "A")
    assert cache.counts.misses == misses, "a was used after b"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "objects")


def only_file(store: ObjectStore) -> Path:
    (path,) = store.directory.iterdir()
    return path


def test_what_is_saved_is_loaded_and_nothing_else(store: ObjectStore) -> None:
    assert store.load("k") is None
    assert store.save("k", b"code")
    assert store.load("k") == b"code"
    assert store.load("K") is None
    assert store.clear() == 1
    assert store.load("k") is None


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: data[:10], lambda data: b"", lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    lambda data: b"X" + data[1:], lambda data: data + b"more",
], ids=["truncated", "head only", "empty", "altered", "other magic", "longer"])  # fmt: skip
def test_a_damaged_file_is_found_and_deleted(store: ObjectStore, damage: Callable[[bytes], bytes]) -> None:
    store.save("k", b"code" * 100)
    path = only_file(store)
    path.write_bytes(damage(path.read_bytes()))
    assert store.load("k") is None
    assert not path.exists()
    assert store.save("k", b"new")
    assert store.load("k") == b"new"


def test_old_files_leave_when_the_limit_is_passed(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects", limit_bytes=10_000)
    for index in range(30):
        store.save(f"k{index}", bytes(1000))
    assert store.size_bytes <= 10_000
    assert store.load("k29") is not None
    assert store.load("k0") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_directory_that_others_can_write_is_not_used(store: ObjectStore) -> None:
    store.save("k", b"code")
    store.directory.chmod(0o777)
    assert store.load("k") is None
    assert not store.save("other", b"code")
    store.directory.chmod(0o700)
    assert store.load("k") == b"code"


def test_an_unusable_directory_is_an_empty_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    store = ObjectStore(blocked / "objects")
    assert not store.save("k", b"code")
    assert store.load("k") is None
    assert (store.size_bytes, store.clear()) == (0, 0)


def test_no_unfinished_file_stays(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("k", b"code")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save("other", b"code")
    assert only_file(store).name.endswith(".o")


def test_the_user_cache_follows_the_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_directory() == tmp_path / "irscope"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/to/be/ignored")
    assert user_cache_directory() == Path.home() / ".cache" / "irscope"
