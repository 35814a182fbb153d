"""A ResNet of the transformers package: what stands between two convolutions becomes one kernel, and why no more.

Batch norm, the sum with the shortcut and the activation are pointwise once the statistics are fixed, and fuse. A convolution runs
through torch; `why_not` says so for any two nodes.

    python examples/resnet.py [size]
"""

import sys

import torch
from torch import nn


class Backbone(nn.Module):
    """ResNetModel with one plain argument and one plain result."""

    def __init__(self):
        super().__init__()
        from transformers import ResNetConfig, ResNetModel

        config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
        self.model = ResNetModel(config)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.model(image, return_dict=False)[0]


def resnet(seed: int = 0) -> Backbone:
    torch.manual_seed(seed)
    return Backbone().eval()


def main(size: int = 64) -> None:
    import irscope as irs

    fusion = irs.fuse(irs.load(resnet(), torch.rand(1, 3, size, size)))
    convolutions = [node for node in fusion.graph.nodes() if "conv" in node.op]
    print(f"{len(convolutions)} convolutions, {len(fusion.groups)} kernels between them")
    saved = sum(before - after for before, after in map(fusion.traffic, fusion.groups))
    print(f"{saved:,} bytes need not be moved")
    told = fusion.why_not(convolutions[0], convolutions[1])
    print(told)
    assert not told
    assert saved > 0
    assert len(fusion.groups) >= len(convolutions) // 2


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
