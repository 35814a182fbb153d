"""Whole models as `torch.onnx` writes them, against onnxruntime: every op aten, the same numbers."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.benchmarks import models  # noqa: E402


class Lstm(torch.nn.Module):
    """Two layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.lstm = torch.nn.LSTM(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(48, 5)

    def forward(self, x: Any) -> Any:
        y, (h, _) = self.lstm(self.words(x))
        return self.head(y), h


MODELS: dict[str, Any] = {
    "resnet": lambda: models.resnet((8, 16), (1, 1), size=32), "unet": lambda: models.unet(8, 16),
    "lstm": lambda: (Lstm(), (torch.randint(0, 50, (3, 7)),)), "bert": lambda: models.bert(2, 32, (2, 9)),
    "vit": lambda: models.vit(2, 32, size=32),
}  # fmt: skip


def exported(name: str, path: Path, *, by_export: bool, any_batch: bool) -> list[Any]:
    """Writes a model with random weights; gives its example arguments."""
    torch.manual_seed(0)
    model, args = MODELS[name]()
    names = [f"x{index}" for index in range(len(args))]
    options: dict[str, Any] = {"dynamo": True, "verbose": False} if by_export else {"dynamo": False}
    if any_batch and not by_export:
        options |= {"input_names": names, "dynamic_axes": {key: {0: "batch"} for key in names}}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if by_export:
            pytest.importorskip("onnxscript")
        torch.onnx.export(model.eval(), args, str(path), **options)
    return [arg.numpy() for arg in args]


def check(path: Path, args: list[Any]) -> None:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {info.name: arg for info, arg in zip(session.get_inputs(), args, strict=True)}
    wanted = session.run(None, feeds)
    graph = irs.load(path)
    assert not [node.op for node in graph.nodes() if node.op.startswith("onnx::")]
    for program in (irs.fuse(graph), irs.fuse(irs.load(path, *args)), graph):
        found = irs.compile(program, device="reference" if program is graph else "cpu")(*args)
        for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet", "lstm"])
def test_a_model_of_any_batch_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    args = exported(name, path, by_export=False, any_batch=True)
    assert "batch" in str(irs.load(path).free_inputs[0].type)
    check(path, args)


@pytest.mark.long
@pytest.mark.parametrize("by_export", [False, True])
@pytest.mark.parametrize("any_batch", [False, True])
@pytest.mark.parametrize("name", list(MODELS))
def test_five_models_equal_onnxruntime(name: str, any_batch: bool, by_export: bool, tmp_path: Path) -> None:
    if by_export and any_batch:
        pytest.skip("a batch of any size is told to the other exporter")
    path = tmp_path / "model.onnx"
    check(path, exported(name, path, by_export=by_export, any_batch=any_batch))
