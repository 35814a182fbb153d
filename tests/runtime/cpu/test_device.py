"""The processor as a device: threads give the same numbers, kernels are kept and rebuilt, many callers do no harm."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.errors import DeviceUnavailable
from irscope.ops.expr.expression import call, input_element
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.kernels import expected, laid_out, plan_of, run

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "cpu")


X, Y = input_element(0, "float32"), input_element(1, "float32")


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.cpu.device._THREADS_PAY", 0.0)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (1, 4099), (3, 5), (2, 3000), (1000, 3), (64, 65)])
@pytest.mark.parametrize("layout", ["dense", "transposed", "row", "column"])
def test_parts_on_threads_make_the_whole(store: ObjectStore, threads: int, shape: tuple[int, int], layout: str) -> None:
    device = CpuDevice(store=store, threads=threads)
    rng = np.random.default_rng(0)
    operands = [laid_out(rng.normal(size=shape).astype(np.float32), kind, shape) for kind in (layout, "dense")]
    exprs = [call("tanh", X * Y), X - Y]
    plan = plan_of(exprs, operands, ["float32"] * 2, shape)
    for got, want in zip(run(device.prepare(plan), plan, operands), expected(exprs, operands, ["float32"] * 2, shape), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_large_launches_are_split_and_small_ones_are_not(store: ObjectStore) -> None:
    device = CpuDevice(store=store, threads=2)
    for size, parts in ((1000, 1), (4_000_000, 2)):
        values = np.zeros((1, size), np.float32)
        prepared = device.prepare(plan_of([call("tanh", X)], [values], ["float32"], values.shape))
        assert [len(each.ranges) for each in prepared._calls] == [parts]


def test_one_kernel_serves_every_size_and_many_callers(store: ObjectStore) -> None:
    device = CpuDevice(store=store, threads=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for size in rng.integers(1, 3000, 40):
            values = rng.normal(size=(1, size)).astype(np.float32)
            plan = plan_of([call("abs", X) * 2.0], [values], ["float32"], values.shape)
            (found,) = run(device.prepare(plan), plan, [values])
            if not (found == np.abs(values) * 2).all():
                wrong.append(seed)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not wrong
    assert len(device._kernels) == 1


def test_without_the_compiler_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    device = CpuDevice(store=store)
    here = device.availability()
    assert not here and here.fix == "pip install 'irscope[cpu]'"
    plan = plan_of([X * 2.0], [np.zeros((1, 4), np.float32)], ["float32"], (1, 4))
    assert "define void" in device.source(plan.specs[0]).text, "the text needs no compiler"
    with pytest.raises(DeviceUnavailable, match="llvmlite is not installed"):
        device.prepare(plan)


def test_the_compiler_is_only_called_where_no_interrupt_comes(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt within llvmlite leaves its lock taken, and the next thread that compiles waits forever."""
    import llvmlite.binding as binding

    heeds: list[Any] = []

    def noted(own: Any, *args: Any, **named: Any) -> Any:
        heeds.append(signal.getsignal(signal.SIGINT))
        return own(*args, **named)

    for name in ("parse_assembly", "create_mcjit_compiler", "initialize_native_target"):
        monkeypatch.setattr(binding, name, partial(noted, getattr(binding, name)))
    values = np.zeros((2, 9), np.float32)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        CpuDevice(store=store).prepare(plan_of([call("tanh", X)], [values], ["float32"], values.shape))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(heeds) >= 5
    assert signal.default_int_handler not in heeds


def test_long_kernels_let_other_threads_run_and_short_ones_save_the_switch(store: ObjectStore) -> None:
    device = CpuDevice(store=store, threads=1)
    for size, lets in ((100, False), (3_000_000, True)):
        values = np.zeros((1, size), np.float32)
        plan = plan_of([call("tan", X)], [values], ["float32"], values.shape)
        prepared = device.prepare(plan)
        (launch,) = prepared._calls
        (kernel,) = prepared.kernels
        assert launch.function is (kernel.code.call if lets else kernel.code.call_holding)
