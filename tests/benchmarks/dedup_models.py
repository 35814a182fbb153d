"""Kernels compiled for eight models: fusion groups, their classes by the steps of the ladder, and Inductor's kernels.

    python tests/benchmarks/dedup_models.py [--ours-only] [bert resnet34 …]

For each model: nodes; the largest repeated region (nodes × places, found without looking at scopes); fusion groups; classes of
the groups by each step of the ladder; the kernels that `irs.compile` makes, for the plan as it is and for the plan with classes
merged by `constants` and by `extents`; whether what runs after merging gives what the model gives; and the distinct kernels that
Inductor generates for the CPU (`src_to_kernel` of its wrapper), with static and with dynamic shapes. Inductor plans and generates,
and compiles nothing. Its kernels include those for look-ups, pooling and copies of weights, which a library runs for us.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.transforms.dedup.rewrite import find_regions
from tests.benchmarks.harness import command, head, row
from tests.benchmarks.inductor import planned
from tests.benchmarks.models import Model, bert, gpt2, lstm, resnet, seeded, vit, yolov3

STEPS: Final = ("alpha", "order", "constants", "extents", "free")


class Quantised(nn.Module):
    """Equal layers, each with a scale and a zero point of its own: quantise, dequantise, multiply, clamp."""

    def __init__(self, layers: int = 24, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place, layer in enumerate(self.layers):
            scale, zero = 0.02 + 0.001 * place, float(place % 7 - 3)
            q = torch.clamp(torch.round(x / scale) + zero, -128.0, 127.0).to(torch.int8)
            x = layer((q.to(torch.float32) - zero) * scale).relu()
        return x


def int8() -> Model:
    return Quantised(), (torch.randn(8, 32),)


class Pyramid(nn.Module):
    """Layers of growing width, with a norm and an activation each."""

    def __init__(self, layers: int = 24) -> None:
        super().__init__()
        widths = [32 + 8 * place for place in range(layers + 1)]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(b) for b in widths[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = nn.functional.gelu(norm(layer(x)))
        return x


def pyramid() -> Model:
    return Pyramid(), (torch.randn(8, 32),)


MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    "bert": partial(bert, 12), "gpt2": partial(gpt2, 6, attn_implementation="eager"),
    "resnet34": partial(resnet, (8, 16, 32, 64), (3, 4, 6, 3), batch=1, layer_type="basic"),
    "vit": partial(vit, 6, attn_implementation="eager"), "lstm": lstm, "yolov3": yolov3, "int8": int8, "pyramid": pyramid,
}  # fmt: skip


def measure(name: str, *, ours_only: bool) -> bool:
    """Prints one line of the table; whether ours are at most as many kernels as Inductor's, if these are asked for."""
    model, arguments = seeded(MODELS[name])
    graph = irs.load(model, *arguments)
    fusion = irs.fuse(graph)
    d = irs.dedup(fusion)
    ladder = d.ladder()["classes"]
    with torch.no_grad():
        expected = model(*arguments)
    expected = expected if isinstance(expected, torch.Tensor) else expected[0]
    kernels, close = [], True
    for program in (fusion, d.apply("constants"), d.apply("extents")):
        run = irs.compile(program)
        kernels.append(len(run.kernels))
        result = run(*arguments)
        result = result[0] if isinstance(result, tuple | list) else result
        close = close and torch.allclose(torch.as_tensor(result), expected, rtol=1e-3, atol=1e-4)
    regions = find_regions(graph)
    theirs = [
        planned(model, arguments, lambda lowering: len(lowering.wrapper_code.src_to_kernel), dynamic=dynamic)
        for dynamic in (() if ours_only else (False, True))
    ]
    largest = f"{regions[0].size} × {len(regions[0])}" if regions else "-"
    row(
        name, sum(1 for _ in graph.nodes()), largest, len(fusion.groups), *(ladder[step] for step in STEPS), *kernels,
        "yes" if close else "NO", *(theirs or "--"),
    )  # fmt: skip
    return min(kernels) <= min(theirs, default=0)


def main() -> None:
    options = command(__doc__)
    options.add_argument("models", nargs="*", default=list(MODELS))
    options.add_argument("--ours-only", action="store_true", help="without Inductor, which takes minutes for a model")
    chosen = options.parse_args()
    head(
        "model", "nodes", "region", "groups", *STEPS, "kernels", "merged by constants", "by extents", "same result",
        "Inductor, static", "dynamic",
    )  # fmt: skip
    fewer = sum(measure(name, ours_only=chosen.ours_only) for name in chosen.models)
    if not chosen.ours_only:
        print(f"\nno more kernels than Inductor in {fewer} of {len(chosen.models)}")


if __name__ == "__main__":
    main()
