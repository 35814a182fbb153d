"""Random expression graphs: kernels equal NumPy, exactly where every step is exact and closely where every step is
smooth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.ops.expr.expression import Expr, call, cast, const, input_element, where
from irscope.runtime.cpu.device import CpuDevice
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedPlan
from tests.codegen.groups import run
from tests.codegen.kernels import LAYOUTS, expected, laid_out, plan_of

Array = np.ndarray[Any, Any]

INTEGRAL = ("int64", "int32", "int16", "int8", "uint8")


class Draw:
    """One random kernel: expressions, and operands in random layouts."""

    def __init__(self, seed: int, *, smooth: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.smooth = smooth
        rows, columns = int(self.rng.integers(1, 5)), int(self.rng.choice([1, 3, 8, 31, 32, 33, 65, 100]))
        self.shape = (rows, columns)
        choices = ("float32", "float64") if smooth else ("float32", "float64", *INTEGRAL, "bool")
        self.dtypes = [str(self.rng.choice(choices)) for _ in range(self.rng.integers(1, 5))]
        self.operands = [
            laid_out(self.numbers(dtype), str(self.rng.choice(LAYOUTS)), self.shape) for dtype in self.dtypes
        ]
        self.pool: list[Expr] = [input_element(i, dtype) for i, dtype in enumerate(self.dtypes)]
        for _ in range(self.rng.integers(3, 25)):
            self.pool.append(self.step())
        self.exprs = self.pool[-int(self.rng.integers(1, 4)):]

    def numbers(self, dtype: str) -> Array:
        if dtype == "bool":
            return self.rng.random(self.shape) < 0.5
        if self.smooth:
            return self.rng.uniform(-2, 2, self.shape).astype(dtype)
        return (
            self.rng.integers(0, 9, self.shape) * (1 if dtype == "uint8" else self.rng.choice([-1, 1], self.shape))
        ).astype(dtype)

    def pick(self, dtype: str | None = None) -> Expr:
        fitting = [expr for expr in self.pool if dtype is None or expr.dtype == dtype]
        return fitting[int(self.rng.integers(len(fitting)))] if fitting else cast(self.pick(), str(dtype))

    def step(self) -> Expr:
        return self.smooth_step() if self.smooth else self.exact_step()

    def smooth_step(self) -> Expr:
        """A function whose value and slope stay small."""
        x = self.pick()
        y = self.pick(x.dtype)
        match int(self.rng.integers(9)):
            case 0:
                return call("tanh", x + y)
            case 1:
                return call("sigmoid", x * y)
            case 2:
                return call("sin", x) * call("cos", y)
            case 3:
                return call("erf", x - y)
            case 4:
                return call("log1p", call("abs", x))
            case 5:
                return call("rsqrt", x * x + 1.0)
            case 6:
                return call("exp", -call("abs", x)) * 0.5
            case 7:
                return call("maximum", x, y) * 0.75
        return cast(
            call("expm1", call("minimum", call("abs", x), const(1.0, x.dtype))),
            str(self.rng.choice(["float32", "float64"])),
        )

    def exact_step(self) -> Expr:
        """A step without rounding: floats stay small multiples of 1/4, integers wrap around."""
        x = self.pick()
        y = self.pick(x.dtype)
        kind = int(self.rng.integers(8))
        if kind == 0:
            return (
                cast(
                    x,
                    str(self.rng.choice(["float32", "int64", "int32", "int8", "bool"]))
                    if x.dtype != "uint8"
                    else "int64",
                )
                if not x.dtype.startswith("float")
                else call("floor", x * 0.25)
            )
        if kind == 1:
            return where(self.pick("bool"), x, y)
        if kind == 2:
            return call(str(self.rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])), x, y)
        if x.dtype == "bool":
            return call(str(self.rng.choice(["and", "or", "xor"])), x, y)
        if kind == 3:
            return call(str(self.rng.choice(["minimum", "maximum"])), x, y)
        if x.dtype.startswith("float"):
            bounded = call("maximum", call("minimum", x, const(64.0, x.dtype)), const(-64.0, x.dtype))
            return (
                call(str(self.rng.choice(["add", "sub"])), bounded, call("fmod", y, const(8.0, x.dtype)))
                if kind < 6
                else call("neg", bounded)
            )
        return (
            call(str(self.rng.choice(["add", "sub", "mul", "and", "or", "xor"])), x, y)
            if kind < 7
            else call("remainder", x, 5)
        )


@pytest.mark.parametrize("smooth", [False, True], ids=["exact", "smooth"])
@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_kernels_equal_numpy(device: CpuDevice, start: int, smooth: bool) -> None:
    for seed in range(start, start + 20):
        check(Draw(seed, smooth=smooth), device.prepare, f"seed {seed}")


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 21_000, 500))
def test_many_random_kernels_equal_numpy(device: CpuDevice, start: int) -> None:
    for seed in range(start, start + 500):
        check(Draw(seed, smooth=seed % 2 == 0), device.prepare, f"seed {seed}")


@pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")
def test_random_kernels_equal_numpy_as_cuda_text(tmp_path: Path) -> None:
    for seed in range(200, 212):
        check(Draw(seed, smooth=seed % 2 == 0), lambda plan: EmulatedPlan(plan, tmp_path, vector=True), f"seed {seed}")


def check(draw: Draw, prepare: Any, what: str) -> None:
    plan = plan_of(draw.exprs, draw.operands, draw.dtypes, draw.shape)
    found = run(prepare(plan), plan, draw.operands)
    for expr, got, want in zip(
        draw.exprs, found, expected(draw.exprs, draw.operands, draw.dtypes, draw.shape), strict=True
    ):
        if draw.smooth:
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=f"{what}: {expr.op}")
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"{what}: {expr.op} in {expr.dtype}")
