"""Architectures of transformers with random weights, and other models in few lines, that were not written for irscope.

The judges are those of `test_inductor_wide.py`: what Inductor itself writes down of its kernels, and eager torch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compilers.test_inductor_wide import check

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

pytestmark = pytest.mark.long


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 1, 1)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.down(x))
        z = F.relu(self.deep(y))
        z = F.interpolate(F.avg_pool2d(z, 2), scale_factor=2, mode="bilinear") + z
        return torch.sigmoid(self.last(torch.cat([self.up(z), y], 1)))


class Graphs(nn.Module):
    """Two rounds of messages along edges."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.Linear(16, 8)

    def forward(self, x: Any, edges: Any) -> Any:
        for _ in range(2):
            sent = F.relu(self.message(x))[edges[0]]
            got = torch.zeros_like(x).index_add(0, edges[1], sent)
            x = F.layer_norm(self.update(torch.cat([x, got], -1)), (8,))
        return x.mean(0)


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.words, self.top = nn.EmbeddingBag(50, 16), nn.Embedding(50, 16), nn.Linear(32, 4)

    def forward(self, ids: Any) -> Any:
        return F.log_softmax(self.top(torch.cat([self.bag(ids), self.words(ids).amax(1)], -1)), -1)


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside, self.outside = nn.Linear(20, 8), nn.Linear(4, 20)

    def forward(self, x: Any, noise: Any) -> Any:
        mean, log = self.inside(x).chunk(2, -1)
        made = torch.sigmoid(self.outside(mean + noise * torch.exp(log / 2)))
        return made, F.binary_cross_entropy(made, torch.sigmoid(x)) - 0.5 * (1 + log - mean.pow(2) - log.exp()).sum(-1).mean()


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(8, 16), nn.Linear(16, 3)

    def forward(self, xs: Any) -> Any:
        h = c = xs.new_zeros(xs.shape[1], 16)
        for x in xs:
            h, c = self.cell(x, (h, c))
        return self.head(h).softmax(-1)


def _made(name: str, **sizes: Any) -> Callable[[], Any]:
    """A model of transformers, as a function that returns its first result."""

    def make() -> Any:
        transformers = pytest.importorskip("transformers")
        config, model = (getattr(transformers, f"{name}{end}") for end in ("Config", "Model"))
        return model(config(**sizes)).eval()

    return make


def ids(*shape: int) -> Any:
    return torch.randint(60, shape)


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
IMAGE = {**SMALL, "image_size": 32, "patch_size": 8}
OTHERS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]], Callable[..., Any] | None]] = {
    "distilbert": (
        _made("DistilBert", vocab_size=60, dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=16), lambda: (ids(2, 9),),
        lambda m, a: m(a).last_hidden_state,
    ),
    "vit-mae": (
        _made("ViTMAE", **IMAGE, mask_ratio=0.0), lambda: (torch.randn(1, 3, 32, 32), torch.rand(1, 16)),
        lambda m, a, b: m(a, noise=b).last_hidden_state,
    ),
    "unet": (UNet, lambda: (torch.randn(1, 3, 16, 16),), None),
    "graphs": (Graphs, lambda: (torch.randn(10, 8), torch.randint(10, (2, 24))), None),
    "bag": (Bag, lambda: (ids(3, 7) % 50,), None),
    "vae": (Vae, lambda: (torch.randn(6, 20), torch.randn(6, 4)), None),
    "lstm": (Lstm, lambda: (torch.randn(4, 3, 8),), None),
}  # fmt: skip


class Called(nn.Module):
    """A model, called as a function says."""

    def __init__(self, model: Any, call: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *args: Any) -> Any:
        return self.call(self.model, *args)


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_are_those_that_torch_writes_down(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, examples, call = OTHERS[name]
    model = make() if call is None else Called(make(), call)
    check(model.eval() if isinstance(model, nn.Module) else model, [*examples()], tmp_path)
