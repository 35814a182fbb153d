"""The examples run to their asserts."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

HUGGING = "torch transformers"
EXAMPLES = {
    "yolov3": (64, "kernels", "torch"), "lstm": (20, "kernels", "torch"), "bert": (2, "kernels", HUGGING),
    "training_step": (50, "kernels", "torch"), "gpt2": (2, "are the same by relation 'alpha'", HUGGING),
    "resnet": (32, "stays with the library", HUGGING), "vit": (1, "bytes are moved by ops that only regroup", HUGGING),
    "unet": (32, "live at once in this order", "torch"), "gru": (20, "lies between them", "torch"),
    "jax_function": (None, "StableHLO", "jax"), "mlir_module": (None, "StableHLO", "jax"), "momentum": (70, "largest", ""),
    "softmax": (70, "largest", ""), "quiz_for_a_class": (2, "points", ""), "lecture": (None, "5. Why two?", ""),
}  # fmt: skip
"""What `main` is given, some of what it prints, and the packages that it needs."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_to_its_asserts(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    size, says, needs = EXAMPLES[name]
    for package in needs.split():
        pytest.importorskip(package)
    importlib.import_module(name).main(*() if size is None else (size,))
    assert says in capsys.readouterr().out


@pytest.mark.long
def test_the_gru_of_1500_steps(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    importlib.import_module("gru").main()
    said = capsys.readouterr().out
    print(said)
    assert said.startswith("1,500 steps are ") and "\n1,500 groups" in said


def test_the_table_of_examples_has_each_of_them():
    folder = Path(__file__).parents[1] / "examples"
    told = (folder / "README.md").read_text(encoding="utf-8")
    files = sorted(folder.glob("*.py"))
    assert [path.name for path in files] == sorted(re.findall(r"\]\((\w+\.py)\)", told))
    long = [path.name for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 80]
    assert not long


def test_the_stories_that_come_with_the_project(tmp_path: Path, capsys: pytest.CaptureFixture[str], unless_browsed: Callable[[str], None]):
    unless_browsed("test_the_stories_of_the_project_play")
    pytest.importorskip("transformers")
    importlib.import_module("stories").main(str(tmp_path))
    assert {path.stem for path in tmp_path.glob("*.html")} == {"decoder", "blocks", "steps"}
    assert "gone" not in capsys.readouterr().out
