"""The examples run to their asserts."""

from __future__ import annotations

import importlib

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
