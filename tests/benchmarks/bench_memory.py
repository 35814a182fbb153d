"""The most memory that whole models take at once: planned, measured, beside torch eager and Inductor, in one table.

    python tests/benchmarks/bench_memory.py                       # all six models; Inductor compiles each twice
    python tests/benchmarks/bench_memory.py bert unet --no-inductor

The judge of all measured columns is torch's profiler, which sees each block that torch's allocator gives and takes back,
also what ops take for themselves while they run; arguments and parameters are there before. Ours run without a pool, so
that the profiler sees their memory too. *by plan* is `x.memory_plan.peak`, which counts tensors and not what ops take
for themselves; *tensors alone* is what `peak_bytes` measures of the same run. `memory_planning` is Inductor's option.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.runtime.program.executable import compile_graph
from tests.benchmarks.harness import command, head, row
from tests.benchmarks.models import Model, bert, gpt2, resnet, seeded, unet, vit


def resnet_channels_last() -> Model:
    model, (images,) = resnet((32, 64, 128), size=128)
    return model.to(memory_format=torch.channels_last), (images.to(memory_format=torch.channels_last),)


class Decoder(nn.Module):
    """The three heads of YOLOv3, over the features that its necks give."""

    def __init__(self) -> None:
        super().__init__()
        from yolov3 import yolov3

        model = yolov3(width=8)
        self.head1, self.head2, self.head3 = model.head1, model.head2, model.head3

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.head1(a, 320), self.head2(b, 320), self.head3(c, 320)], 1)


def decoder() -> Model:
    return Decoder(), (torch.rand(1, 128, 10, 10), torch.rand(1, 64, 20, 20), torch.rand(1, 32, 40, 40))


MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    "BERT": partial(bert, 3, 256, (2, 128), attention="sdpa"), "GPT-2": partial(gpt2, 3, 256, (2, 128), 1000, 128),
    "ResNet, channels-last": resnet_channels_last, "ViT": partial(vit, 3, 192, 3, 768, 96), "UNet": partial(unet, 32, 64),
    "YOLOv3's decoder": decoder,
}  # fmt: skip


def measured(run: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> int:
    """Bytes: the most that one run takes from torch's allocator at once, after two that warm up."""
    with torch.no_grad():
        for _ in range(3):
            run(*args)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
            result = run(*args)
    del result
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def figures(name: str, *, with_inductor: bool) -> list[str]:
    model, args = seeded(MODELS[name])
    with torch.no_grad():
        fusion = irs.fuse(irs.load(model, *args))
    planned = compile_graph(fusion, memory="planned", pooled=False)
    plain = compile_graph(fusion, pooled=False)
    plan = planned.memory_plan
    assert plan is not None
    with torch.no_grad():
        alone = planned.peak_bytes(*args)
        expected, got = model(*args), planned(*args)
    assert torch.allclose(expected, got, atol=1e-3, rtol=1e-3), name
    numbers = [plan.peak, plan.lower_bound, alone, measured(planned, args), measured(plain, args), measured(model, args)]
    for planning in (False, True) if with_inductor else ():
        torch._dynamo.reset()
        numbers.append(measured(torch.compile(model, options={"memory_planning": planning}), args))
    return [f"{number / 1e6:.3f}" for number in numbers]


COLUMNS: Final = (
    "model, MB", "by plan", "lower bound", "tensors alone", "planned", "fused", "torch eager", "Inductor", "`memory_planning`",
)  # fmt: skip


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(MODELS)}, by how they begin")
    parser.add_argument("--no-inductor", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    head(*(COLUMNS[:-2] if asked.no_inductor else COLUMNS))
    for name in MODELS:
        if not asked.models or any(name.lower().startswith(part.lower()) for part in asked.models):
            row(name, *figures(name, with_inductor=not asked.no_inductor))


if __name__ == "__main__":
    main()
