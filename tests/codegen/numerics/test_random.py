"""Random expression graphs and random groups with reductions equal NumPy, exactly where every step is exact."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.errors import CodegenError
from irscope.ir import GraphBuilder
from irscope.ops.expr import Expr, call, cast, const, input_element, where
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.device import Device, ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedPlan
from tests.codegen.kernels import LAYOUTS, expected, laid_out, plan_of, planned, run
from tests.codegen.kernels import call as node
from tests.work import blocks, long, some

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
        self.operands = [laid_out(self.numbers(dtype), str(self.rng.choice(LAYOUTS)), self.shape) for dtype in self.dtypes]
        self.pool: list[Expr] = [input_element(i, dtype) for i, dtype in enumerate(self.dtypes)]
        for _ in range(self.rng.integers(3, 25)):
            self.pool.append(self.step())
        self.exprs = self.pool[-int(self.rng.integers(1, 4)) :]

    def numbers(self, dtype: str) -> Array:
        if dtype == "bool":
            return self.rng.random(self.shape) < 0.5
        if self.smooth:
            return self.rng.uniform(-2, 2, self.shape).astype(dtype)
        return (self.rng.integers(0, 9, self.shape) * (1 if dtype == "uint8" else self.rng.choice([-1, 1], self.shape))).astype(dtype)

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
        return cast(call("expm1", call("minimum", call("abs", x), const(1.0, x.dtype))), str(self.rng.choice(["float32", "float64"])))

    def exact_step(self) -> Expr:
        """A step without rounding: floats stay small multiples of 1/4, integers wrap around."""
        x = self.pick()
        y = self.pick(x.dtype)
        kind = int(self.rng.integers(8))
        if kind == 0:
            return (
                cast(x, str(self.rng.choice(["float32", "int64", "int32", "int8", "bool"])) if x.dtype != "uint8" else "int64")
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
        return call(str(self.rng.choice(["add", "sub", "mul", "and", "or", "xor"])), x, y) if kind < 7 else call("remainder", x, 5)


@pytest.mark.parametrize("smooth", [False, True], ids=["exact", "smooth"])
@pytest.mark.parametrize("seeds", [*some(blocks(0, 5, 20), 2), *long(blocks(1000, 40, 250))], ids=lambda seeds: str(seeds.start))
def test_random_kernels_equal_numpy(device: CpuDevice, seeds: range, smooth: bool) -> None:
    for seed in seeds:
        check_kernel(Draw(seed, smooth=smooth), device.prepare, f"seed {seed}")


@pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")
def test_random_kernels_equal_numpy_as_cuda_text(tmp_path: Path) -> None:
    for seed in range(200, 212):
        processors = 4 * (seed // 2 % 2)  # many, that share rows and cut them, or none that could be idle
        emulated = partial(EmulatedPlan, folder=tmp_path, vector=True, multiprocessors=processors)
        check_kernel(Draw(seed, smooth=seed % 2 == 0), emulated, f"seed {seed}")


def check_kernel(draw: Draw, prepare: Any, what: str) -> None:
    plan = plan_of(draw.exprs, draw.operands, draw.dtypes, draw.shape)
    found = run(prepare(plan), plan, draw.operands)
    for expr, got, want in zip(draw.exprs, found, expected(draw.exprs, draw.operands, draw.dtypes, draw.shape), strict=True):
        if draw.smooth:
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=f"{what}: {expr.op}")
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"{what}: {expr.op} in {expr.dtype}")


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CpuDevice:
    pytest.importorskip("llvmlite")
    return CpuDevice(store=ObjectStore(tmp_path_factory.mktemp("objects") / "cpu"), threads=2)


class ReductionDraw:
    """One random group, written twice: as nodes, and on arrays."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        rank = int(self.rng.integers(1, 5))
        self.shape = tuple(int(size) for size in self.rng.choice([1, 2, 3, 5, 17, 33, 70], rank))
        while np.prod(self.shape) > 20_000:
            self.shape = (*self.shape[:-1], 2) if self.shape[-1] > 2 else self.shape[1:]
        rank = len(self.shape)
        self.axes = sorted(self.rng.choice(rank, int(self.rng.integers(1, rank + 1)), replace=False).tolist())
        self.inputs = [self.operand() for _ in range(int(self.rng.integers(1, 4)))]
        self.steps = int(self.rng.integers(2, 9))
        self.plan_seed = int(self.rng.integers(1 << 30))

    def operand(self) -> Array:
        """Numbers in some layout; often broadcast along some dimensions."""
        sizes = [1 if self.rng.random() < 0.2 else size for size in self.shape]
        order = self.rng.permutation(len(sizes)) if self.rng.random() < 0.5 else np.arange(len(sizes))
        dtype = np.float32 if self.rng.random() < 0.8 else np.float64
        memory = self.rng.uniform(-2, 2, [sizes[axis] + int(self.rng.integers(2)) for axis in order]).astype(dtype)
        view = memory[tuple(slice(sizes[axis]) for axis in order)].transpose(np.argsort(order))
        return view[0, ...] if self.rng.random() < 0.1 and view.shape[0] == 1 else view

    def write(self, m: Any, values: list[Any]) -> list[Any]:
        """The program in terms of a machine `m`; the same draws whatever the machine."""
        rng = np.random.default_rng(self.plan_seed)
        full = list(values)
        full.append(m.whole(full))
        small: list[Any] = []
        outputs: list[Any] = []
        for _ in range(self.steps):
            x, y = full[int(rng.integers(len(full)))], full[int(rng.integers(len(full)))]
            kind = int(rng.integers(8))
            if kind < 3:
                full.append(m.pointwise(int(rng.integers(5)), x, y))
            elif kind < 6:
                keep, word = bool(rng.integers(2)), str(rng.choice(["sum", "mean", "amax", "amin", "var"]))
                found = m.reduced(word, m.widened(x), keep)
                if keep:
                    full.append(m.pointwise(int(rng.integers(5)), m.widened(x), found))
                small.append(found)
            elif small:
                small.append(m.pointwise(0, small[int(rng.integers(len(small)))], None))
        outputs += small[-2:]
        if rng.random() < 0.7 or not outputs:
            outputs.append(m.widened(full[-1]))
        return outputs


class Numpy:
    def __init__(self, draw: ReductionDraw) -> None:
        self.draw = draw

    def whole(self, values: list[Array]) -> Array:
        return np.tanh(np.broadcast_to(values[0], self.draw.shape) * 0.5)

    def widened(self, x: Array) -> Array:
        return x + np.zeros(self.draw.shape)

    def pointwise(self, kind: int, x: Array, y: Any) -> Array:
        y = x if y is None else y
        return np.asarray([np.tanh(x), x - y * 0.5, np.maximum(x, y), x * y, 1 / (1 + np.exp(-x))][kind])

    def reduced(self, word: str, x: Array, keep: bool) -> Array:
        axes = tuple(self.draw.axes)
        if word == "var":
            return np.asarray(np.var(x, axis=axes, keepdims=keep))
        return np.asarray(getattr(np, word)(x, axis=axes, keepdims=keep))


class Nodes:
    def __init__(self, draw: ReductionDraw, builder: GraphBuilder) -> None:
        self.draw = draw
        self.b = builder
        self.zeros: Any = None

    def call(self, op: str, *args: Any) -> Any:
        return node(self.b, op, *args)

    def whole(self, values: list[Any]) -> Any:
        seen = self.call("expand", values[0], list(self.draw.shape), False)
        return self.call("tanh", self.call("mul", seen, 0.5))

    def widened(self, x: Any) -> Any:
        return self.call("expand", x, list(self.draw.shape), False)

    def pointwise(self, kind: int, x: Any, y: Any) -> Any:
        y = x if y is None else y
        match kind:
            case 0:
                return self.call("tanh", x)
            case 1:
                return self.call("sub", x, y, 0.5)
            case 2:
                return self.call("maximum", x, y)
            case 3:
                return self.call("mul", x, y)
        return self.call("sigmoid", x)

    def reduced(self, word: str, x: Any, keep: bool) -> Any:
        if word in ("amax", "amin"):
            return self.call(word, x, self.draw.axes, keep)
        if word == "var":
            return self.call("var", x, self.draw.axes, 0, keep)
        return self.call(word, x, self.draw.axes, keep, None)


def check_reductions(device: Device, seed: int) -> bool:
    """Whether the group could be planned; if so its kernels give what NumPy gives."""
    draw = ReductionDraw(seed)
    try:
        plan = planned(lambda b, *values: draw.write(Nodes(draw, b), list(values)), *draw.inputs)
    except CodegenError:
        return False
    want = draw.write(Numpy(draw), [x.astype(np.float64) for x in draw.inputs])
    found = run(device.prepare(plan), plan, draw.inputs)
    for got, exact in zip(found, want, strict=True):
        scale = float(np.abs(exact).max()) if exact.size else 0.0
        np.testing.assert_allclose(got, exact, rtol=2e-4, atol=2e-5 * (1 + scale), err_msg=f"seed {seed}")
    return True


@pytest.mark.parametrize("seeds", [*some(blocks(0, 6, 50), 2), *long(blocks(1000, 100, 50))], ids=str)
def test_random_reduction_groups(device: CpuDevice, seeds: range) -> None:
    assert sum(check_reductions(device, seed) for seed in seeds) >= (40 if seeds.start < 1000 else 0), "most of them can be planned"


def test_random_reduction_groups_in_numpy() -> None:
    assert sum(check_reductions(NumpyDevice(), seed) for seed in range(300, 340)) >= 30
