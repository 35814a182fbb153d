"""Random groups with reductions: prologues, several reductions along the same axes, epilogues, mixed layouts and views,
against the same program in NumPy's float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irscope.codegen.lowering.lower import spec_of_group
from irscope.errors import CodegenError
from irscope.ir.builder import GraphBuilder
from irscope.ir.types import TENSOR
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from irscope.runtime.device.protocol import Device
from tests.codegen.groups import call, group, run, type_of

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CpuDevice:
    pytest.importorskip("llvmlite")
    return CpuDevice(store=ObjectStore(tmp_path_factory.mktemp("objects") / "cpu"), threads=2)


class Draw:
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
    """The program on float64 arrays."""

    def __init__(self, draw: Draw) -> None:
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
    """The program as nodes of a block."""

    def __init__(self, draw: Draw, builder: GraphBuilder) -> None:
        self.draw = draw
        self.b = builder
        self.zeros: Any = None

    def call(self, op: str, *args: Any) -> Any:
        return call(self.b, op, *args)

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


def check(device: Device, seed: int) -> bool:
    """Whether the group could be planned; if so its kernels give what NumPy gives."""
    draw = Draw(seed)
    types = [type_of(x) for x in draw.inputs]
    made = group(lambda b, *values: draw.write(Nodes(draw, b), list(values)), [TENSOR] * len(types))
    try:
        plan = spec_of_group(made, types)
    except CodegenError:
        return False
    want = draw.write(Numpy(draw), [x.astype(np.float64) for x in draw.inputs])
    found = run(device.prepare(plan), plan, draw.inputs)
    for got, exact in zip(found, want, strict=True):
        scale = float(np.abs(exact).max()) if exact.size else 0.0
        np.testing.assert_allclose(got, exact, rtol=2e-4, atol=2e-5 * (1 + scale), err_msg=f"seed {seed}")
    return True


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_random_reduction_groups(device: CpuDevice, start: int) -> None:
    planned = [check(device, seed) for seed in range(start, start + 50)]
    assert sum(planned) >= 40, "most of them can be planned"


def test_random_reduction_groups_in_numpy() -> None:
    assert sum(check(NumpyDevice(), seed) for seed in range(300, 340)) >= 30


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_many_random_reduction_groups(device: CpuDevice, start: int) -> None:
    for seed in range(start, start + 250):
        check(device, seed)
