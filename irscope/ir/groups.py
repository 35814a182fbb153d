"""Ops that have a program in a block, classified by when it runs; by name, since none of them has a schema."""

from __future__ import annotations

from typing import Final

from irscope.ir.core import Node

__all__ = ["CONTROL_FLOW", "GROUPS", "ISOLATED", "has_kernel"]

CONTROL_FLOW: Final = frozenset({"prim::If", "prim::Loop"})
"""Ops that run a block never, once or repeatedly; values of the enclosing blocks are visible inside."""

GROUPS: Final = frozenset({
    "prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::MKLDNNGroup", "prim::TensorExprGroup",
    "prim::TensorExprDynamicGroup", "prim::DifferentiableGraph", "prim::FunctionalGraph", "prim::FallbackGraph",
    "prim::StaticSubgraph",
})  # fmt: skip
"""Ops that only run their one block, once, in their place, on their operands. The block is a graph of its own: only
its parameters are visible inside. Torch keeps it in the attribute `Subgraph`, and all its fusers and their guards
(TorchScript 2.13) create nodes of these names."""

ISOLATED: Final = GROUPS | {"prim::fork", "prim::awaitable"}
"""Ops whose block sees only its parameters: groups, and tasks, whose block runs at some time before a wait returns."""


def has_kernel(node: Node) -> bool:
    """Whether a node is a group that runs as kernels; one of kind `"view"` runs as its views.

    >>> has_kernel(Node(1, "prim::FusionGroup")), has_kernel(Node(1, "prim::FusionGroup", attrs={"kind": "view"}))
    (True, False)
    """
    return node.op == "prim::FusionGroup" and node.attrs.get("kind") != "view"
