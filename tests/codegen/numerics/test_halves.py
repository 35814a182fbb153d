"""Every function of one number, on each of the 65,536 float16 and bfloat16 numbers: torch's class, within the stated bound.
And the numbers beside halves, which torch rounds in some ops and not in others."""

from pathlib import Path
from typing import Any

import pytest

from irscope.ir.types import FLOAT, TensorType
from tests.codegen.edges import Case, cases, torch
from tests.codegen.kernels import call, planned, run
from tests.codegen.numerics.test_edges import compare, device_of, flat, words
from tests.work import long

pytest.importorskip("llvmlite")


def functions(dtype: str) -> list[Case]:
    """What is computed of one number alone, each thing once; of the overloads that take more numbers, one call."""
    alone = {
        (case.schema.full_name, case.numbers.get("approximate")): case
        for case in cases(dtype, every_number=False)
        if list(case.types.values()) == [dtype]
    }
    return list({str(case.expr): case for case in alone.values()}.values())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("text", ["cpu", *long(["cuda", "numpy"])])
def test_every_half(text: str, dtype: str, tmp_path: Path) -> None:
    all_of_them = torch.arange(1 << 16).to(torch.int16).view(getattr(torch, dtype))
    assert compare(text, device_of(text, tmp_path), functions(dtype), lambda types: [("", *flat([all_of_them]))]) > 60


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("text", ["cpu", "numpy", "cuda"])
def test_numbers_that_arrive_with_the_call_are_rounded_where_torch_does(text: str, dtype: str, tmp_path: Path) -> None:
    """0.1003 is not a half: a comparison finds the half next to it, and a product takes it as it is."""
    device, value = device_of(text, tmp_path), 0.1003
    x = torch.cat([torch.linspace(-3, 3, 300), torch.tensor([value])]).to(getattr(torch, dtype))
    ops = ("mul", "div", "add", "sub", "remainder", "eq", "ge")

    def body(b: Any, x: Any, number: Any) -> list[Any]:
        return [call(b, op, x, number, *((1,) if op in ("add", "sub") else ())) for op in ops]

    plan = planned(body, TensorType(dtype, tuple(x.shape), (1,)), FLOAT)
    for op, found in zip(ops, run(device.prepare(plan), plan, [words(x), value]), strict=True):
        assert (found == words(getattr(torch, op)(x, value))).all(), op
