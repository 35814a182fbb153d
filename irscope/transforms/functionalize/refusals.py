"""Reasons for writes that stay in place."""

from __future__ import annotations

from dataclasses import dataclass

from irscope.ir import Graph, Node, Value

__all__ = ["Refusal", "why_no_member"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write that stays in place, with the reason."""

    node: Node
    target: Value
    rule: str
    because: str
    evidence: tuple[Value | Node, ...] = ()


def why_no_member(graph: Graph, target: Value, *, is_reshaped: bool) -> tuple[str, str, tuple[Value | Node, ...]]:
    """Returns why a value's memory may have unknown names: rule, reason, evidence."""
    name, producer = f"%{graph.names[target]}", graph.producer.get(target)
    if is_reshaped:
        return "changes-shape", f"an op changes the shape of {name} in place", ()
    if producer is None:
        if target in graph.inputs:
            return "input", f"{name} is an input, and the caller sees what is written there", (target,)
        return "block-parameter", f"{name} is a parameter of a block, and may be a tensor with other names", (target,)
    if producer.op == "prim::Constant":
        return "constant", f"{name} is a constant tensor, and the next run would see what this one writes", (producer,)
    if producer.blocks:
        return "result-of-a-block", f"{name} is a result of {producer.op}, and may be a tensor with other names", (producer,)
    return "other-names", f"{name} is a result of {producer.op}, which may return memory with other names", (producer,)
