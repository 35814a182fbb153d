"""The table of differentiable overloads is what torch's slicer does, asked for every schema of its registry."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from irscope.errors import IrscopeError  # noqa: E402
from irscope.ops.registry import lookup  # noqa: E402
from irscope.ops.schemas import parse_schema  # noqa: E402
from irscope.transforms.gradient_rules import DIFFERENTIABLE, LEFT_OUTSIDE  # noqa: E402


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


def test_the_table_is_what_torch_does_with_each_overload() -> None:
    answers = {
        str(schema).partition("(")[0]: puts_into_subgraphs(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prim::")) and schema.returns
    }
    asked = {key: answer for key, answer in answers.items() if answer is not None}
    assert len(asked) > 3000
    assert {key for key, answer in asked.items() if answer} == DIFFERENTIABLE - {"prim::ConstantChunk"}


def test_views_that_torch_leaves_outside_have_formulas_nonetheless() -> None:
    for name in LEFT_OUTSIDE:
        schema = torch._C._get_schema(name, "int" if name == "aten::transpose" else "")
        assert puts_into_subgraphs(schema) is False
        assert lookup(name) is not None
