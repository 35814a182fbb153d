"""A kernel's spec as a graph, so that tools that compare programs can compare kernels.

Each instruction is a node `kernel::…`. An operand is a parameter that a `kernel::read` turns into elements; how it steps along
the loops is an attribute of that node (`stride_classes`, one for each loop). Properties of the kernel as a whole are returned
separately (`spec_attributes`). Only the node of the program that an instruction came from is left out.
"""

from __future__ import annotations

from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope.codegen.kernel.spec import KernelSpec, constant_value
from irscope.ir import Graph, TensorType, Value
from irscope.ir.builder import GraphBuilder

__all__ = ["spec_attributes", "spec_graph"]

_SPACE: Final = "kernel::"


def spec_graph(spec: KernelSpec) -> Graph:
    """Return the instructions of a kernel as nodes of a graph.

    >>> from irscope.codegen.kernel import UNIT, Instruction, Operand, Result
    >>> x = Operand("float32", "tensor", (UNIT,))
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> print(spec_graph(KernelSpec((x,), code, (Result("float32", (UNIT,), 1),), rank=1)))
    graph(%x0 : FloatTensor):
      %t0 : FloatTensor = kernel::read[kind="tensor", stride_classes=[1]](%x0)
      %t1 : FloatTensor = kernel::exp(%t0)
      %y0 : FloatTensor = kernel::write[stride_classes=[1]](%t1)
      return (%y0)
    """
    build = GraphBuilder(spec.name)
    params = [build.input(f"x{place}", TensorType(operand.dtype)) for place, operand in enumerate(spec.inputs)]
    made: list[Value] = []
    for place, step in enumerate(spec.instructions):
        name, type = f"t{place}", TensorType(step.dtype)
        if step.op == "const" and step.value is not None:
            made.append(build.constant(constant_value(step.value, step.dtype), type, name))
        elif step.op == "input" and step.value is not None:
            operand = spec.inputs[step.value]
            attrs: FrozenDict[str, Any] = FrozenDict(kind=operand.kind, stride_classes=operand.pattern)
            made.append(build.op(f"{_SPACE}read", params[step.value], type=type, name=name, attrs=attrs))
        else:
            operands = [made[arg] for arg in step.args]
            made.append(build.op(f"{_SPACE}{step.op}", *operands, type=type, name=name))
    results = [
        build.op(
            f"{_SPACE}write", made[result.instruction], type=TensorType(result.dtype), name=f"y{place}",
            attrs=FrozenDict(stride_classes=result.pattern),
        )
        for place, result in enumerate(spec.outputs)
    ]  # fmt: skip
    return build.finish(results)


def spec_attributes(spec: KernelSpec) -> dict[str, Any]:
    """Return the properties of a kernel as a whole: loops, row limit, reduced loops and flags."""
    found: dict[str, Any] = {"loops": spec.rank, "static_row_limit": spec.row_limit}
    found |= {"reduced": spec.reduced} if spec.reduced else {}
    return found | {name: True for name in ("nontemporal", "exact", "in_place") if getattr(spec, name)}
