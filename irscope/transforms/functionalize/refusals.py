"""What is said of a write that stays in place."""

from __future__ import annotations

from dataclasses import dataclass

from irscope.ir import Graph, Node, Value

__all__ = ["Refusal", "why_no_member"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a write stays in place."""

    node: Node
    target: Value
    rule: str
    because: str
    evidence: tuple[Value | Node, ...] = ()


def why_no_member(graph: Graph, target: Value, *, is_reshaped: bool) -> tuple[str, str, tuple[Value | Node, ...]]:
    """Why the memory of a value is not known by all of its names: rule, reason, evidence."""
    name, maker = f"%{graph.names[target]}", graph.producer.get(target)
    if is_reshaped:
        return "changes-shape", f"some op changes the shape of the tensor that {name} is", ()
    if maker is None:
        if target in graph.inputs:
            return "input", f"{name} is an input, and the caller sees what is written there", (target,)
        return "block-parameter", f"{name} is a parameter of a block, and may be a tensor of other names", (target,)
    if maker.op == "prim::Constant":
        return "constant", f"{name} is a constant tensor, which the next run finds as this one leaves it", (maker,)
    if maker.blocks:
        return "result-of-a-block", f"{name} is a result of {maker.op}, and may be a tensor of other names", (maker,)
    return "other-names", f"{name} may be memory that others know: {maker.op} gives it", (maker,)
