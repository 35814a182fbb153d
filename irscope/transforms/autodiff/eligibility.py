"""Decides which nodes can be part of a differentiable subgraph; every refusal names the property that is missing."""

from __future__ import annotations

from collections.abc import Iterable

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Graph, Node, TensorType, Value, constant_of
from irscope.ops.registry import effect_of, schema_of
from irscope.transforms.autodiff.differentiable_ops import DIFFERENTIABLE, LEFT_OUTSIDE
from irscope.transforms.autodiff.requires_grad import may_require_grad
from irscope.transforms.grouping import Refusal

__all__ = ["GradientRules"]


class GradientRules:
    """The refusals of the nodes of one graph, each computed on first use."""

    def __init__(self, graph: Graph, requires_grad: Iterable[Value] | None) -> None:
        self.graph = graph
        self.db = alias_db_of(graph)
        self.grads = may_require_grad(graph, self.db, requires_grad)
        self._refusals: dict[Node, Refusal | None] = {}

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any differentiable subgraph; None when it can."""
        if node not in self._refusals:
            self._refusals[node] = self._judge(node)
        return self._refusals[node]

    def name(self, value: Value) -> str:
        """Returns a value's printed name, for use in a sentence."""
        return f"%{self.graph.names[value]}"

    def is_number(self, value: Value) -> bool:
        """Whether an unwritten non-tensor `prim::Constant` produces it: then each group that reads it has its own copy."""
        producer = self.graph.producer.get(value)
        if producer is None or producer.op != "prim::Constant" or isinstance(value.type, TensorType):
            return False
        return not self.db.is_written(value)

    def may_share(self, node: Node) -> bool:
        """Whether a result of a node may share memory with an older value."""
        return node.op == "prim::ConstantChunk" or effect_of(node) != "pure"

    def _judge(self, node: Node) -> Refusal | None:
        if node.op == "prim::Constant":
            what = f"{self.name(node.output)} is a constant, which is copied into each group that uses it"
            return Refusal("constant", what, (node,))
        if node.blocks:
            return Refusal("has-blocks", f"{node.op} has blocks of its own", (node,))
        if node.op in LEFT_OUTSIDE:
            what = f"{node.op} is a view, and a view that leaves a subgraph would be differentiated wrongly"
            return Refusal("view", what, (node,))
        if node.op == "aten::dropout" and constant_of(self.graph, node.inputs[-1]) is False:
            return Refusal("no-formula", "a dropout that does not train is left to the library", (node,))
        if not _has_formula(node):
            return Refusal("no-formula", f"there is no gradient formula for {node.op}", (node,))
        if self.grads.isdisjoint(node.inputs) and node.op != "prim::AutogradZero":
            return Refusal("no-gradient", f"nothing that {node.op} reads can require a gradient", (node, *node.inputs))
        return None


def _has_formula(node: Node) -> bool:
    schema = schema_of(node)
    if schema is None or not schema.overload:
        return node.op in DIFFERENTIABLE
    return f"{node.op}.{schema.overload}" in DIFFERENTIABLE
