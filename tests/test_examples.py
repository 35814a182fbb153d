"""The examples run to their asserts."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.torch
@pytest.mark.parametrize(("name", "size"), [("yolov3", 64), ("lstm", 100), ("bert", 2), ("training_step", 50)])
def test_an_example_with_a_model(name: str, size: int, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    if name == "bert":
        pytest.importorskip("transformers")
    importlib.import_module(name).main(size)
    assert "kernels" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["jax_function", "mlir_module"])
def test_an_example_of_other_compilers(name: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("jax")
    importlib.import_module(name).main()
    assert "StableHLO" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["momentum", "softmax"])
def test_an_example_in_numpy(name: str, capsys: pytest.CaptureFixture[str]):
    importlib.import_module(name).main(70)
    assert "largest" in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("gpt2", 2, "are the same by relation 'alpha'"),
        ("resnet", 32, "stays with the library"),
        ("vit", 1, "bytes are moved by ops that only regroup"),
        ("unet", 32, "live at once in this order"),
        ("gru", 20, "would create a cycle"),
    ],
)
def test_an_example_that_looks_at_a_model(name: str, size: int, says: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("transformers" if name in ("gpt2", "resnet", "vit") else "torch")
    importlib.import_module(name).main(size)
    assert says in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.torch
def test_the_gru_of_1500_steps(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    importlib.import_module("gru").main()
    said = capsys.readouterr().out
    print(said)
    assert said.startswith("1,500 steps are ") and "\n1,500 groups" in said


def test_the_example_for_a_class(capsys: pytest.CaptureFixture[str]):
    importlib.import_module("quiz_for_a_class").main(2)
    assert "points" in capsys.readouterr().out


def test_the_table_of_examples_has_each_of_them():
    folder = Path(__file__).parents[1] / "examples"
    told = (folder / "README.md").read_text(encoding="utf-8")
    files = sorted(folder.glob("*.py"))
    assert [path.name for path in files] == sorted(re.findall(r"\]\((\w+\.py)\)", told))
    long = [path.name for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 80]
    assert not long


@pytest.mark.torch
def test_the_stories_that_come_with_the_project(tmp_path: Path, capsys: pytest.CaptureFixture[str], unless_browsed: Callable[[str], None]):
    unless_browsed("test_the_stories_of_the_project_play")
    pytest.importorskip("transformers")
    importlib.import_module("stories").main(str(tmp_path))
    assert {path.stem for path in tmp_path.glob("*.html")} == {"decoder", "blocks", "steps"}
    assert "gone" not in capsys.readouterr().out
