"""Every value of real models lies where an eager run puts it: same storage as its root, and no other's; the bytes that are stated."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.ir import Graph, Value  # noqa: E402
from tests.analysis.alias.eager import _Run  # noqa: E402
from tests.random_programs.view_chains import addresses  # noqa: E402

pytestmark = pytest.mark.torch


class _Storages(_Run):
    """Runs a graph and keeps every tensor that a name had."""

    def __init__(self) -> None:
        super().__init__(None)
        self.had: dict[Value, list[Any]] = {}

    def bind(self, value: Value, thing: Any) -> None:
        super().bind(value, thing)
        if isinstance(thing, torch.Tensor):
            self.had.setdefault(value, []).append(thing)


def bert() -> tuple[Any, tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    return _first_result(BertModel(config)), (torch.randint(0, 50, (2, 8)),)


def gpt2() -> tuple[Any, tuple[Any, ...]]:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False)
    return _first_result(GPT2Model(config)), (torch.randint(0, 50, (1, 8)),)


def vit() -> tuple[Any, tuple[Any, ...]]:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 16}
    return _first_result(ViTModel(ViTConfig(patch_size=8, **sizes))), (torch.randn(1, 3, 16, 16),)


def _first_result(model: Any) -> Any:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, given: Any) -> Any:
            return self.model(given, return_dict=False)[0]

    return Plain().eval()


def resnet_channels_last() -> tuple[Any, tuple[Any, ...]]:
    class Block(torch.nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.a = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm = torch.nn.BatchNorm2d(channels)
            self.b = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            return torch.relu_(self.b(torch.relu_(self.norm(self.a(x)))).add_(x))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = torch.nn.Conv2d(3, 8, 7, stride=2, padding=3)
            self.blocks = torch.nn.Sequential(Block(8), Block(8))
            self.head = torch.nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            x = self.blocks(torch.nn.functional.max_pool2d(self.stem(x), 2))
            return self.head(torch.flatten(torch.nn.functional.adaptive_avg_pool2d(x, 1), 1)), x.permute(0, 2, 3, 1).reshape(-1, 8)

    images = torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)
    return Net().eval().to(memory_format=torch.channels_last), (images,)


def unet() -> tuple[Any, tuple[Any, ...]]:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.deep = torch.nn.Conv2d(8, 8, 3, padding=1)
            self.up = torch.nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.out = torch.nn.Conv2d(16, 1, 1)

        def forward(self, x: Any) -> Any:
            skip = torch.relu(self.down(x))
            deep = torch.relu(self.deep(torch.nn.functional.max_pool2d(skip, 2)))
            return self.out(torch.cat([skip, self.up(deep)], 1))

    return Net().eval(), (torch.randn(1, 3, 16, 16),)


def yolov3_decoder() -> tuple[Any, tuple[Any, ...]]:
    """What the detector makes of the feature maps of its three scales, written in place into slices."""

    class Decoder(torch.nn.Module):
        def forward(self, *maps: Any) -> Any:
            found = []
            for features in maps:
                batch, _, height, width = features.shape
                boxes = features.view(batch, 3, 85, height, width).permute(0, 1, 3, 4, 2).contiguous()
                boxes[..., 0:2] = torch.sigmoid(boxes[..., 0:2]) * 8
                boxes[..., 2:4] = torch.exp(boxes[..., 2:4])
                boxes[..., 4:] = torch.sigmoid(boxes[..., 4:])
                found.append(boxes.view(batch, -1, 85))
            return torch.cat(found, 1)

    return Decoder(), tuple(torch.randn(1, 255, n, n) for n in (2, 4, 8))


def compared(model: Any, arguments: tuple[Any, ...]) -> tuple[Graph, int, int]:
    """The graph, how many tensors were compared, and how many lie in views whose bytes are known."""
    graph = irs.load(model, *arguments)
    va = irs.ViewAliases(graph)
    run = _Storages()
    given = iter(arguments)
    with torch.no_grad():
        run.block(graph.body, [graph.bound[v] if v in graph.bound else next(given) for v in graph.inputs], {})
    count = known = 0
    for value, tensors in run.had.items():
        if value not in va._placements.of or not va.is_decided(value):
            continue
        root = va.root(value)
        assert root is not None
        (tensor,), (whole,) = tensors, run.had[root]
        same = tensor.untyped_storage()._cdata == whole.untyped_storage()._cdata
        assert same == (va.kind(value) == "view" or root is value)
        count += 1
        covered = va.bytes(value)
        if va.kind(value) == "view" and covered is not None and tensor.numel() < 5000:
            known += 1
            assert frozenset(b for r in covered.runs() for b in range(*r)) == addresses(tensor, whole), graph.names[value]
        if va.kind(value) == "copy":
            others = [t for v, ts in run.had.items() for t in ts if va.root(v) is not value]
            assert not any(t.untyped_storage()._cdata == tensor.untyped_storage()._cdata for t in others), graph.names[value]
    return graph, count, known


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [*(pytest.param(model, marks=pytest.mark.long) for model in (bert, gpt2, vit)), resnet_channels_last, unet, yolov3_decoder],
    ids=lambda model: model.__name__,
)
def test_a_model_lies_as_in_an_eager_run(model: Any) -> None:
    graph, count, known = compared(*model())
    tensors = sum(type(v.type).__name__ == "TensorType" for v in graph.values())
    print(f"{model.__name__}: {count} of {tensors} tensors decided, bytes of {known} views")
    assert count > 0.95 * tensors
