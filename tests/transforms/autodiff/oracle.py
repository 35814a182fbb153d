"""What torch's own slicer does with one op: the oracle of the table of differentiable overloads."""

from __future__ import annotations

from typing import Any

import torch

from irscope.errors import IrscopeError
from irscope.ops.schemas import parse_schema

__all__ = ["puts_into_subgraphs"]


def puts_into_subgraphs(schema: Any) -> bool | None:
    """Whether torch puts this overload into a subgraph when both its neighbours are in it; None if it cannot be asked.

    The neighbours matter: a view that is the whole of a subgraph goes out again, for it shares the subgraph's input.
    """
    text = str(schema)
    try:
        parsed = parse_schema(text)
    except IrscopeError:
        return None
    neighbour = "aten::tanh" if schema.name == "aten::sigmoid" else "aten::sigmoid"
    inputs, lines, operands = [], [], []
    for index, argument in enumerate(parsed.arguments):
        name, type = f"%a{index}", str(argument.type)
        inputs.append(f"{name} : {type}")
        operands.append(name)
        if type == "Tensor":
            lines.append(f"  %b{index} : Tensor = {neighbour}({name})")
            operands[-1] = f"%b{index}"
    results = [f"%r{index}" for index in range(len(parsed.returns))]
    declared = ", ".join(f"{name} : {result.type}" for name, result in zip(results, parsed.returns, strict=True))
    lines.append(f"  {declared} = {schema.name}({', '.join(operands)})")
    for index, result in enumerate(parsed.returns):
        if str(result.type) == "Tensor":
            lines.append(f"  %s{index} : Tensor = {neighbour}({results[index]})")
            results[index] = f"%s{index}"
    try:
        graph = torch._C.parse_ir(f"graph({', '.join(inputs)}):\n{chr(10).join(lines)}\n  return ({', '.join(results)})")
        if not any(node.kind() == schema.name and node.schema() == text for node in graph.nodes()):
            return None  # the text means another overload
        torch._C._jit_pass_create_autodiff_subgraphs(graph, 1)
    except RuntimeError:
        return None
    groups = [group.g("Subgraph") for group in graph.findAllNodes("prim::DifferentiableGraph")]
    return any(node.kind() == schema.name for group in groups for node in group.nodes())
