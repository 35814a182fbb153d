"""A BERT encoder of the transformers package, through torch.export: the same attention and gelu in each layer.

Random weights, no download. Equal layers become equal groups, so the kernels of one layer serve all of them.

    python examples/bert.py [layers]
"""

import sys

import torch
from torch import nn


class Encoder(nn.Module):
    """BertModel with one plain argument and one plain result."""

    def __init__(self, layers: int, hidden: int, attention: str):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=1000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
            intermediate_size=4 * hidden, max_position_embeddings=128, attn_implementation=attention,
        )  # fmt: skip
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.bert(tokens, return_dict=False)[0]


def bert(seed: int = 0, layers: int = 4, hidden: int = 256, attention: str = "eager") -> Encoder:
    """`attention` is "eager" (softmax and products in the open) or "sdpa" (one op of torch's)."""
    torch.manual_seed(seed)
    return Encoder(layers, hidden, attention).eval()


def tokens(batch: int = 2, length: int = 64) -> torch.Tensor:
    return torch.randint(0, 1000, (batch, length), generator=torch.Generator().manual_seed(1))


def main(layers: int = 4) -> None:
    import irscope as irs

    model, x = bert(layers=layers), tokens()
    graph = irs.load(model, x)
    fusion = irs.fuse(graph)
    classes = irs.dedup(fusion).classes
    run = irs.compile(fusion)
    print(f"{sum(1 for _ in graph.nodes())} nodes")
    print(f"{len(fusion.groups)} fusion groups, {len(classes)} classes, {len(run.kernels)} kernels")
    with torch.no_grad():
        expected = model(x)
    print(f"largest difference from eager {(run(x) - expected).abs().max().item():.2g}")
    assert len(run.kernels) < len(fusion.groups)
    assert torch.allclose(run(x), expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
