"""Every pointwise op that has an expression: its kernel gives torch's values, element type and strides."""

from typing import Any

import pytest

from irscope.errors import CodegenError
from irscope.ir.schema import REQUIRED, OpSchema
from irscope.ir.types import TensorType
from irscope.runtime.cpu.device import CpuDevice
from tests.codegen.kernels import call, planned
from tests.ops.oracle import POINTWISE

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

PLAIN = {"Scalar": 0.75, "float": 0.75, "int": 2, "bool": False}
"""Arguments that have no default, by type."""

SCHEMAS = [
    schema for op in POINTWISE for schema in op.schemas
    if op.expression and op.effect == "pure" and not op.operand_axes and op.name.startswith("aten::")
]  # fmt: skip


def arguments(schema: OpSchema, dtype: str) -> list[Any] | None:
    """Tensors, turned in memory and otherwise, and plain numbers; None where the schema wants something else."""
    generator = torch.Generator().manual_seed(3)
    found: list[Any] = []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor":
            values = torch.rand(4, 37, generator=generator) * 0.7 + 0.2
            found.append((values.T.contiguous().T if found else values).to(getattr(torch, dtype)))
        elif argument.default is not REQUIRED:
            found.append(argument.default)
        elif kind in PLAIN:
            found.append(PLAIN[kind])
        else:
            return None
    return found if any(isinstance(value, torch.Tensor) for value in found) else None


def eager(schema: OpSchema, values: list[Any]) -> Any:
    overload = getattr(getattr(torch.ops.aten, schema.name.removeprefix("aten::")), schema.overload or "default")
    named = [(argument, value) for argument, value in zip(schema.arguments, values, strict=True)]
    plain = [value for argument, value in named if not argument.keyword_only]
    return overload(*plain, **{argument.name: value for argument, value in named if argument.keyword_only})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernels_of_single_ops_give_what_torch_gives(device: CpuDevice, dtype: str) -> None:
    checked = 0
    for schema in SCHEMAS:
        values = arguments(schema, dtype)
        if values is None:
            continue
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        try:
            want = eager(schema, values)
        except RuntimeError:
            continue  # torch has no such call: a clamp without bounds

        def body(builder: Any, *params: Any, values: list[Any] = values, name: str = schema.name) -> Any:
            given = iter(params)
            return call(builder, name, *(next(given) if isinstance(value, torch.Tensor) else value for value in values))

        types = [TensorType(dtype, tuple(tensor.shape), tensor.stride()) for tensor in tensors]
        try:
            plan = planned(body, *types)
            prepared = device.prepare(plan)
        except CodegenError:
            continue  # the op says that no kernel computes this, and fusion leaves it alone
        (type,) = plan.outputs
        found = torch.empty_strided(type.shape, type.strides, dtype=getattr(torch, str(type.dtype)))
        prepared([found.data_ptr()], [tensor.data_ptr() for tensor in tensors])
        assert (found.dtype, found.shape, found.stride()) == (want.dtype, want.shape, want.stride()), schema.full_name
        rtol = 2e-5 if dtype == "float32" else 1e-2
        torch.testing.assert_close(found, want, rtol=rtol, atol=rtol, equal_nan=True, msg=schema.full_name)
        checked += 1
    assert checked > 100
