"""Operands that lie along another loop are read in tiles: the same bits as element by element, and nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel import STRIDED, TILE_ROWS, UNIT, Launch, with_tiled_reads
from irscope.codegen.llvm import emit_llvm, least_rows, vector_width
from irscope.runtime.cpu.launch import split_kept, stores_should_stream
from tests.codegen.kernels import call, from_words, planned, run, sample, type_of
from tests.codegen.llvm.test_reductions import TARGETS, device_for

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]

SIZES = (16, 17, 40, 63, 64, 65, 80, 130, 200)


def lain(values: Array, order: tuple[int, ...]) -> Array:
    """The values, with the axes in memory in another order, in memory that is not aligned and longer than they are."""
    shape = [values.shape[axis] + (place == len(order) - 1) for place, axis in enumerate(order)]
    memory = np.zeros(int(np.prod(shape)) + 1, values.dtype)[1:].reshape(shape)
    view = memory[tuple(slice(values.shape[axis]) for axis in order)].transpose(np.argsort(order))
    view[...] = values
    return view


def launch_of(body: Any, arrays: list[Array], dtypes: list[str] | None = None) -> tuple[Any, Launch]:
    types = [type_of(array, dtype) for array, dtype in zip(arrays, dtypes or [None] * len(arrays), strict=True)]  # type: ignore[list-item]
    plan = planned(body, *types)
    (launch,) = plan.launches
    return plan, launch


def is_turned(launch: Launch, name: str = "512 bits") -> bool:
    target = TARGETS[name]
    rows, columns = least_rows(launch.spec, target), vector_width(launch.spec, target)
    return with_tiled_reads(launch, rows, columns).spec.is_turned


def mixed(b: Any, x: Any, y: Any, row: Any, column: Any) -> list[Any]:
    """Two results of operands in four layouts, one of them through a function."""
    total = call(b, "add", call(b, "mul", x, row), call(b, "tanh", y), 1)
    return [call(b, "sub", total, call(b, "exp", column), 1), call(b, "maximum", x, y)]


@pytest.mark.parametrize("name", TARGETS)
def test_every_size_gives_what_it_gives_element_by_element(name: str, tmp_path: Path) -> None:
    device, rng, turned = device_for(name, tmp_path), np.random.default_rng(0), 0
    for rows in SIZES:
        for columns in SIZES:
            y = rng.normal(0, 1, (rows, columns)).astype(np.float32)
            rest = [rng.normal(0, 1, shape).astype(np.float32) for shape in ((rows, columns), (columns,), (rows, 1))]
            given = [rest[0], lain(y, (1, 0)), *rest[1:]]
            plan, launch = launch_of(mixed, given)
            found = run(device.prepare(plan), plan, given)
            turned += is_turned(launch, name)
            plan, launch = launch_of(mixed, [rest[0], y, *rest[1:]])
            assert not is_turned(launch, name)
            for got, want in zip(found, run(device.prepare(plan), plan, [rest[0], y, *rest[1:]]), strict=True):
                np.testing.assert_array_equal(got, want)
    assert turned > len(SIZES) ** 2 / 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", TARGETS)
def test_every_element_type(name: str, dtype: str, tmp_path: Path) -> None:
    rng, device = np.random.default_rng(1), device_for(name, tmp_path)
    x, y = sample(dtype, (70, 150), rng), lain(sample(dtype, (70, 150), rng), (1, 0))
    plan, launch = launch_of(lambda b, x, y: call(b, "maximum", x, y), [x, y], [dtype, dtype])
    assert is_turned(launch, name)
    (found,) = run(device.prepare(plan), plan, [x, y])
    wide_x, wide_y = from_words(x, dtype), from_words(np.ascontiguousarray(y), dtype)
    np.testing.assert_array_equal(from_words(found, dtype), np.maximum(wide_x, wide_y))


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)], ids=lambda order: "".join(map(str, order)))
def test_axes_in_any_order(order: tuple[int, ...], tmp_path: Path) -> None:
    device, rng = device_for("256 bits", tmp_path), np.random.default_rng(2)
    x, y, z = (rng.normal(0, 1, (20, 33, 65)).astype(np.float32) for _ in range(3))
    given = [x, lain(y, order), lain(z, (0, 2, 1))]
    plan, launch = launch_of(lambda b, x, y, z: call(b, "add", call(b, "mul", x, y), z, 1), given)
    assert is_turned(launch, "256 bits")
    (found,) = run(device.prepare(plan), plan, given)
    np.testing.assert_allclose(found, x * y + z, rtol=1e-6, atol=1e-6)


def test_threads_and_streaming_stores_change_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for shape in ((1000, 333), (333, 1000), (65, 4100), (4100, 65)):
        x, y = (rng.normal(0, 1, shape).astype(np.float32) for _ in range(2))
        given = [x, lain(y, (1, 0))]
        plan, launch = launch_of(lambda b, x, y: call(b, "add", x, y, 1), given)
        assert is_turned(launch)
        assert not stores_should_stream(launch, 64)
        past = replace(plan, launches=(replace(launch, spec=replace(launch.spec, nontemporal=True)),))
        for threads, each in ((1, plan), (2, plan), (3, plan), (5, plan), (2, past)):
            (found,) = run(device_for("512 bits", tmp_path, threads).prepare(each), each, given)
            np.testing.assert_array_equal(found, x + y)


def test_no_part_is_smaller_than_a_tile() -> None:
    x = np.zeros((1000, 70), np.float32)
    _, launch = launch_of(lambda b, x, y: call(b, "add", x, y, 1), [x, lain(x, (1, 0))])
    turned = with_tiled_reads(launch, 16, 64)
    for parts in range(1, 40):
        heights = [part.dims[0] for part in split_kept(turned, parts, 64)]
        assert sum(heights) == 1000 and min(heights) >= TILE_ROWS


def test_what_is_not_read_in_tiles(tmp_path: Path) -> None:
    def add(b: Any, x: Any, y: Any) -> Any:
        return call(b, "add", x, y, 1)

    x = np.zeros((100, 200), np.float32)
    assert is_turned(launch_of(add, [x, lain(x, (1, 0))])[1])
    assert not is_turned(launch_of(add, [x, x])[1]), "it lies as the result does"
    assert not is_turned(launch_of(add, [x, np.zeros((200, 200), np.float32).T[::2]])[1]), "side by side nowhere"
    assert not is_turned(launch_of(lambda b, x, y: [add(b, x, y), call(b, "neg", y)], [x, lain(x, (1, 0))])[1]), "a result"
    assert not is_turned(launch_of(add, [x[:15], lain(x[:15], (1, 0))])[1]), "fewer rows than lanes"
    assert not is_turned(launch_of(add, [x[:, :40], lain(x[:, :40], (1, 0))])[1]), "fewer columns than a vector"
    assert not is_turned(launch_of(lambda b, x: call(b, "sum", x, [0], False, None), [lain(x, (1, 0))])[1]), "gathered"


def test_the_text_reads_whole_registers_and_gathers_nothing() -> None:
    x = np.zeros((100, 200), np.float32)
    _, launch = launch_of(lambda b, x, y: call(b, "add", x, y, 1), [x, lain(x, (1, 0))])
    turned = with_tiled_reads(launch, 16, 64)
    assert sorted(operand.pattern for operand in turned.spec.inputs) == [(UNIT, STRIDED), (STRIDED, UNIT)]
    assert "insertelement <64 x float>" in emit_llvm(launch.spec, TARGETS["512 bits"]).text
    assert "insertelement <64 x float>" not in emit_llvm(turned.spec, TARGETS["512 bits"]).text
