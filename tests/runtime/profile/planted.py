"""Models with one planted slow spot each, marked `# slow`: what the rules are judged by."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def copy(x: Any, w: Any) -> Any:
    h = torch.relu(x @ w)
    h = h.t().contiguous().t()  # slow
    return torch.tanh(h).sum(0)


def broadcast(x: Any, w: Any) -> Any:
    h = torch.relu(x @ w)
    d = h[:, None, :] - h[None, :, :]  # slow
    return (d * d).sum(-1)


class Float64(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.register_buffer("scale", torch.ones(256, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.linear(x))
        h = h * self.scale  # slow
        h = torch.tanh(h)
        return h.float().sum(0)


def python_loop(x: Any, w: Any) -> Any:
    h = x @ w
    rows = []
    for i in range(48):
        rows.append(torch.sigmoid(h[i] * 2.0))  # noqa: PERF401  # slow
    return torch.stack(rows)


def transposed(x: Any, y: Any) -> Any:
    h = torch.relu(x)
    h = h + y.t()  # slow
    return torch.tanh(h)


def item(x: Any, w: Any) -> Any:
    h = torch.relu(x @ w)
    n = torch.linalg.vector_norm(h).item()  # slow
    return torch.tanh(h / n)


def tiny_kernels(x: Any) -> Any:
    h = x
    h = ((h * 1.1 + 0.2).abs() * 0.5 - 0.1).tanh() * 0.3 + (h * 3.0).cos() * 0.1 + h.sigmoid()  # slow
    return h.sum(0)


def written_softmax(x: Any, w: Any) -> Any:
    h = x @ w
    e = torch.exp(h - h.amax(-1, keepdim=True))  # slow
    return e / e.sum(-1, keepdim=True)


def rebuilt(x: Any, w: Any) -> Any:
    h = x @ w
    mask = torch.tril(torch.ones(512, 512))  # slow
    return functional.gelu(h) * mask[:128, :256]


def expanded(x: Any, y: Any) -> Any:
    e = x.unsqueeze(1).repeat(1, 64, 1)  # slow
    return torch.relu(e - y).sum(1)


def twice(x: Any, w: Any) -> Any:
    h = x @ w
    a = torch.softmax(h, -1)
    b = torch.softmax(h, -1)  # slow
    return a @ a.t() + b @ b.t()


def unused(x: Any, w: Any) -> Any:
    h = x @ w
    torch.sort(torch.exp(h), -1)  # slow
    return torch.relu(h)


def recurrent(x: Any, w: Any) -> Any:
    h = x[0]
    for i in range(24):
        h = torch.tanh(x[i] + w @ h)  # slow
    return h


def growing(x: Any) -> Any:
    out = x[:1]
    for i in range(1, 32):
        out = torch.cat([out, torch.tanh(x[i : i + 1]) + out[-1:]])  # slow
    return out


@torch.jit.script
def growing_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    out = x[:1]
    for i in range(1, x.shape[0]):
        out = torch.cat([out, x[i : i + 1]])  # slow
    return torch.relu(out)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, -1)
        w = q @ k.transpose(-1, -2) / math.sqrt(64)
        e = torch.exp(w - w.amax(-1, keepdim=True))  # slow
        return self.out(e / e.sum(-1, keepdim=True) @ v)


def _randn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


PLANTED: dict[str, Program] = {
    "copy": (copy, (_randn(1024, 64), _randn(64, 256))),
    "broadcast": (broadcast, (_randn(256, 64), _randn(64, 64))),
    "float64": (Float64(), (_randn(512, 256),)),
    "python loop": (python_loop, (_randn(48, 64), _randn(64, 64))),
    "transposed": (transposed, (_randn(512, 512), _randn(512, 512))),
    "item": (item, (_randn(256, 64), _randn(64, 256))),
    "tiny kernels": (tiny_kernels, (_randn(16, 32),)),
    "written softmax": (written_softmax, (_randn(512, 32), _randn(32, 512))),
    "rebuilt constant": (rebuilt, (_randn(128, 64), _randn(64, 256))),
    "expanded": (expanded, (_randn(64, 128), _randn(64, 64, 128))),
    "twice": (twice, (_randn(256, 32), _randn(32, 512))),
    "unused": (unused, (_randn(256, 32), _randn(32, 256))),
    "recurrent": (recurrent, (_randn(24, 64), _randn(64, 64))),
    "growing": (growing, (_randn(32, 4096),)),
    "growing in a loop": (growing_in_a_loop, (_randn(32, 4096),)),
    "attention": (Attention(), (_randn(4, 256, 64),)),
}  # fmt: skip


def slow_lines(program: Callable[..., Any]) -> set[int]:
    """The lines of its source that are marked."""
    source = program.forward if isinstance(program, nn.Module) else getattr(program, "_torchdynamo_inline", program)
    lines, first = inspect.getsourcelines(source)
    return {first + place for place, line in enumerate(lines) if line.rstrip().endswith("# slow")}
