"""An LSTM cell written by hand and unrolled 100 steps: one small group of pointwise ops, a hundred times over.

torch.export unrolls the Python loop, so the graph holds every step: two matrix products, then sigmoid, tanh, multiply
and add on the four gates. Fusion makes the same kernel of every step, and deduplication compiles it once.

    python examples/lstm.py [steps]
"""

import sys

import torch
from torch import nn


class Cell(nn.Module):
    """One step: input, forget, cell and output gate from one matrix product each of the input and the state."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.of_input = nn.Linear(inputs, 4 * hidden)
        self.of_state = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.of_input(x) + self.of_state(h)
        enter, forget, new, out = gates.chunk(4, 1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(out) * torch.tanh(c), c


class Unrolled(nn.Module):
    """The cell over a sequence of shape (steps, batch, inputs); gives the last state."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.cell, self.hidden = Cell(inputs, hidden), hidden

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        h = sequence.new_zeros(sequence.shape[1], self.hidden)
        c = torch.zeros_like(h)
        for x in sequence.unbind(0):
            h, c = self.cell(x, h, c)
        return h


def lstm(seed: int = 0, inputs: int = 64, hidden: int = 128) -> Unrolled:
    torch.manual_seed(seed)
    return Unrolled(inputs, hidden).eval()


def main(steps: int = 100) -> None:
    import irscope as irs

    model = lstm()
    sequence = torch.randn(steps, 8, 64, generator=torch.Generator().manual_seed(1))
    graph = irs.load(model, sequence)
    fusion = irs.fuse(graph)
    classes = irs.dedup(fusion).classes
    run = irs.compile(fusion)
    print(f"{sum(1 for _ in graph.nodes())} nodes")
    print(f"{len(fusion.groups)} fusion groups, {len(classes)} classes, {len(run.kernels)} kernels")
    with torch.no_grad():
        expected = model(sequence)
    print(f"largest difference from eager {(run(sequence) - expected).abs().max().item():.2g}")
    assert len(fusion.groups) >= steps > len(run.kernels)
    assert torch.allclose(run(sequence), expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
