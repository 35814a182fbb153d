"""A small UNet: what keeps its peak of memory up, and by how much the plan is better than keeping everything.

The skip connections live from the way down to the way up. `memory_plan` gives each memory its place by when it is alive, names what
lives at the peak, and says what no plan can avoid.

    python examples/unet.py [size]
"""

import sys

import torch
from torch import nn


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU())


class UNet(nn.Module):
    """Two levels down, two up, with what was there beside what comes back."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 2 * width)
        self.up2, self.up1 = block(4 * width, width), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        lowest = self.middle(nn.functional.max_pool2d(second, 2))
        y = self.up2(torch.cat([nn.functional.interpolate(lowest, scale_factor=2.0), second], 1))
        return self.up1(torch.cat([nn.functional.interpolate(y, scale_factor=2.0), first], 1))


def unet(seed: int = 0) -> UNet:
    torch.manual_seed(seed)
    return UNet().eval()


def main(size: int = 64) -> None:
    import irscope as irs

    fusion = irs.fuse(irs.load(unet(), torch.rand(1, 3, size, size)))
    plan = irs.memory_plan(fusion)
    print(f"peak {plan.peak:,} bytes by plan; at least {plan.lower_bound:,} live at once in this order")
    table = plan.peak_table()
    print(table.to_string(index=False))
    assert plan.lower_bound <= plan.peak
    skip = 8 * size * size * 4
    assert (table["bytes"] == skip).any(), "a skip connection is alive at the peak"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
