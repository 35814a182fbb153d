"""Eight models with random weights, and arguments for them: what plans of fusion are compared on.

Small in width, so that they load in seconds; a plan does not depend on widths, except where an extent is one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

__all__ = ["MODELS", "Model"]

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


def yolov3() -> Model:
    from yolov3 import yolov3 as model

    return model(width=8, classes=4), (torch.rand(1, 3, 96, 96),)


def lstm() -> Model:
    from lstm import lstm as model

    return model(inputs=16, hidden=32), (torch.randn(20, 8, 16),)


class GRU(nn.Module):
    """A gated recurrent cell, unrolled by the loop in Python."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.of_input, self.of_state = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        h = sequence.new_zeros(sequence.shape[1], self.hidden)
        seen = []
        for x in sequence.unbind(0):
            reset_x, update_x, new_x = self.of_input(x).chunk(3, 1)
            reset_h, update_h, new_h = self.of_state(h).chunk(3, 1)
            reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
            new = torch.tanh(new_x + reset * new_h)
            h = new + update * (h - new)
            seen.append(h)
        return torch.stack(seen)


def gru() -> Model:
    return GRU(16, 32), (torch.randn(20, 8, 16),)


def bert() -> Model:
    from bert import bert as model
    from bert import tokens

    return model(layers=3, hidden=64, attention="sdpa"), (tokens(2, 16) % 100,)


class FirstResult(nn.Module):
    """A model of transformers with plain arguments and one plain result."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x, return_dict=False, **self.options)[0]


def gpt2() -> Model:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=100, n_positions=32, n_embd=64, n_layer=3, n_head=4
    )  # fmt: skip
    return FirstResult(GPT2Model(config), use_cache=False), (torch.randint(0, 100, (2, 16)),)


def resnet() -> Model:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64], depths=[2, 2, 2])
    return FirstResult(ResNetModel(config)), (torch.rand(2, 3, 64, 64),)


def vit() -> Model:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, image_size=32,
        patch_size=8,
    )  # fmt: skip
    return FirstResult(ViTModel(config, add_pooling_layer=False)), (torch.rand(2, 3, 32, 32),)


class Block(nn.Module):
    """A residual block of a diffusion model: two normalised convolutions, and the time step added in between."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, 1, 1)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, 1, 1)
        self.time = nn.Linear(time, after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(h)))


class Attention(nn.Module):
    """Attention between the pixels, as diffusion models have it at low resolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(4, width),
            nn.Conv1d(width, 3 * width, 1),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, high, wide = x.shape
        q, k, v = self.qkv(self.norm(x).reshape(batch, width, high * wide)).chunk(3, 1)
        weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(width), -1)
        return x + self.out(v @ weights.transpose(1, 2)).reshape(batch, width, high, wide)


class UNet(nn.Module):
    """The network of a diffusion model: sinusoidal time steps, down, middle with attention, up with joined skips."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        wide, time = 2 * width, 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, width, 3, 1, 1)
        self.down1, self.half1 = Block(width, width, time), nn.Conv2d(width, width, 3, 2, 1)
        self.down2, self.half2 = Block(width, wide, time), nn.Conv2d(wide, wide, 3, 2, 1)
        self.middle1, self.attention, self.middle2 = Block(wide, wide, time), Attention(wide), Block(wide, wide, time)
        self.up2, self.up1 = Block(2 * wide, wide, time), Block(wide + width, width, time)
        self.norm, self.leave = nn.GroupNorm(4, width), nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], -1))
        x = self.enter(x)
        a = self.down1(x, time)
        b = self.down2(self.half1(a), time)
        x = self.middle2(self.attention(self.middle1(self.half2(b), time)), time)
        x = self.up2(torch.cat([functional.interpolate(x, scale_factor=2.0), b], 1), time)
        x = self.up1(torch.cat([functional.interpolate(x, scale_factor=2.0), a], 1), time)
        return self.leave(functional.silu(self.norm(x)))


def unet() -> Model:
    return UNet(), (torch.randn(2, 3, 32, 32), torch.tensor([3, 500]))


MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    make.__name__: make for make in (yolov3, lstm, gru, bert, gpt2, resnet, vit, unet)
}  # fmt: skip
