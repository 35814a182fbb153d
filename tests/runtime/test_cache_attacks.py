"""Another user of the machine against the cache of compiled kernels: nothing of his is run, written through, or waited for.

Each file of the cache, and each folder on the way to it, is a link, a pipe, a folder, another's, or changed between the
look and the use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import irscope as irs
from irscope._base import private_folder
from irscope._base.private_folder import Distrusted, PrivateFolder
from irscope.runtime.device import kernel_cache as cache
from irscope.runtime.device.kernel_cache import ObjectStore, user_store
from irscope.runtime.program.executable import compile_graph

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes and no owners")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
STRANGER = 54321

FILES = ["entry", "secret", "hits", "misses"]
"""Every file of a cache."""


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    made = ObjectStore(tmp_path / "cpu")
    made.load("missing")
    made.save("k", b"code")
    assert made.load("k") == b"code"
    return made


def file_of(store: ObjectStore, which: str) -> Path:
    assert store.directory is not None
    (entry,) = store.directory.glob("*.o")
    return entry if which == "entry" else store.directory / which


def link_to_my_file(path: Path) -> None:
    (path.parent.parent / "mine").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(path.parent.parent / "mine")


def dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "mine")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "full").write_bytes(b"")


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def hard_link(path: Path) -> None:
    (path.parent.parent / "mine").write_bytes(path.read_bytes())
    path.unlink()
    os.link(path.parent.parent / "mine", path)


def writable(path: Path) -> None:
    path.chmod(0o666)


def of_another(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


@pytest.mark.parametrize("which", FILES)
@pytest.mark.parametrize("attack", [
    link_to_my_file, dangling_link, pipe, folder, endless, hard_link, writable, pytest.param(of_another, marks=as_root),
])  # fmt: skip
def test_each_file_in_each_way(store: ObjectStore, which: str, attack: Callable[[Path], None]) -> None:
    attack(file_of(store, which))
    mine = file_of(store, "secret").parent.parent / "mine"
    before = mine.read_bytes() if mine.exists() else None
    fresh = ObjectStore(store.directory)
    done = threading.Event()

    def use() -> None:
        assert fresh.load("k") in (None, b"code"), "never something else"
        assert fresh.load("other") is None
        fresh.save("other", b"more")
        fresh.summary()
        done.set()

    threading.Thread(target=use, daemon=True).start()
    assert done.wait(10), "it hangs"
    assert (mine.read_bytes() if mine.exists() else None) == before, "a file of the user's elsewhere was written"
    if which == "secret":
        assert fresh.load("other") is None, "without a secret of its own nothing is kept"
        assert "secret" in fresh.trouble()
        assert fresh.refused == 1
    else:
        assert fresh.load("other") == b"more"
    fresh.clear()


def test_an_entry_that_another_wrote_is_not_run(store: ObjectStore) -> None:
    """He knows the name and the format, and not the secret; nor does another's entry pass under this name."""
    path = file_of(store, "entry")
    forged = ObjectStore(path.parent.parent / "his")
    forged.save("k", b"evil")
    (his,) = (path.parent.parent / "his").glob("*.o")
    assert his.name == path.name
    path.write_bytes(his.read_bytes())
    assert store.load("k") is None
    store.save("k", b"code")
    store.save("other", b"other code")
    other = next(file for file in path.parent.glob("*.o") if file.name != path.name)
    path.write_bytes(other.read_bytes())
    assert store.load("k") is None


def test_a_program_with_forged_kernels_runs_its_own(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    text = (
        "graph(%x : Float(8, strides=[1])):\n  %a : Tensor = aten::OP(%x)\n  %b : Tensor = aten::neg(%a)\n  return (%b)"
    )
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    stores = [ObjectStore(tmp_path / name) for name in ("mine", "his")]
    for store, op in zip(stores, ("tanh", "sin"), strict=True):
        compile_graph(irs.fuse(irs.parse(text.replace("OP", op))), store=store)(x)
    mine, his = (sorted((tmp_path / name).glob("*.o")) for name in ("mine", "his"))
    for file in mine:
        file.write_bytes(max((each.read_bytes() for each in his), key=len))
    run = compile_graph(irs.fuse(irs.parse(text.replace("OP", "tanh"))), store=ObjectStore(tmp_path / "mine"))
    np.testing.assert_allclose(run(x), -np.tanh(x), rtol=1e-6)
    assert not any(kernel.from_disk for kernel in run.kernels)


def refused(directory: Path, words: str) -> None:
    store = ObjectStore(directory)
    assert not store.save("k", b"code")
    assert store.load("k") is None
    assert words in store.trouble(), store.trouble()
    assert store.summary().trouble == store.trouble()


@as_root
@pytest.mark.parametrize("level", ["folder", "parent", "link", "link to a folder above"])
def test_what_belongs_to_another_on_the_way(tmp_path: Path, level: str) -> None:
    real = tmp_path / "a" / "b" / "cpu"
    real.mkdir(parents=True, mode=0o700)
    asked = real
    if level == "folder":
        os.chown(real, STRANGER, STRANGER)
    elif level == "parent":
        os.chown(real.parent, STRANGER, STRANGER)
    else:
        link = tmp_path / "link"
        link.symlink_to(real if level == "link" else real.parent)
        os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
        asked = link if level == "link" else link / "cpu"
    refused(asked, str(STRANGER))
    assert list(real.iterdir()) == []


def test_folders_that_anyone_may_change(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    refused(shared / "irscope" / "cpu", "any user may rename")
    shared.chmod(0o1777)  # as the system's temporary folder: nobody renames what is not his
    assert ObjectStore(shared / "irscope" / "cpu").save("k", b"code")
    (shared / "irscope").chmod(0o1777)
    (shared / "irscope" / "cpu").chmod(0o720)
    refused(shared / "irscope" / "cpu", "chmod go-w")


def test_links_of_the_user_s_own_are_followed(tmp_path: Path) -> None:
    (tmp_path / "far" / "home").mkdir(parents=True)
    (tmp_path / "home").symlink_to("far/home")
    (tmp_path / "far" / "home" / ".cache").symlink_to("../../disk")
    (tmp_path / "absolute").symlink_to(tmp_path / "home")
    assert ObjectStore(tmp_path / "absolute" / ".cache" / "irscope").save("k", b"code")
    assert ObjectStore(tmp_path / "disk" / "irscope").load("k") == b"code"
    (tmp_path / "round").symlink_to("round")
    refused(tmp_path / "round" / "irscope", "circles")


def test_what_is_in_the_place_of_the_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    for name in ("pipe", "file"):
        refused(tmp_path / name, "cannot be written")
        refused(tmp_path / name / "cpu", "cannot be written")


def test_the_folder_is_exchanged_while_it_is_used(store: ObjectStore, tmp_path: Path) -> None:
    """What was checked is held open: who renames it away and puts another there changes nothing."""
    evil = ObjectStore(tmp_path / "evil")
    evil.save("k", b"evil")
    (tmp_path / "cpu").rename(tmp_path / "away")
    (tmp_path / "cpu").symlink_to(tmp_path / "evil")
    assert store.load("k") == b"code"
    (tmp_path / "evil").chmod(0o777)
    assert store.load("k") == b"code"
    (tmp_path / "away").chmod(0o777)
    assert store.load("k") is None


def test_a_file_is_exchanged_between_the_look_and_the_use(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that are authenticated are those that are given, whatever lies there by then."""
    path = file_of(store, "entry")
    real = private_folder._check_file

    def exchanged(*given: object) -> None:
        real(*given)  # type: ignore[arg-type]
        path.unlink()
        path.write_bytes(b"evil")

    monkeypatch.setattr(private_folder, "_check_file", exchanged)
    assert store.load("k") == b"code"
    monkeypatch.undo()
    assert store.load("k") is None


def test_a_folder_that_was_deleted_is_made_again(store: ObjectStore) -> None:
    assert store.directory is not None
    for path in store.directory.iterdir():
        path.unlink()
    store.directory.rmdir()
    assert store.load("k") is None
    assert store.save("k", b"new")
    assert store.load("k") == b"new"


def test_descriptors_that_somebody_else_closed(store: ObjectStore, tmp_path: Path) -> None:
    """A daemon closes all files when it starts; the numbers then stand for other things."""
    opened = store._open
    assert opened is not None
    (tmp_path / "other").mkdir()
    other, number = os.open(tmp_path / "other", os.O_RDONLY), opened.folder._handle
    os.dup2(other, number)
    os.close(other)
    assert store.load("k") == b"code"
    del opened
    os.fstat(number)
    os.close(number)
    assert list((tmp_path / "other").iterdir()) == []


def test_one_secret_for_processes_that_begin_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from irscope.runtime.device.kernel_cache import ObjectStore; "
        "s = ObjectStore(Path(sys.argv[1])); sys.stdin.read(1); "
        "assert all(s.save(f'{sys.argv[2]}{i}', b'code') for i in range(20))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "cpu"), name], stdin=subprocess.PIPE)
        for name in "abcd"
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"x")
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0] * 4
    store = ObjectStore(tmp_path / "cpu")
    assert all(store.load(f"{name}{index}") == b"code" for name in "abcd" for index in range(20))


def test_no_place_is_a_remark_on_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    text = "graph(%x : Float(9, strides=[1])):\n  %a : Tensor = aten::tanh(%x)\n  %b : Tensor = aten::neg(%a)\n  return (%b)"
    run = compile_graph(irs.fuse(irs.parse(text)), store=user_store("cpu"))
    run(np.zeros(9, np.float32))
    (remark,) = (remark for remark in run.remarks if remark.rule == "no-disk-cache")
    assert "any user may rename" in remark.because
    assert list((tmp_path / "shared").iterdir()) == []


def test_the_private_folder_says_what_is_wrong(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "mine")
    folder.write("a", b"first")
    folder.write("a", b"second", replace=False)
    assert folder.read("a") == b"first"
    (tmp_path / "mine" / "a").chmod(0o644)
    assert folder.read("a") == b"first"
    with pytest.raises(Distrusted, match="others may read"):
        folder.read("a", secret=True)
    assert cache._SECRET_BYTES >= 32
