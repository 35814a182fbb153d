"""One step of training as one program: forward, loss, gradients and the update of the parameters, fused and compiled.

`irs.load(…, backward=True)` gives loss and gradients; the update of gradient descent is appended to that graph, as in-place
ops on the parameters, which the program holds. A call of the compiled program is then a step: the model itself changes.
Before, `irs.autodiff_subgraphs` shows what TorchScript's autodiff would take as one: all layers, or the last alone.

    python examples/training_step.py [steps]
"""

import sys

import torch
from torch import nn

import irscope as irs
from irscope.ir import FLOAT, Rewriter, new_id

RATE = 0.1


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    return x, (x.square().sum(1, keepdim=True) - 8) / 4


def descended(graph: irs.Graph, rate: float) -> irs.Graph:
    """The graph with `parameter -= rate * gradient` at its end."""
    edit, last = Rewriter(graph), graph.body.nodes[-1]
    number = irs.Value(new_id(), FLOAT, "minus_rate")
    edit.insert_after(last, irs.Node(new_id(), "prim::Constant", (), (number,), {"value": -rate}), reason="the rate")
    for parameter, tensor in graph.bound.items():
        if tensor.requires_grad:
            gradient = graph.outputs[graph.gradients[parameter.name]]
            updated = irs.Value(new_id(), parameter.type, f"updated_{parameter.name}")
            step = irs.Node(new_id(), "aten::add_", (parameter, gradient, number), (updated,))
            edit.insert_after(last, step, reason="gradient descent")
    return edit.finish()


def with_torch(steps: int) -> list[float]:
    """The losses of as many steps by torch itself."""
    net, (x, y) = model(), data()
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=RATE), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def differentiated(forward: irs.Graph) -> None:
    whole, last = irs.autodiff_subgraphs(forward), irs.autodiff_subgraphs(forward, 1, requires_grad=["_4.weight"])
    assert [len(parts.groups) for parts in (whole, last)] == [1, 1]
    print(f"{whole}; with the first layers frozen {last}: {last.why_not('gelu', 'linear_2')}")


def main(steps: int = 50) -> None:
    net, (x, y) = model(), data()
    differentiated(irs.load(net, x))
    graph = descended(irs.load(net, x, backward=True, loss=nn.functional.mse_loss, targets=(y,)), RATE)
    fusion = irs.fuse(graph)
    step = irs.compile(fusion)
    with torch.no_grad():  # torch lets nobody else write into parameters
        losses = [step(x, y)[0].item() for _ in range(steps)]
    print(f"{len(graph.position)} nodes, {len(fusion.groups)} groups, {len(step.kernels)} kernels")
    print(f"loss {losses[0]:.3f} → {losses[-1]:.3f} in {steps} steps")
    expected = with_torch(steps)
    assert losses[-1] < losses[0] / 2
    assert all(abs(mine - its) <= 1e-3 * losses[0] for mine, its in zip(losses, expected, strict=True))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
