"""Which kernels the backward pass has, and which of them are the same (pytorch#14541 found six kinds in an unrolled LSTM).

    python tests/benchmarks/backward_kernels.py [--steps 100] [--only lstm]

Each model is loaded with its gradients (`irs.load(…, backward=True)`), fused, deduplicated and compiled. A node or a group is of
the forward pass if the loss depends on it, and of the backward pass otherwise. Classes are by `alpha` (names aside) and by
`extents` (sizes aside as well). Of the LSTM each class of the backward pass is listed, with what keeps it apart from the earlier
class that is most like it.
"""

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from tests.benchmarks.harness import command, head, row
from tests.benchmarks.models import Model, bert, gpt2, lstm


class Residual(nn.Module):
    """Two blocks of a ResNet, each of two convolutions with batch normalisation."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
            ) for _ in range(2)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.body:
            x = torch.relu(x + part(x))
        return x


def resnet() -> Model:
    return Residual(), (torch.rand(2, 16, 16, 16),)


def square(result: torch.Tensor) -> torch.Tensor:
    return result.square().mean()


def needed_for(graph: irs.Graph, values: Iterable[irs.Value]) -> set[irs.Node]:
    """The top nodes that these values depend on."""
    found: set[irs.Node] = set()
    open_values = list(values)
    while open_values:
        node = graph.producer.get(open_values.pop())
        if node is None:
            continue
        top = node
        while graph.block_of[top] is not graph.body:
            top = graph.owner[graph.block_of[top]]
        if top not in found:
            found.add(top)
            open_values += top.inputs
    return found


def measure(name: str, make: Callable[[], Model]) -> tuple[irs.Dedup, list[Any]]:
    """Prints the row of a model; returns the classes of its groups, and those of the backward pass."""
    torch.manual_seed(0)
    model, args = make()
    start = time.process_time()
    graph = irs.load(model, *args, backward=True, loss=square)
    loaded = time.process_time()
    fusion = irs.fuse(graph)
    fused = time.process_time()
    found, alike = irs.dedup(fusion), irs.dedup(fusion, relation="extents")
    run = irs.compile(fusion)
    check(model, args, run)
    ops = [node for node in graph.nodes() if node.op != "prim::Constant"]
    forward = needed_for(graph, graph.outputs[:1])
    group_forward = needed_for(fusion.graph, fusion.graph.outputs[:1])
    back = [cls for cls in found.classes if cls.representative not in group_forward]
    groups = [node for cls in found.classes for node in cls.members]
    row(
        name, f"{sum(n in forward for n in ops)} + {sum(n not in forward for n in ops)}",
        f"{sum(n in group_forward for n in groups)} + {sum(n not in group_forward for n in groups)}",
        f"{len(found.classes) - len(back)} + {len(back)}", len(alike.classes), len(run.kernels), loaded - start, fused - loaded,
    )  # fmt: skip
    return found, back


def check(model: Any, args: tuple[Any, ...], run: Any) -> None:
    """The gradients are autograd's."""
    loss = square(model(*args))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(loss, parameters, allow_unused=True)
    found = run(*args)
    scale = max(float(item.abs().max()) for item in expected if item is not None)
    for mine, its in zip(found[1:], expected, strict=True):
        assert (mine is None) == (its is None)
        assert its is None or torch.allclose(mine, its, rtol=1e-3, atol=1e-4 * scale)


def tell_classes(found: irs.Dedup, classes: list[Any]) -> None:
    head("members", "ops", "apart from an earlier class by")
    earlier: list[Any] = []
    for cls in classes:
        ops = [node.op.removeprefix("aten::") for node in cls.representative.blocks[0].nodes]
        ops = [op for op in ops if not op.startswith("prim::")]
        told = " ".join(ops[:12]) + (f" … ({len(ops)})" if len(ops) > 12 else "")
        reasons = [str(found.difference(other.representative, cls.representative).because) for other in earlier]
        nearest = min(reasons, key=lambda text: ("built differently" in text, len(text)), default=": -")
        row(len(cls.members), told, nearest.partition(": ")[2].partition(";")[0])
        earlier.append(cls)


def main() -> None:
    options = command(__doc__)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--only", choices=("lstm", "bert", "gpt2", "resnet"))
    chosen = options.parse_args()
    models: dict[str, Callable[[], Model]] = {
        "lstm": partial(lstm, chosen.steps, 64, 128), "bert": partial(bert, 4, 64, (2, 32)), "gpt2": partial(
            gpt2, 4, 64, (2, 32), 500, 64, bos_token_id=0, eos_token_id=0, attn_implementation="eager", resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0,
        ), "resnet": resnet,
    }  # fmt: skip
    head("model", "ops", "groups", "classes", "by extents", "kernels", "load s", "fuse s")
    details: list[tuple[irs.Dedup, list[Any]]] = []
    for name, make in models.items():
        if chosen.only in (None, name):
            details.append(measure(name, make))
    print()
    tell_classes(*details[0])


if __name__ == "__main__":
    main()
