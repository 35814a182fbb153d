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


class ResNet(torch.nn.Module):
    """A stem and two residual blocks, one with a stride, normalised by batch."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.same = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1))
        self.wide = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1))
        self.short, self.head = nn.Conv2d(8, 16, 1, 2), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = torch.relu(x + self.same(x))
        x = torch.relu(self.short(x) + self.wide(x))
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class UNet(torch.nn.Module):
    """Two steps down and two up, one by a transposed convolution and one by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.a, self.b, self.c = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.d, self.e, self.out = nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        f = torch.nn.functional
        a = torch.relu(self.a(x))
        b = torch.relu(self.b(f.max_pool2d(a, 2)))
        c = torch.relu(self.c(f.max_pool2d(b, 2)))
        d = torch.relu(self.d(torch.cat([self.up(c), b], 1)))
        d = f.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.out(torch.relu(self.e(torch.cat([d, a], 1))))


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


def bert() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=100, max_position_embeddings=64, **sizes)
    return Hidden(transformers.BertModel(config), "input_ids", "attention_mask")


def vit() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return Hidden(transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes)), "pixel_values")


class Hidden(torch.nn.Module):
    """The last hidden state of a model of transformers'."""

    def __init__(self, model: Any, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args: Any) -> Any:
        return self.model(**dict(zip(self.names, args, strict=True))).last_hidden_state


MODELS: dict[str, Any] = {
    "resnet": (ResNet, lambda: (torch.randn(2, 3, 32, 32),)),
    "unet": (UNet, lambda: (torch.randn(2, 1, 16, 16),)),
    "lstm": (Lstm, lambda: (torch.randint(0, 50, (3, 7)),)),
    "bert": (bert, lambda: (torch.randint(0, 100, (2, 9)), torch.ones(2, 9, dtype=torch.long))),
    "vit": (vit, lambda: (torch.randn(2, 3, 32, 32),)),
}


def exported(name: str, path: Path, *, by_export: bool, any_batch: bool) -> list[Any]:
    """Writes a model with random weights; gives its example arguments."""
    torch.manual_seed(0)
    make, arguments = MODELS[name]
    args = arguments()
    names = [f"x{index}" for index in range(len(args))]
    options: dict[str, Any] = {"dynamo": True, "verbose": False} if by_export else {"dynamo": False}
    if any_batch and not by_export:
        options |= {"input_names": names, "dynamic_axes": {key: {0: "batch"} for key in names}}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if by_export:
            pytest.importorskip("onnxscript")
        torch.onnx.export(make().eval(), args, str(path), **options)
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
