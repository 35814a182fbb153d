"""A GRU cell unrolled 1,500 steps, 27,000 nodes: fused, compared and explained in seconds, and one kernel in the end.

Merging 1,500 steps is where compilers that rebuild their alias database after each merge stop answering. Here the plan, the
classes and the answers grow with the program and no faster.

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
    graph = irs.load(Unrolled().eval(), torch.randn(steps, 4, 16))
    started = time.process_time()
    fusion = irs.fuse(graph)
    found = irs.dedup(fusion)
    seconds = time.process_time() - started
    print(f"{len(graph.position):,} nodes: fused and compared in {seconds:.1f} s of processor time")
    print(f"{len(fusion.groups):,} groups, {len(found)} classes")
    print(fusion.why_not(fusion.groups[0].output, fusion.groups[1].output))
    assert len(fusion.groups) >= steps
    assert len(found) <= 4, "the first step and the last may differ from the others"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
