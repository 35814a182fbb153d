"""Which ops hold a program in a block, and when it runs: asked by name, since none of them has a schema."""

from __future__ import annotations

from typing import Final

from irscope.ir.core import Node

__all__ = ["CONTROL_FLOW", "GROUPS", "ISOLATED", "has_kernel"]

CONTROL_FLOW: Final = frozenset({"prim::If", "prim::Loop"})
"""They run a block once, or not, or again and again; inside, the values around them are visible."""

GROUPS: Final = frozenset({
    "prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::MKLDNNGroup", "prim::TensorExprGroup",
    "prim::TensorExprDynamicGroup", "prim::DifferentiableGraph", "prim::FunctionalGraph", "prim::FallbackGraph",
    "prim::StaticSubgraph",
})  # fmt: skip
"""They run their one block once, in their place, on their operands, and do nothing else. It is a graph of its own: nothing
but its parameters is visible inside. Torch keeps it in the attribute `Subgraph`, and all its fusers and guards for them
(TorchScript 2.13) make nodes of these names."""

ISOLATED: Final = GROUPS | {"prim::fork", "prim::awaitable"}
"""Ops whose block sees its parameters alone: groups, and tasks, whose block runs at some time until somebody waits."""


def has_kernel(node: Node) -> bool:
    """Whether a node is a group that is to run as kernels: one of kind `"view"` runs as its views.

    >>> has_kernel(Node(1, "prim::FusionGroup")), has_kernel(Node(1, "prim::FusionGroup", attrs={"kind": "view"}))
    (True, False)
    """
    return node.op == "prim::FusionGroup" and node.attrs.get("kind") != "view"
