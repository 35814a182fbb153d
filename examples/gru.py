"""A GRU cell unrolled 1,500 steps, 26,000 nodes: fused, compared, explained and run, by one kernel in the end.

Merging 1,500 steps is where compilers that rebuild their alias database after each merge stop answering. Here the plan, the
classes and the answers grow with the program and no faster; what takes longest by far is torch.export.

    python examples/gru.py [steps]
"""

import sys
import time

import torch
from torch import nn


class Unrolled(nn.Module):
    """The cell over a sequence of shape (steps, batch, inputs); gives the last state."""

    def __init__(self, inputs: int = 16, hidden: int = 16):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.hidden = hidden

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        h = sequence.new_zeros(sequence.shape[1], self.hidden)
        for x in sequence.unbind(0):
            i_r, i_z, i_n = self.of_input(x).chunk(3, 1)
            h_r, h_z, h_n = self.of_state(h).chunk(3, 1)
            r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
            n = torch.tanh(i_n + r * h_n)
            h = (1 - z) * n + z * h
        return h


def main(steps: int = 1500) -> None:
    import irscope as irs

    torch.manual_seed(0)
    model, sequence = Unrolled().eval(), torch.randn(steps, 4, 16)
    started = time.process_time()

    def seconds() -> str:
        nonlocal started
        before, started = started, time.process_time()
        return f"{started - before:.1f} s of processor time"

    graph = irs.load(model, sequence)
    print(f"{steps:,} steps are {len(graph.position):,} nodes; exported and read in {seconds()}")
    fusion = irs.fuse(graph)
    print(f"{len(fusion.groups):,} groups, planned in {seconds()}")
    found = irs.dedup(fusion)
    print(f"{len(found)} classes of them, compared in {seconds()}")
    print(fusion.why_not(fusion.groups[0].output, fusion.groups[1].output))
    run = irs.compile(fusion)
    with torch.no_grad():
        apart = (run(sequence) - model(sequence)).abs().max().item()
    print(f"{len(run.kernels)} kernels, compiled and run in {seconds()}; largest difference from torch: {apart:.1e}")
    assert len(fusion.groups) >= steps
    assert len(found) <= 4, "the first step and the last may differ from the others"
    assert len(run.kernels) <= 4 and apart < 1e-5


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
