"""Real models with random weights, scripted or traced, as inlined TorchScript graphs: what alias databases are compared on.

Some have loops and lists (scripted recurrent networks), some write in place (a detector's decoder, residual networks),
some are long and straight (traced transformers).
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from tests.benchmarks import models


def yolov3() -> Any:
    return torch.jit.script(models.yolov3()[0]).inlined_graph


def bert() -> Any:
    return _traced(*models.bert(3, 32, (2, 8)))


def gpt2() -> Any:
    return _traced(*models.gpt2(3, 16, (1, 8), 50, 16))


def lstm() -> Any:
    """The loop over time is a loop, and states travel in a tuple and outputs in a list."""

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(4, 8)

        def forward(self, steps: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
            state = (torch.zeros(steps.size(1), 8), torch.zeros(steps.size(1), 8))
            seen = []
            for step in steps.unbind(0):
                state = self.cell(step, state)
                seen += [state[0]]
            return torch.stack(seen), state

    return torch.jit.script(Sequence().eval()).inlined_graph


def gru() -> Any:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.GRU(4, 8, num_layers=2, batch_first=True, dropout=0.5)

        def forward(self, x: torch.Tensor, start: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
            return self.inner(x, start)

    return torch.jit.script(Layers().eval()).inlined_graph


def resnet() -> Any:
    class Residual(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None if stride == 1 and before == after else nn.Conv2d(before, after, 1, stride)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
            y += x if self.shortcut is None else self.shortcut(x)
            return self.relu(y)

    layers = [Residual(before, after, 1 + (before != after)) for before, after in [(8, 8), (8, 16), (16, 16), (16, 32)]]
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(32, 10)]
    return torch.jit.script(nn.Sequential(*stem, *layers, *head)).inlined_graph  # training: statistics are written


def unet() -> Any:
    def double(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, 1, 1), nn.ReLU(True), nn.Conv2d(after, after, 3, 1, 1), nn.ReLU(True))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([double(3, 8), double(8, 16)])
            self.middle, self.pool = double(16, 32), nn.MaxPool2d(2)
            self.widen = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
            self.up = nn.ModuleList([double(32, 16), double(16, 8)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            skipped: list[torch.Tensor] = []
            for part in self.down:
                x = part(x)
                skipped.append(x)
                x = self.pool(x)
            x = self.middle(x)
            for widen, part in zip(self.widen, self.up):  # noqa: B905
                x = part(torch.cat([widen(x), skipped.pop()], 1))
            return x

    return torch.jit.script(UNet().eval()).inlined_graph


def encoder_layers() -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return _traced(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), (torch.rand(2, 5, 16),), train=True)


def greedy_decoder() -> Any:
    """Writes into a buffer in a loop that may stop early."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.cell, self.out = nn.Embedding(20, 8), nn.GRUCell(8, 8), nn.Linear(8, 20)

        def forward(self, first: torch.Tensor, state: torch.Tensor, limit: int) -> torch.Tensor:
            tokens = torch.zeros(first.size(0), limit, dtype=torch.int64)
            token = first
            for i in range(limit):
                state = self.cell(self.embed(token), state)
                token = self.out(state).argmax(1)
                tokens[:, i] = token
                if bool((token == 0).all()):
                    break
            return tokens

    return torch.jit.script(Decoder().eval()).inlined_graph


MODELS: Final[Mapping[str, Callable[[], Any]]] = {
    builder.__name__: builder for builder in (yolov3, bert, gpt2, lstm, gru, resnet, unet, encoder_layers, greedy_decoder)
}


def _traced(model: nn.Module, arguments: tuple[torch.Tensor, ...], *, train: bool = False) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a trace keeps one path is what is wanted here
        return torch.jit.trace(model.train(train), arguments, check_trace=False).inlined_graph
