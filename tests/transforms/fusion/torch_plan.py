"""What PyTorch's legacy fuser groups, for comparison: programs whose ops tell themselves apart by a constant."""

from __future__ import annotations

import random

import irscope as irs
from irscope.transforms.fusion.fuse_pass import fuse

TENSOR = "Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu)"

Groups = list[list[int]]


def program(seed: int, size: int) -> str:
    """Sums with a factor of their own each, and products of matrices, which do not fuse."""
    choices = random.Random(seed)
    values = ["x", "y"]
    lines = [f"graph(%x : {TENSOR}, %y : {TENSOR}):"]
    for i in range(size):
        a, b = choices.choice(values[-8:]), choices.choice(values[-8:])
        if choices.random() < 0.25:
            lines.append(f"  %v{i} : {TENSOR} = aten::matmul(%{a}, %{b})")
        else:
            lines.append(f"  %k{i} : int = prim::Constant[value={i + 100}]()")
            lines.append(f"  %v{i} : {TENSOR} = aten::{choices.choice(['add', 'sub'])}(%{a}, %{b}, %k{i})")
        values.append(f"v{i}")
    kept = choices.sample(values[2:], min(size, 2))
    return "\n".join([*lines, f"  return ({', '.join(f'%{value}' for value in kept)})"])


def torch_groups(text: str) -> Groups:
    """By group, the constants of its ops."""
    import torch

    before = torch._C._jit_can_fuse_on_cpu_legacy()
    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    try:
        graph = torch._C.parse_ir(text)
        torch._C._jit_pass_dce(graph)
        torch._C._jit_pass_fuse(graph, False)
    finally:
        torch._C._jit_override_can_fuse_on_cpu_legacy(before)
    bodies = [node.g("Subgraph") for node in graph.nodes() if node.kind() == "prim::FusionGroup"]
    return sorted(
        sorted(node.output().toIValue() for node in body.nodes() if node.kind() == "prim::Constant") for body in bodies
    )


def our_groups(text: str) -> Groups:
    """The same of ours."""
    fusion = fuse(irs.parse(text), policy="torch-legacy")
    return sorted(
        sorted(node.attrs["value"] for node in group.blocks[0].nodes if node.op == "prim::Constant")
        for group in fusion.groups
    )
