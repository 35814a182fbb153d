"""Models with random weights, and arguments for them, in the sizes that a benchmark asks for; `MODELS` are eight small ones.

Small in width they load in seconds; a plan of fusion does not depend on widths, except where an extent is one.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


def seeded(make: Callable[[], Model]) -> Model:
    """A model with the same weights each time, as it is used."""
    torch.manual_seed(0)
    model, arguments = make()
    return model.eval(), arguments


def yolov3(width: int = 8, classes: int = 4, size: int = 96, batch: int = 1) -> Model:
    from yolov3 import yolov3 as model

    return model(width=width, classes=classes), (torch.rand(batch, 3, size, size),)


def scripted_yolov3() -> Model:
    """In its own width, at a small image."""
    model, images = yolov3(32, 80, 160)
    return torch.jit.script(model), images


def lstm(steps: int = 20, inputs: int = 16, hidden: int = 32) -> Model:
    from lstm import lstm as model

    return model(inputs=inputs, hidden=hidden), (torch.randn(steps, 8, inputs),)


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


def bert(layers: int = 3, hidden: int = 64, shape: tuple[int, int] = (2, 16), **options: Any) -> Model:
    from bert import bert as model
    from bert import tokens

    return model(layers=layers, hidden=hidden, **options), (tokens(*shape) % 100,)


class FirstResult(nn.Module):
    """A model of transformers with plain arguments and one plain result."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x, return_dict=False, **self.options)[0]


def gpt2(
    layers: int = 3, hidden: int = 64, shape: tuple[int, int] = (2, 16), words: int = 100, positions: int = 32, **options: Any
) -> Model:  # fmt: skip
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=words, n_positions=positions, n_embd=hidden, n_layer=layers, n_head=4, **options)
    return FirstResult(GPT2Model(config), use_cache=False), (torch.randint(0, words, shape),)


def resnet(sizes: Sequence[int] = (16, 32, 64), depths: Sequence[int] = (2, 2, 2), size: int = 64, batch: int = 2, **options: Any) -> Model:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=sizes[0], hidden_sizes=list(sizes), depths=list(depths), **options)
    return FirstResult(ResNetModel(config)), (torch.rand(batch, 3, size, size),)


def vit(
    layers: int = 3, hidden: int = 64, heads: int = 4, wide: int = 128, size: int = 32, patch: int = 8, batch: int = 2, **options: Any
) -> Model:  # fmt: skip
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=wide, image_size=size,
        patch_size=patch, **options,
    )  # fmt: skip
    return FirstResult(ViTModel(config, add_pooling_layer=False)), (torch.rand(batch, 3, size, size),)


def llama(layers: int = 3, hidden: int = 64, shape: tuple[int, int] = (2, 16), words: int = 100, heads: int = 4) -> Model:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=words, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 2,
    )  # fmt: skip
    return FirstResult(LlamaModel(config), use_cache=False), (torch.randint(0, words, shape),)


def convnext(sizes: Sequence[int] = (16, 32, 64, 128), depths: Sequence[int] = (2, 2, 2, 2), size: int = 64, batch: int = 2) -> Model:
    from transformers import ConvNextConfig, ConvNextModel

    config = ConvNextConfig(hidden_sizes=list(sizes), depths=list(depths), image_size=size)
    return FirstResult(ConvNextModel(config)), (torch.rand(batch, 3, size, size),)


def mobilenet(factor: float = 0.5, size: int = 64, batch: int = 2) -> Model:
    """MobileNetV2 whose weights keep numbers large: with those of transformers' config the last layers compute with denormal numbers."""
    from transformers import MobileNetV2Config, MobileNetV2Model

    model = MobileNetV2Model(MobileNetV2Config(image_size=size, depth_multiplier=factor))
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    return FirstResult(model), (torch.rand(batch, 3, size, size),)


def whisper(layers: int = 3, hidden: int = 64, frames: int = 100, bands: int = 16, batch: int = 2) -> Model:
    """The encoder alone."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=hidden, encoder_layers=layers, encoder_attention_heads=4, encoder_ffn_dim=4 * hidden, max_source_positions=frames // 2,
        num_mel_bins=bands,
    )  # fmt: skip
    return FirstResult(WhisperEncoder(config)), (torch.rand(batch, bands, frames),)


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
        self.norm, self.qkv, self.out = (nn.GroupNorm(4, width), nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1))

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


def unet(width: int = 16, size: int = 32) -> Model:
    return UNet(width), (torch.randn(2, 3, size, size), torch.tensor([3, 500]))


MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    "yolov3": yolov3, "lstm": lstm, "gru": gru, "bert": partial(bert, attention="sdpa"), "gpt2": gpt2, "resnet": resnet, "vit": vit,
    "unet": unet,
}  # fmt: skip
