"""GPT-2 of the transformers package: every layer is the same program, and a few kernels serve all of them.

The layers differ in their weights alone. Groups are compared op by op and size by size; one body is compiled for each class.

    python examples/gpt2.py [layers]
"""

import sys

import torch
from torch import nn


class Language(nn.Module):
    """GPT2Model with one plain argument and one plain result."""

    def __init__(self, layers: int):
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        config = GPT2Config(
            vocab_size=500, n_positions=64, n_embd=64, n_layer=layers, n_head=4, attn_implementation="eager",
            use_cache=False, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        self.model = GPT2Model(config)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens, return_dict=False)[0]


def gpt2(layers: int = 4, seed: int = 0) -> Language:
    torch.manual_seed(seed)
    return Language(layers).eval()


def main(layers: int = 4) -> None:
    import irscope as irs

    model = gpt2(layers)
    tokens = torch.randint(0, 500, (1, 32), generator=torch.Generator().manual_seed(1))
    fusion = irs.fuse(irs.load(model, tokens))
    found = irs.dedup(fusion)
    largest = found.classes[0]
    print(f"{len(fusion.groups)} fusion groups in {len(found)} classes: so many kernels at most")
    ops = [node.op for node in largest.representative.blocks[0].nodes if node.op != "prim::Constant"]
    print(f"the largest class has {len(largest)} groups of {', '.join(ops)}")
    assert len(largest) >= layers
    assert len(found) < len(fusion.groups)
    one, other = largest.members[:2]
    print(found.difference(one, other))
    assert found.difference(one, other)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
