"""Every value of real models lies where an eager run puts it: same storage as its root, and no other's; the bytes that are stated."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.ir import Graph, TensorType  # noqa: E402
from tests.analysis.alias.eager import run  # noqa: E402
from tests.benchmarks import models  # noqa: E402
from tests.random_programs.view_chains import addresses  # noqa: E402


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
    given = iter(arguments)
    had: dict[Any, list[Any]] = {}
    for value, thing in run(graph, [graph.bound[v] if v in graph.bound else next(given) for v in graph.inputs]).bound:
        if isinstance(thing, torch.Tensor):
            had.setdefault(value, []).append(thing)
    count = known = 0
    for value, tensors in had.items():
        if value not in va._placements.of or not va.is_decided(value):
            continue
        root = va.root(value)
        assert root is not None
        (tensor,), (whole,) = tensors, had[root]
        same = tensor.untyped_storage()._cdata == whole.untyped_storage()._cdata
        assert same == (va.kind(value) == "view" or root is value)
        count += 1
        covered = va.bytes(value)
        if va.kind(value) == "view" and covered is not None and tensor.numel() < 5000:
            known += 1
            assert frozenset(b for r in covered.runs() for b in range(*r)) == addresses(tensor, whole), graph.names[value]
        if va.kind(value) == "copy":
            others = [t for v, ts in had.items() for t in ts if va.root(v) is not value]
            assert not any(t.untyped_storage()._cdata == tensor.untyped_storage()._cdata for t in others), graph.names[value]
    return graph, count, known


MODELS = {
    "bert": lambda: models.bert(2, 32, (2, 8)), "gpt2": lambda: models.gpt2(2, 16, (1, 8), 50, 16, use_cache=False),
    "vit": lambda: models.vit(2, 32, size=16, batch=1), "unet": lambda: models.unet(8, 16),
    "resnet in channels-last": resnet_channels_last, "decoder of yolov3": yolov3_decoder,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in ("bert", "gpt2", "vit"))) for name in MODELS])
def test_a_model_lies_as_in_an_eager_run(name: str) -> None:
    model, arguments = MODELS[name]()
    graph, count, known = compared(model.eval(), arguments)
    tensors = sum(isinstance(value.type, TensorType) for value in graph.values())
    print(f"{name}: {count} of {tensors} tensors decided, bytes of {known} views")
    assert count > 0.95 * tensors
