"""A temporary folder goes away at any interrupt, and the interrupt is what is raised."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from irscope._base.concurrency.temporary import remove_folder, temporary_folder
from tests.oracles.interrupter import Interrupter

if sys.platform == "win32":
    pytest.skip("signals are told as POSIX has them", allow_module_level=True)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # by the folder itself, interrupted before its `with` began
def test_an_interrupt_at_any_moment_is_an_interrupt_and_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def work() -> None:
        with temporary_folder() as folder:
            (folder / "inner").mkdir()
            (folder / "inner" / "file").touch()

    interrupter = Interrupter()
    work()
    most, heard = interrupter.moments(work), 0
    assert most > 50
    for moment in range(1, most + 1):
        heard += interrupter.run(work, moment)  # any other error is raised here
        if any(tmp_path.iterdir()):
            gc.collect()  # in a process of many tests that takes a second
        made = list(tmp_path.iterdir())
        assert not made or (len(made) == 1 and not list(made[0].iterdir())), (moment, made)  # cut between Python's mkdir and its name
        for folder in made:
            folder.rmdir()
    assert heard > most // 2


def test_a_folder_is_removed_whole_though_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    def work() -> None:
        folder.mkdir(exist_ok=True)
        (folder / "file").touch()
        remove_folder(folder)

    interrupter = Interrupter()
    for moment in range(1, interrupter.moments(work) + 1):
        interrupter.run(work, moment)
        work()
        assert not folder.exists()
    remove_folder(folder)
