"""A ViT of the transformers package: which of its reshapes copy, and how many bytes that is.

A view moves nothing. Heads that are split off by `view` and `transpose` lie between each other's rows; putting them together again
copies. Where each tensor lies is worked out from strides alone, without running anything, and torch agrees.

    python examples/vit.py [layers]
"""

import sys

import torch
from torch import nn


class Encoder(nn.Module):
    """ViTModel with one plain argument and one plain result."""

    def __init__(self, layers: int):
        super().__init__()
        from transformers import ViTConfig, ViTModel

        config = ViTConfig(
            hidden_size=48, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=96, image_size=32,
            patch_size=8, attn_implementation="eager",
        )  # fmt: skip
        self.model = ViTModel(config, add_pooling_layer=False)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.model(image, return_dict=False)[0]


def vit(layers: int = 2, seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    return Encoder(layers).eval()


def main(layers: int = 2) -> None:
    import irscope as irs

    graph = irs.load(vit(layers), torch.rand(2, 3, 32, 32))
    va = irs.ViewAliases(graph)
    kinds = [va.kind(value) for value in va.tensors()]
    print(f"{kinds.count('view')} views, {kinds.count('copy')} tensors with memory of their own")
    print(f"{va.copied_bytes:,} bytes are moved by ops that only regroup")
    asked = irs.quiz.views(graph, seed=0).questions[0]
    print(asked.prompt, "→", ", ".join(asked.answer) or "none of them")
    assert kinds.count("view") > layers * 4


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
