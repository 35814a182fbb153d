"""Caches of kernels: one build per key, files whole or absent, damage found, size bounded, private."""

import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from irscope.runtime.device import kernel_cache as cache
from irscope.runtime.device.kernel_cache import KernelCache, ObjectStore, private_folder, user_cache_directory, user_store


def test_many_threads_build_each_key_once() -> None:
    kept: KernelCache[int] = KernelCache()
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
        return [kept.get(key, build(key)) for key in range(5)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert answers == [[0, 10, 20, 30, 40]] * 8
    assert sorted(built) == [0, 1, 2, 3, 4]


def test_distinct_keys_are_built_side_by_side() -> None:
    kept: KernelCache[int] = KernelCache()
    both = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda key: kept.get(key, lambda: both.wait() * 0 + key), range(2)))
    assert results == [0, 1]


def test_a_failed_build_is_not_kept() -> None:
    kept: KernelCache[int] = KernelCache()

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        kept.get("k", fail)
    assert kept.get("k", lambda: 7) == 7


def test_the_least_recently_used_leave_first() -> None:
    kept: KernelCache[str] = KernelCache(limit=2)
    for key in ("a", "b", "a", "c"):
        kept.get(key, lambda key=key: key.upper())  # type: ignore[misc]
    assert len(kept) == 2
    assert "a" in kept and "b" not in kept, "a was used after b"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "objects")


def only_file(store: ObjectStore) -> Path:
    assert store.directory is not None
    assert not [path for path in store.directory.iterdir() if path.name.startswith(".new-")]
    (path,) = store.directory.glob("*.o")
    return path


def test_what_is_saved_is_loaded_under_its_own_name_also_where_the_directory_was_deleted(store: ObjectStore) -> None:
    assert store.load("k") is None and store.save("k", b"code") and store.load("k") == b"code"
    assert store.load("K") is None and store.clear() == 1 and store.load("k") is None
    store.save("k", b"code")
    path = only_file(store)
    store.save("other", b"more")
    (other,) = set(store.directory.glob("*.o")) - {path}
    other.write_bytes(path.read_bytes())
    assert store.load("other") is None
    store.save("k", b"code")
    shutil.rmtree(store.directory)
    assert store.load("k") is None and store.save("k", b"code") and store.load("k") == b"code"


def test_old_files_leave_when_the_limit_is_passed(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects", limit_bytes=10_000)
    for index in range(30):
        store.save(f"k{index}", bytes(1000))
    assert store.summary().size_bytes <= 10_000 and store.load("k29") is not None and store.load("k0") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_directory_that_others_can_write_is_not_used(store: ObjectStore) -> None:
    store.save("k", b"code")
    store.directory.chmod(0o777)
    assert store.load("k") is None and not store.save("other", b"code") and "other users" in store.trouble()
    store.directory.chmod(0o700)
    assert store.load("k") == b"code"


def test_an_unusable_directory_is_an_empty_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    store = ObjectStore(blocked / "objects")
    assert not store.save("k", b"code") and store.load("k") is None
    assert (store.summary().size_bytes, store.clear()) == (0, 0) and "cannot be written" in store.trouble()


def test_no_unfinished_file_stays(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("k", b"code")

    def interrupted(*_: object, **where: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save("other", b"code")
    assert only_file(store).name.endswith(".o")


def test_uses_are_counted_over_all_processes(store: ObjectStore) -> None:
    store.load("k")
    store.save("k", b"code")
    for _ in range(3):
        ObjectStore(store.directory).load("k")
    summary = store.summary()
    assert (summary.entries, summary.hits, summary.misses, summary.trouble) == (1, 3, 1, "")
    assert summary.size_bytes == only_file(store).stat().st_size
    store.clear()
    summary = store.summary()
    assert (summary.entries, summary.size_bytes, summary.hits, summary.misses) == (0, 0, 0, 0)


def test_other_versions_and_other_files_are_left_alone(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("k", b"old")
    monkeypatch.setattr(cache, "_MAGIC", b"irscope-object-9\n")
    assert store.load("k") is None
    store.save("k", b"new")
    monkeypatch.undo()
    assert store.load("k") == b"old"
    foreign = store.directory / "notes.txt"
    foreign.write_text("mine")
    assert store.clear() == 2
    assert foreign.read_text() == "mine"


def test_files_of_a_store_that_others_fill_stay_bounded(tmp_path: Path) -> None:
    stores = [ObjectStore(tmp_path / "objects", limit_bytes=100_000) for _ in range(3)]
    for index in range(300):
        stores[index % 3].save(f"k{index}", bytes(1000))
    assert stores[0].summary().size_bytes <= 2 * 100_000


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="no permissions that hold")
def test_a_directory_that_cannot_be_written_says_so(store: ObjectStore) -> None:
    store.save("k", b"code")
    store.directory.chmod(0o500)
    assert not store.save("other", b"code") and store.load("k") == b"code"
    assert "cannot be written" in store.trouble()
    store.directory.chmod(0o700)
    assert store.trouble() == ""


def test_the_user_cache_follows_the_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_directory() == tmp_path / "irscope"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/to/be/ignored")
    assert user_cache_directory() == Path.home() / ".cache" / "irscope"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no owners")
def test_a_directory_of_another_user_is_not_used(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("k", b"code")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert store.load("k") is None and not store.save("other", b"code")
    assert "it belongs to user" in store.trouble()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_a_new_directory_is_the_user_s_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "caches" / "irscope" / "cpu")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700, 0o700]


def test_every_truncation_and_every_flipped_bit_is_found(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects")
    store.save("k", bytes(range(40)))
    (path,) = store.directory.glob("*.o")
    whole = path.read_bytes()
    damaged = [whole + b"more", *(whole[:size] for size in range(len(whole)))]
    damaged += [whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :] for bit in range(8 * len(whole))]
    for data in damaged:
        path.write_bytes(data)
        assert store.load("k") is None
        assert not path.exists()
    assert store.save("k", b"new") and store.load("k") == b"new"


def test_what_killed_processes_left_is_swept_away(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects")
    store.save("first", b"code")
    old, young = store.directory / ".new-old", store.directory / ".new-young"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    for index in range(64):
        store.save(f"k{index}", b"code")
    assert (old.exists(), young.exists()) == (False, True)
    store.clear()
    assert not young.exists()


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert user_cache_directory() is None
    store = user_store("cpu")
    assert not store.save("k", b"code") and store.load("k") is None
    assert "XDG_CACHE_HOME" in store.summary().trouble
    assert list(tmp_path.iterdir()) == [], "a place that anyone can make is no place for code"
