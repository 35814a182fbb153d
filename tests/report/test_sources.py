"""Whose source lines a page shows: code that this process runs, and a folder that the caller names; no file that a text names."""

import linecache
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope import cli
from irscope._base.loaded_code import lines_below, loaded_lines
from irscope.report.pages.exploration import Exploration
from irscope.report.pages.parts import explorer_view

TEXT = """graph(%x : Float(4, strides=[1])):
  %y : Float(4, strides=[1]) = aten::relu(%x) # PLACE:1:0
  %z : Float(4, strides=[1]) = aten::tanh(%y) # PLACE:2:0
  return (%z)"""
posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")


def sources(program: Any, *arguments: Any, folder: Path | None = None) -> dict[str, list[str]]:
    graph = program if isinstance(program, irs.Graph) else irs.load(program, *arguments)
    return explorer_view(Exploration(irs.fuse(graph), sources=folder))["source"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "outside" / "secret.py"
    path.parent.mkdir()
    path.write_text("token = 'hunter2'\n")
    return path


def test_a_place_in_a_text_is_not_opened(secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(secret.parent)
    for name in (str(secret), secret.name, f"./{secret.name}", "/etc/passwd", __file__, os.__file__):
        text = TEXT.replace("PLACE", name)
        assert sources(text) == {} and sources(irs.parse(str(irs.parse(text)))) == {}
    (tmp_path / "p.ir").write_text(TEXT.replace("PLACE", str(secret)))
    assert cli.main(["report", str(tmp_path / "p.ir"), "-o", str(tmp_path / "r.html")]) == 0
    assert "hunter2" not in (tmp_path / "r.html").read_text()


def test_the_lines_of_a_file_that_was_printed_and_read_again_are_not_shown() -> None:
    live = irs.load(doubled, np.zeros(3, np.float32))
    assert __file__ in sources(live)
    assert sources(str(live)) == {}


def doubled(x: Any) -> Any:
    return np.tanh(x * 2)


def test_what_python_knows_is_shown_also_from_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "    return np.tanh(x * 2)" in sources(doubled, np.zeros(3, np.float32))[__file__]
    cell = "def f(x):\n    return np.tanh(x * 3)\n"
    scope: dict[str, Any] = {"np": np}
    exec(compile(cell, "<cell 7>", "exec"), scope)
    linecache.cache["<cell 7>"] = (len(cell), None, cell.splitlines(True), "<cell 7>")
    assert sources(scope["f"], np.zeros(3, np.float32)) == {"<cell 7>": cell.splitlines()}
    del linecache.cache["<cell 7>"]


def test_programs_of_torch(tmp_path: Path, secret: Path, torch: Any) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x * 2)

    Net.__module__ = __name__
    x = torch.rand(3)
    traced = torch.jit.trace(Net(), x)
    exported = torch.export.export(Net(), (x,))
    for live in (irs.load(Net(), x), irs.load(exported), irs.load(traced)):
        assert __file__ in sources(live)
    traced.save(str(tmp_path / "m.pt"))
    torch.export.save(exported, tmp_path / "m.pt2")
    for told in (tmp_path / "m.pt", tmp_path / "m.pt2", torch.jit.load(tmp_path / "m.pt")):
        graph = irs.load(told)
        assert any(node.location and node.location.file == __file__ for node in graph.nodes()), "the place is known"
        assert sources(graph) == {}


def test_the_folder_that_the_caller_names(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "net.py").write_text("one\ntwo\n")
    for name in ("deep/net.py", str(folder / "deep" / "net.py"), "deep/../deep/./net.py"):
        assert sources(TEXT.replace("PLACE", name), folder=folder) == {name: ["one", "two"]}
    (folder / "link.py").symlink_to(secret)
    (folder / "door").symlink_to(secret.parent)
    (tmp_path / "project2").mkdir()
    (tmp_path / "project2" / "x.py").write_text("no\n")
    outside = ("link.py", "door/secret.py", "../outside/secret.py", str(secret), "../project2/x.py", "/etc/passwd", "deep", ".")
    for name in outside:
        assert sources(TEXT.replace("PLACE", name), folder=folder) == {}, name
    (tmp_path / "p.ir").write_text(TEXT.replace("PLACE", "deep/net.py"))
    page = tmp_path / "r.html"
    assert cli.main(["report", str(tmp_path / "p.ir"), "-o", str(page), "--sources", str(folder)]) == 0
    assert '"deep/net.py":["one","two"]' in page.read_text()


@posix
def test_files_without_an_end_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zeros.py").symlink_to("/dev/zero")
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(1 << 36)
    (tmp_path / "binary.py").write_bytes(b"a\0b\n")
    for name in ("pipe.py", "zeros.py", "huge.py", "binary.py", "nul\0.py", "/dev/zero"):
        assert lines_below(tmp_path, name) == []
        assert loaded_lines(str(tmp_path / name)) == []


def test_a_cell_has_the_number_that_its_reader_sees() -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell.instance()
    try:
        done = shell.run_cell("def of_a_cell(x):\n    return abs(x) + x\n", store_history=True)
        made = irs.trace(shell.user_ns["of_a_cell"], (4,))
        number = done.execution_count
    finally:
        shell.clear_instance()
    place = next(node.location for node in made.nodes() if node.location is not None)
    assert (place.file, place.short) == (f"In[{number}]", f"In[{number}]:2")
    assert sources(made)[place.file] == ["def of_a_cell(x):", "    return abs(x) + x"]
    assert irs.parse(str(made)).node(made.names[made.outputs[0]]).location == place
