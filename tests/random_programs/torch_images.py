"""Random programs over batches of images: convolutions, pooling and norms between the views, writes and loops of other programs.

Numbers are whole, or halves a few times over, and stay small, so that sums are exact in any order and a program that is laid
out otherwise has the same bits; one program in five has norms and means as well, whose roundings show.
"""

from __future__ import annotations

import random
import re
from typing import Any, Final

import torch

from tests.random_programs.torch_scripts import TorchProgram, Writer, named
from tests.random_programs.torch_statements import BLOCK

__all__ = ["image_program"]

_F: Final = "torch.nn.functional."
_CONV: Final = (
    "torch.conv2d({x}, {w}, None, 1, {r})", "torch.conv2d({x}, {w}, None, 1, {r})", "torch.conv2d({x}, {w}, None, 2, {r})",
    "torch.conv2d({x}, {w}, {v}, 1, {r})", "torch.conv2d({x}, {w})", "torch.conv2d({x}, {dw}, None, 1, 0, 1, {x}.size(1))",
    "torch.convolution({x}, {w}, None, [1, 1], [{r}, {r}], [1, 1], False, [0, 0], 1)", "torch.relu(torch.conv2d({x}, {w}, None, 1, {r}))",
    "torch.conv1d({x}.flatten(2), {w}[..., 0])", "torch.conv2d({x}.permute(0, 1, 3, 2), {w}, None, 1, {r})",
    "torch.conv2d({x}[:, :, ::2], {w}, None, 1, {r})", "torch.conv_transpose2d({x}, {w}.transpose(0, 1), None, 1, {r})",
    "torch.conv2d({x}, {w}, None, 1, 2, 2)", "torch.conv2d({x}[0], {w}, None, 1, {r})",
    "torch.conv2d({x}, {w}.contiguous(), None, 1, {r}) + {v}[:, None, None]",
)  # fmt: skip
_POOL: Final = tuple(_F + each for each in (
    "max_pool2d({x}, 2)", "max_pool2d({x}, 3, 1, 1)", "max_pool2d({x}, 3, 2, 1)", "max_pool2d({x}, [2, 1], ceil_mode=True)",
    "avg_pool2d({x}, 2)", "interpolate({x}, scale_factor=2.0)", "max_pool2d({x}, 2, 1, 0, 2)", "max_pool1d({x}.flatten(2), 2)",
    "pad({x}, [1, 1, 0, 1])", "pad({x}, [0, -1])", "pixel_shuffle({x}, 2)", "pixel_unshuffle({x}, 2)", "adaptive_max_pool2d({x}, 1)",
))  # fmt: skip
_NORM: Final = (
    _F + "batch_norm({x}, {v}, {u}, eps=1.0)", _F + "batch_norm({x}, {v}, {u}, {v}, {v}, False, 0.1, 1.0)",
    "torch.batch_norm({x}, {v}, {v}, {v}, {u}, False, 0.1, 1.0, True)", "{x} * {v}[:, None, None]", "{x} - {v}.view(1, -1, 1, 1)",
)  # fmt: skip
_POINT: Final = (
    "torch.relu({x})", "{x} + 1", "-{x}", "{x} * 0.5", "torch.clamp({x}, -3, 3)", "{x} + {y}", "{x} - {y}", "torch.maximum({x}, {y})",
    "torch.abs({x})", "torch.where({x} > 0, {x}, {y})", "{x} * torch.clamp({y}, -1, 1)", _F + "leaky_relu({x}, 0.5)",
    "{x} + {x}.amax(1, True)", "{x}.sum(1, keepdim=True)", "{x}.sum([2, 3])", "{x}.amax({d})", "{x}.sum({d})",
    _F + "hardtanh({x}, 0.0, 6.0)", "{x}.double()", "{x}.float()",
)  # fmt: skip
_VIEW: Final = (
    "{x}.flatten(2)", "{x}.flatten(2).transpose(1, 2)", "{x}.permute(0, 2, 3, 1)", "{x}.permute(0, 3, 1, 2)", "{x}.permute({p})",
    "{x}.transpose({d}, {e})", "{x}.reshape({x}.size(0), -1)", "{x}.view({x}.size(0), {x}.size(1), -1)", "{x}.reshape({y}.shape)",
    "{x}.view({y}.shape)", "{x}[:, :{n}]", "{x}[:, 1:]", "{x}[..., ::2]", "{x}[:, :, 1:, :-1]", "{x}.narrow({d}, 0, 1)",
    "{x}.contiguous()", "{x}.contiguous(memory_format=torch.channels_last)", "{x}.clone()",
    "{x}.clone(memory_format=torch.contiguous_format)", "{x}[0:1]", "{x}.select({d}, 0)", "{x}.unsqueeze(0)", "{x}.squeeze(0)",
    "{x}[None, :]", "{x}.unflatten({d}, (-1, 1)).flatten({d}, {d} + 1)", "{x}.expand_as({y})",
    "{x}.reshape(1, -1, {x}.size(-2), {x}.size(-1))", "{x}.movedim(1, -1)", "{x}.flip({d})", "{x}.detach()", "{x}.repeat(1, 2, 1, 1)",
    "{x}.to(memory_format=torch.channels_last)", "{x}.reshape({x}.size(0), -1, {x}.size(-1))", "{x}.roll(1, {d})",
    "{x}.as_strided({x}.shape, {x}.stride(), {x}.storage_offset())", "{x}.unfold(2, 2, 1)[..., 0]",
)  # fmt: skip
_JOIN: Final = (
    "torch.cat([{x}, {y}], 1)", "torch.cat([{x}, {y}], {d})", "torch.cat({x}.chunk(2, 1)[::-1], 1)", "torch.stack([{x}, {y}])[0]",
    "torch.cat([torch.relu({x}), {x}], 1)", "torch.stack({x}.unbind(1), 1)",
)  # fmt: skip
_ROUGH: Final = (
    _F + "group_norm({x}, {n})", _F + "layer_norm({x}, [{x}.size(-1)])", "{x}.mean([2, 3], keepdim=True)", "torch.sigmoid({x})",
    _F + "adaptive_avg_pool2d({x}, 1)", _F + "silu({x})", "torch.softmax({x}, 1)", _F + "batch_norm({x}, None, None, training=True)",
    _F + "interpolate({x}, scale_factor=2.0, mode='bilinear')", _F + "instance_norm({x})", _F + "gelu({x})", "torch.tanh({x})",
)  # fmt: skip
_SPLIT: Final = (
    ("{a}, {b} = {x}.chunk(2, 1)", 2), ("{a}, {b} = {x}.chunk(2, {d})", 2), ("{a}, {b} = {x}.split([1, {x}.size(1) - 1], 1)", 2),
)  # fmt: skip
_WRITE: Final = (
    "{x}.relu_()", "{x}.add_({y})", "{x}.mul_(0.5)", "{x}.sub_(1)", "{x}.clamp_(-2, 2)", "{x}.copy_({y})", "{x}[:, 0] = 1.0",
    "{x}[:, :{n}].relu_()", "{x}[..., 0] += 1", "{x}.view({x}.size(0), -1)[:, 0] = 2.0", "{x}.flatten(2).add_(1)",
    "{x}.permute({p}).neg_()", "{x}[:, :, 1:].copy_({y}[:, :, 1:])", "{x}[:, ::2] = {y}[:, ::2]", "{x}.transpose({d}, {e}).add_(1)",
    "{x}.reshape(-1).add_(1)", "{x}.contiguous().sub_(1)", "{x}.chunk(2, 1)[1].mul_(2)", _F + "relu({x}, inplace=True)", "{x}.zero_()",
    "{x}[0].fill_(1)", "{x}.select({d}, 0).abs_()", "{x} += {y}", "{v}.add_(1)", "{w}[0] = 1.0", "{x}.squeeze_(0)",
    "{x}.transpose_({d}, {e})", "{x}.unsqueeze_(0)", "{x}.contiguous(memory_format=torch.channels_last).add_(1)",
    "{x}.masked_fill_({x} > 1, 0.5)",
)  # fmt: skip
_KINDS: Final = {"conv": (8, _CONV), "pool": (1, _POOL), "norm": (1.5, _NORM), "point": (4, _POINT), "view": (3, _VIEW), "join": (1, _JOIN)}


def image_program(seed: int, size: int = 14) -> TorchProgram:
    """The program of this seed, of about `size` statements."""
    with torch.no_grad():
        return _Images(random.Random(seed)).program(size)


class _Images(Writer):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.rough = rng.random() < 0.2
        self.odd, self.mode = False, "float"
        self.dtypes = [rng.choice([torch.float32, torch.float32, torch.float32, torch.float64])]
        self.channels = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(2)]
        self.writes = rng.choice([0.0, 0.05, 0.12, 0.25])
        self.views = rng.choice([0.2, 0.5, 1.0, 3.0])
        self.plain, self.convolves = rng.random() < 0.6, False

    def arguments(self) -> tuple[torch.Tensor, ...]:
        rng, dtype = self.rng, self.dtypes[0]
        a, b = self.channels
        shape = [rng.choice([1, 2, 2, 3]), a, *(rng.choice([1, 3, 4, 5, 6, 8]) for _ in range(2))]
        found = [self.laid_out(shape, dtype)]
        draw = rng.random()
        if draw < 0.2:
            found.append(self.part(found[0]))
        elif draw < 0.6:
            found.append(self.laid_out([shape[0], rng.choice([a, b]), *shape[2:]], dtype))
        for there, here in ((a, a), (b, a), (a, b)):
            size = rng.choice([1, 3, 3])
            found.append(self.laid_out([there, here, size, size], dtype).clamp(-1, 1))
        found += [self.laid_out([1 if rng.random() < 0.1 else rng.choice([a, b])], dtype) for _ in range(2)]
        return tuple(found)

    def laid_out(self, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        draw = self.rng.random()
        if self.plain or draw < 0.4:
            return self.numbers(torch.Size(shape).numel(), dtype).view(shape)
        if draw < 0.7 and len(shape) == 4:
            return self.numbers(torch.Size(shape).numel(), dtype).view(shape).contiguous(memory_format=torch.channels_last)
        return super().laid_out(shape, dtype)

    def numbers(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        make = torch.Generator().manual_seed(self.rng.randrange(1 << 30))
        return torch.randint(-3, 4, (count,), generator=make).to(dtype)

    def line(self, space: dict[str, Any]) -> tuple[str, list[str]]:
        rng, draw = self.rng, self.rng.random()
        if draw < self.writes:
            return self.filled(rng.choice(_WRITE), space, write=True), []
        if draw < self.writes + 0.04:
            text, count = rng.choice(_SPLIT)
            made = [self.name() for _ in range(count)]
            return self.filled(named(text, made), space), made
        if draw < self.writes + 0.06:
            text = rng.choice(BLOCK)
            made = [self.name() for mark in ("{a}", "{b}") if mark in text]
            return self.filled(named(text, made), space), made
        kinds = _KINDS | ({"rough": (2, _ROUGH)} if self.rough else {})
        weights = [weight * (self.views if kind == "view" else 1) for kind, (weight, _) in kinds.items()]
        kind = rng.choices(list(kinds), weights)[0]
        made = [self.name()]
        self.convolves = kind == "conv"
        text = self.filled(rng.choice(kinds[kind][1]), space)
        self.convolves = False
        return f"{made[0]} = {text}", made

    def pick(self, space: dict[str, Any], wanted: Any = lambda x: True) -> str:
        """Images rather than weights and sums."""
        if self.rng.random() < 0.85:
            images = [name for name in self.tensors(space) if space[name].ndim == 4 and name not in self.weights(space)]
            if self.convolves:
                images = [name for name in images if space[name].size(1) in self.channels and min(space[name].shape[2:]) > 1]
            fitting = [name for name in images if wanted(space[name])]
            if fitting:
                return self.rng.choice(fitting[-4:] if self.rng.random() < 0.7 else fitting)
        return super().pick(space, wanted)

    def weights(self, space: dict[str, Any]) -> list[str]:
        found = [name for name in self.tensors(space) if name.startswith("x") and name != "x0" and space[name].ndim]
        return [name for name in found if space[name].size(-1) in (1, 3)]

    def filled(self, text: str, space: dict[str, Any], *, write: bool = False) -> str:
        found = super().filled(text, space, write=write)
        if "{" not in found:
            return found
        rng, vectors = self.rng, [name for name in self.tensors(space) if space[name].ndim == 1] or ["x0"]
        words = set(re.findall(r"\w+", found))
        about = next((name for name in self.tensors(space) if name in words), "x0")
        channels = space[about].size(1) if space[about].ndim > 1 else 1
        weights = [name for name in self.weights(space) if space[name].ndim == 4] or ["x0"]
        w = rng.choice([name for name in weights if space[name].size(1) == channels] or weights)
        thin = [name for name in weights if space[name].size(0) == channels] or ["x0"]
        radius = space[w].size(-1) // 2 if rng.random() < 0.8 else 0
        v, u = rng.choice(vectors), rng.choice(vectors)
        values = {"w": w, "v": v, "u": f"({u} * 0 + 3)", "dw": f"{rng.choice(thin)}[:, :1]", "r": radius}
        for key, value in values.items():
            found = found.replace("{" + key + "}", str(value))
        return found

    def tame(self, x: Any) -> bool:
        if not super().tame(x) or self.rough:
            return super().tame(x) and x.numel() < 3000
        few = (x.double() * 64) % 1 == 0
        return x.numel() < 3000 and bool(few.all())
