"""Files that others made, and files that are written: what goes wrong is said, and destroys nothing."""

import errno
import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope import files
from irscope.cli import main
from irscope.errors import ArgumentError, IrscopeError, LoadError
from irscope.files import read_file, read_json, write_file

GRAPH = irs.parse("graph(%x : Float(4)):\n  %a : Float(4) = aten::relu(%x)\n  %b : Float(4) = aten::tanh(%a)\n  return (%b)")


def written_by(folder: Path) -> dict[str, Callable[[Path], object]]:
    """Everything that writes a file that a user names, by the file's name."""
    story = irs.story(irs.fuse(GRAPH))
    story.add("It begins with %x.", selection="x")
    (folder / "in.ir").write_text(str(GRAPH))
    return {
        "s.json": story.save, "s.html": story.save, "s.ipynb": story.save,
        "r.html": lambda path: irs.write_report(GRAPH, output=path),
        "g.svg": GRAPH.to_svg,
        "g.png": GRAPH.to_png,
        "o.ir": lambda path: _run("opt", str(folder / "in.ir"), "-p", "cse", "-o", str(path)),
    }  # fmt: skip


def _run(*command: str) -> None:
    with redirect_stderr(io.StringIO()) as said:
        if main(command):
            raise ArgumentError(said.getvalue())


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """In a process whose files may have 64 bytes, which fails as a full disk does: in the middle."""
    resource = pytest.importorskip("resource")
    pytest.importorskip("resvg_py")
    writers, old = written_by(tmp_path), b"old " * 1000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, write in writers.items():
        path = tmp_path / name
        path.write_bytes(old)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
        try:
            with pytest.raises(ArgumentError, match="cannot be written: File too large"):
                write(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.read_bytes() == old, name
        write(path)
        assert path.read_bytes() != old, name
    assert {path.name for path in tmp_path.iterdir()} == {*writers, "in.ir"}, "nothing is left beside them"


def test_what_utf8_cannot_express_is_escaped(tmp_path: Path) -> None:
    story = irs.story(irs.fuse(GRAPH))
    story.add("half \ud800 of a pair", selection="a")
    for name in ("s.html", "s.ipynb", "s.json"):
        assert "ud800 of a pair" in story.save(tmp_path / name).read_text(encoding="utf-8")
    assert irs.story.read(tmp_path / "s.json", GRAPH).steps == story.steps


def test_what_is_replaced_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    assert write_file(link, "new") == link
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode), link.is_symlink()) == ("new", 0o640, True)
    assert write_file(os.devnull, "gone") == Path(os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode), "a device is written, not replaced"


def test_a_file_in_a_folder_that_takes_no_others_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, own = tmp_path / "a", Path.write_bytes

    def write(self: Path, data: bytes) -> int:
        if self.name.startswith(".irscope-"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return own(self, data)

    monkeypatch.setattr(Path, "write_bytes", write)
    assert write_file(path, "new").read_text() == "new"


@pytest.mark.parametrize("name", ["no/folder/x.svg", "\0.svg", "\ud800.svg", "a" * 300, "."])
def test_where_nothing_can_be_written_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be written: "):
        GRAPH.to_svg(f"{tmp_path}/{name}")


def readers() -> dict[str, Callable[[Path], object]]:
    """Everything that reads a file that a user names."""
    return {
        "story": lambda path: irs.story.read(path, GRAPH),
        "quiz": irs.quiz.score,
        "text": irs.load,
        "json": lambda path: read_json(path, hint="give another", kind="a thing"),
    }


@pytest.mark.parametrize("reader", readers())
def test_a_file_that_cannot_be_read_is_said(reader: str, tmp_path: Path) -> None:
    read = readers()[reader]
    (tmp_path / "deep.txt").write_text("[" * 100_000)
    (tmp_path / "digits.txt").write_text("9" * 5000)
    (tmp_path / "list.txt").write_text("[]")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "null.txt").write_bytes(b"\0")
    os.mkfifo(tmp_path / "pipe.txt")
    for name in ("deep.txt", "digits.txt", "bytes.txt", "null.txt", "pipe.txt", "gone.txt", ".", "a\0b.txt", "\ud800.txt"):
        with pytest.raises(LoadError if reader != "text" else IrscopeError):
            read(tmp_path / name)
    if reader not in ("text", "json"):
        with pytest.raises(LoadError, match="is not a"):
            read(tmp_path / "list.txt")


@pytest.mark.parametrize("changed", [{"answers": 3}, {"points": []}, {"title": None}, {"seed": {}}, {"questions": "1"}, {}], ids=str)
def test_a_notebook_with_a_damaged_answer_is_not_one(changed: dict[str, Any], tmp_path: Path) -> None:
    q = irs.quiz.views(seed=3, count=1)
    q.answer(*q.questions[0].answer)
    (mime,) = (key for key in q.kept() if key != "text/plain")
    path = tmp_path / "quiz.ipynb"
    record = {**q.record(), **changed} if changed else {}
    path.write_text(json.dumps({"cells": [{"outputs": [{"data": {mime: record}}]}]}))
    with pytest.raises(LoadError, match="is not a notebook with answers"):
        irs.quiz.score(path)


def test_a_story_of_nodes_with_absurd_numbers_is_checked() -> None:
    for name in (f"aten::relu#{'9' * 5000}", "aten::relu#²"):
        text = json.dumps({"irscope story": 1, "title": "t", "program": "p", "steps": [{"text": "t", "selection": [name]}]})
        story = irs.story(irs.fuse(GRAPH)).load(text)
        assert story.check() and story.view()
        with pytest.raises(irs.errors.UnknownName, match="has no node"):
            GRAPH.node(name)


def test_a_file_too_large_for_the_memory_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("text")

    def full(data: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(files.io, "BytesIO", full)
    with pytest.raises(LoadError, match="not enough memory for its bytes"):
        read_file(tmp_path / "a")


def test_two_reports_of_one_program_are_the_same_bytes(tmp_path: Path) -> None:
    """In processes of their own, as caches and version control meet them."""
    (tmp_path / "in.ir").write_text(str(GRAPH))
    pages = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "irscope", "report", str(tmp_path / "in.ir"), "-o", str(tmp_path / "out.html")]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        pages.append((tmp_path / "out.html").read_bytes())
    assert pages[0] == pages[1]
