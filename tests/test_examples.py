"""The examples run to their asserts."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("name", "size"), [("yolov3", 64), ("lstm", 100), ("bert", 2)])
def test_an_example(name: str, size: int, capsys: pytest.CaptureFixture[str]):
    if name == "bert":
        pytest.importorskip("transformers")
    importlib.import_module(name).main(size)
    assert "kernels" in capsys.readouterr().out
