"""Kernels for the processor: every op on every type in every layout equals NumPy, and nothing outside the results is
written.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.llvm.emit import GENERIC, Target, emit_llvm
from irscope.ops.expr.expression import Expr, call, cast, const, input_element, where
from irscope.runtime.cpu.compiler import Host
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.kernels import FLOATS, INTEGERS, LAYOUTS, check_exprs, expected, laid_out, plan_of, run, sample
from tests.codegen.llvm.test_reductions import device_for
from tests.processors import restricted_to

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]

SHAPE = (5, 37)


class PlainDevice(CpuDevice):
    """The processor as any 64-bit processor: narrow vectors, no half-precision hardware."""

    @property
    def host(self) -> Host:  # type: ignore[override]
        real = super().host
        narrow = [name[1:] for name in real.features.split(",") if not any(word in name for word in ("avx", "f16c", "fma"))]
        return replace(restricted_to(real, narrow), target=GENERIC)


@pytest.fixture(scope="module", params=["host", "plain", "numpy"])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = ObjectStore(tmp_path_factory.mktemp("objects") / "cpu")
    if request.param == "numpy":
        return NumpyDevice()
    return (PlainDevice if request.param == "plain" else CpuDevice)(store=store, threads=1)


def float_exprs(dtype: str) -> list[Expr]:
    """Every op on floats, halves through float32 as ops do it."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    x, y = (cast(input_element(i, dtype), wide) for i in range(2))
    two = [call(op, x, y) for op in ("add", "sub", "mul", "div", "minimum", "maximum", "fmod", "remainder")]
    one = [call(op, x) for op in ("neg", "abs", "sign", "floor", "ceil", "trunc", "round", "reciprocal", "sqrt")]
    tests = [call(op, x, y) for op in ("eq", "ne", "lt", "le", "gt", "ge")] + [call("isnan", x)]
    chosen = [where(x < y, x * 2.0, y + const(0.5, wide)), where(call("isnan", x), 0.0, x)]
    return [cast(expr, dtype) for expr in two + one + chosen] + tests + [cast(x, "bool")]


def integer_exprs(dtype: str) -> list[Expr]:
    """Every op on integers; divisors are known and harmless, as ops promise."""
    x, y = input_element(0, dtype), input_element(1, dtype)
    two = [call(op, x, y) for op in ("add", "sub", "mul", "minimum", "maximum", "and", "or", "xor", "shl", "shr")]
    one = [call("abs", x), call("sign", x), call("not", x), call("neg", x)]
    by = 3 if dtype == "uint8" else -3
    divided = [call(op, x, by) for op in ("div", "fmod", "remainder")]
    tests = [call(op, x, y) for op in ("eq", "ne", "lt", "le", "gt", "ge")]
    casts = [cast(x, other) for other in (*INTEGERS, "float32", "float64", "float16", "bool") if other != dtype]
    return two + one + divided + tests + casts + [where(x < y, x, y)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_every_op_on_every_type_in_every_layout(device: Any, dtype: str, layout: str) -> None:
    rng = np.random.default_rng(LAYOUTS.index(layout))
    operands = [laid_out(sample(dtype, SHAPE, rng), layout, SHAPE), laid_out(sample(dtype, SHAPE, rng), "dense", SHAPE)]
    check_exprs(device.prepare, exprs_of(dtype), operands, [dtype] * 2, SHAPE)


def exprs_of(dtype: str) -> list[Expr]:
    return float_exprs(dtype) if dtype in FLOATS else integer_exprs(dtype) if dtype != "bool" else bool_exprs()


def bool_exprs() -> list[Expr]:
    x, y = input_element(0, "bool"), input_element(1, "bool")
    ops = [call(op, x, y) for op in ("and", "or", "xor", "eq", "ne", "lt")]
    return [*ops, ~x, cast(x, "float32"), cast(x, "int64"), cast(x, "uint8"), where(x, cast(y, "int32"), const(7, "int32"))]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (1, 2), (2, 1), (7, 1), (1, 31), (1, 32), (1, 33), (3, 63), (64, 64), (2, 129)])
def test_every_size(device: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, y = input_element(0, "float32"), input_element(1, "float32")
    exprs = [x * y, cast(x > y, "int64")]
    for first, second in (("dense", "dense"), ("transposed", "row"), ("sliced", "column")):
        operands = [laid_out(sample("float32", shape, rng), layout, shape) for layout in (first, second)]
        plan = plan_of(exprs, operands, ["float32"] * 2, shape)
        found = run(device.prepare(plan), plan, operands)
        for got, want in zip(found, expected(exprs, operands, ["float32"] * 2, shape), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", [
    Target(), Target(registers=4), Target(32, native_half=True), Target(64, native_half=True, masks=True, registers=4),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("columns", [5, 8, 24, 40, 130])
def test_every_vector_width_gives_the_same_bits(target: Target, columns: int, tmp_path: Path) -> None:
    device = device_for(target, tmp_path)
    shape, rng = (3, columns), np.random.default_rng(2)
    operands = [laid_out(sample("float16", shape, rng), "sliced", shape), laid_out(sample("float32", shape, rng), "row", shape)]
    x, y = cast(input_element(0, "float16"), "float32"), input_element(1, "float32")
    exprs = [cast(call("maximum", x, y), "float16"), x < y, call("floor", y)]
    plan = plan_of(exprs, operands, ["float16", "float32"], shape)
    for got, want in zip(run(device.prepare(plan), plan, operands), expected(exprs, operands, ["float16", "float32"], shape), strict=True):
        np.testing.assert_array_equal(got, want)


def test_lines_know_their_nodes() -> None:
    x = input_element(0, "float32")
    plan = plan_of([call("exp", x), call("sqrt", x)], [np.zeros((4, 4), np.float32)], ["float32"], (4, 4))
    source = emit_llvm(plan.specs[0])
    lines = source.text.splitlines()
    assert len(lines) == len(source.line_nodes)
    assert any("llvm.sqrt" in lines[line] for line in source.lines_of(1))
    assert not any("llvm.sqrt" in lines[line] for line in source.lines_of(0))


def test_nontemporal_stores_write_the_same(tmp_path: Path) -> None:
    device = CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=1)
    values = np.random.default_rng(0).normal(size=(3, 333)).astype(np.float32)
    plan = plan_of([call("tanh", input_element(0, "float32"))], [values], ["float32"], values.shape)
    streaming = replace(plan.launches[0], spec=replace(plan.specs[0], nontemporal=True))
    assert "!nontemporal" in emit_llvm(streaming.spec).text
    assert "!nontemporal" not in emit_llvm(plan.specs[0]).text
    usual = run(device.prepare(plan), plan, [values])
    past = run(device.prepare(replace(plan, launches=(streaming,))), plan, [values])
    np.testing.assert_array_equal(usual[0], past[0])
