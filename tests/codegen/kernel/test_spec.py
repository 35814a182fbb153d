"""Specs are keys: equal for equal kernels and nothing else, without sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from irscope.codegen.kernel.spec import (
    Instruction,
    KernelSpec,
    Launch,
    Operand,
    Result,
    constant_bits,
    constant_value,
)
from irscope.errors import CodegenError

X = Operand("float32", "tensor", (2, 1))
CODE = (Instruction("input", (), "float32", 0, node=0), Instruction("exp", (0,), "float32", node=1))
SPEC = KernelSpec((X,), CODE, (Result("float32", (2, 1), 1),), 2)


def test_the_node_of_an_instruction_is_not_part_of_the_key() -> None:
    moved = replace(SPEC, instructions=tuple(replace(code, node=code.node + 5) for code in CODE))
    assert moved == SPEC
    assert hash(moved) == hash(SPEC)
    assert moved.fingerprint == SPEC.fingerprint


@pytest.mark.parametrize("other", [
    replace(SPEC, nontemporal=True),
    replace(SPEC, row_limit=8),
    replace(SPEC, instructions=(CODE[0], Instruction("log", (0,), "float32"))),
    replace(SPEC, inputs=(Operand("float32", "tensor", (0, 1)),)),
    replace(SPEC, inputs=(Operand("float16", "tensor", (2, 1)),)),
    replace(SPEC, outputs=(Result("float32", (2, 2), 1),)),
])  # fmt: skip
def test_everything_else_is(other: KernelSpec) -> None:
    assert other != SPEC
    assert other.fingerprint != SPEC.fingerprint
    assert other.name != SPEC.name


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_constants_keep_their_sign_and_are_rounded_to_their_type(dtype: str) -> None:
    assert constant_bits(0.0, dtype) != constant_bits(-0.0, dtype)
    assert constant_bits(math.nan, dtype) == constant_bits(math.nan, dtype)
    assert constant_value(constant_bits(-math.inf, dtype), dtype) == -math.inf
    third = constant_value(constant_bits(1 / 3, dtype), dtype)
    assert third == constant_value(constant_bits(third, dtype), dtype)
    assert (third == 1 / 3) == (dtype == "float64")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_constants_round_as_torch_rounds(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**64, 2000, np.uint64).view(np.float64)
    near = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.random.default_rng(2).integers(-46, 40, 2000)
    edges = [65504.0, 65519.99, 65520.0, 3.4028235677973366e38, 3.3961775292304601e38, 1e-45, 7e-46, 2**-25, 2**-24]
    values = [*bits[np.isfinite(bits)], *near, *edges, *(-edge for edge in edges), math.inf, -math.inf, 0.0]
    wanted = torch.tensor(values, dtype=torch.float64)
    wanted = (wanted.float() if dtype == "bfloat16" else wanted).to(getattr(torch, dtype)).double().tolist()
    found = [constant_value(constant_bits(float(value), dtype), dtype) for value in values]
    assert found == wanted


def test_a_launch_counts_each_tensor_once() -> None:
    inputs = (X, Operand("float16", "tensor", (0, 1)), Operand("float64", "scalar"))
    code = (*CODE, Instruction("input", (), "float16", 1), Instruction("input", (), "float64", 2))
    launch = Launch(
        KernelSpec(inputs, code, SPEC.outputs, 2), (10, 100), (0, 1, 2), (0,), ((100, 1), (100, 1), (0, 1), ())
    )
    assert launch.elements == 1000
    assert launch.bytes_moved == 4000 + 4000 + 200, "a number is no tensor"


@pytest.mark.parametrize(("pattern", "reduced"), [((2, 0), ()), ((0, 1), ()), ((0, 0, 1), (0, 1, 2)), ((2, 0), (0,))])
def test_a_result_that_every_step_of_a_loop_would_write_is_refused(pattern: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    with pytest.raises(CodegenError, match="does not move along"):
        replace(SPEC, outputs=(Result("float32", pattern, 1),), rank=len(pattern), reduced=reduced)
