"""Columns that are gathered from row to row: every number of rows, of columns, and what becomes of rounding errors."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.llvm.emit import emit_llvm
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from tests.codegen.groups import call, group, run, type_of
from tests.codegen.llvm.test_rows_side_by_side import TARGETS, device_for, numbers

pytest.importorskip("llvmlite")

ROWS = (1, 2, 3, 7, 8, 9, 15, 17, 127, 1023, 1024, 1025, 1033, 2047)


def gathered(b: Any, x: Any) -> list[Any]:
    """A sum, an extreme, a place, and a second pass that needs the first."""
    mean = call(b, "mean", x, [0], True, None)
    square = call(b, "mul", call(b, "sub", x, mean, 1), call(b, "sub", x, mean, 1))
    return [
        call(b, "sum", x, [0], False, None), call(b, "amin", x, [0], False), call(b, "argmax", x, 0, False),
        call(b, "sum", square, [0], False, None),
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 5, 32, 33, 70, 1100])
@pytest.mark.parametrize("name", TARGETS)
def test_every_number_of_rows(name: str, columns: int, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    for rows in ROWS if columns < 1000 else (9, 1025):
        x = numbers(rows, columns)
        x[rows // 2] += 20 * (np.arange(columns) % 3 == 0)
        plan = spec_of_group(group(gathered, [TENSOR]), [type_of(x)])
        total, least, place, spread = run(device.prepare(plan), plan, [x])
        exact = x.astype(np.float64)
        scale = np.abs(exact).sum(0)
        assert (np.abs(total - exact.sum(0)) <= 4e-7 * scale).all(), rows
        np.testing.assert_array_equal(least, x.min(0))
        np.testing.assert_array_equal(place, x.argmax(0))
        np.testing.assert_allclose(
            spread, ((exact - exact.mean(0)) ** 2).sum(0), rtol=2e-6, atol=1e-5 * scale.max() / rows
        )


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_element_type(dtype: str, name: str, tmp_path: Path) -> None:
    """Accumulators of different widths side by side: what is narrower than the widest fills no register."""
    device = device_for(name, tmp_path)
    for rows, columns in ((5, 70), (40, 9), (3, 300)):
        x = np.random.default_rng(columns).integers(0, 2 if dtype == "bool" else 90, (rows, columns)).astype(dtype)
        body = lambda b, x: [call(b, "amax", x, [0], False), call(b, "argmax", x, 0, False), call(b, "any", x, 0, False)]  # noqa: E731
        sums = lambda b, x: [call(b, "amin", x, [0], False), call(b, "sum", x, [0], False, None)]  # noqa: E731
        found = []
        for write in (body, sums):
            plan = spec_of_group(group(write, [TENSOR]), [type_of(x)])
            found += run(device.prepare(plan), plan, [x])
        for got, want in zip(found, (x.max(0), x.argmax(0), x.any(0), x.min(0), x.sum(0)), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("columns", [3, 24, 40, 500])
def test_the_error_of_a_tall_sum_does_not_grow_with_its_rows(columns: int, tmp_path: Path) -> None:
    """Row after row added to the one sum of a column would be wrong by 4e-6 to 1e-5 of it."""
    device = device_for("512 bits", tmp_path)
    x = np.random.default_rng(columns).random((3_000_000 // columns, columns), np.float32)
    plan = spec_of_group(group(lambda b, x: call(b, "sum", x, [0], False, None), [TENSOR]), [type_of(x)])
    (total,) = run(device.prepare(plan), plan, [x])
    np.testing.assert_allclose(total, x.sum(0, dtype=np.float64), rtol=3e-7)


def test_rows_of_several_loops(tmp_path: Path) -> None:
    """The reduced axes are not walked as one; each run of the inner one starts with what there is."""
    device = device_for("256 bits", tmp_path)
    memory = numbers(7, 30, 6, 50)
    body = lambda b, x: call(b, "sum", x, [0, 1, 2], False, None)  # noqa: E731
    for x in (memory[:, :21, :5], memory[:, ::3, :, :7], memory[:3, :9, 1:3, 5:40]):
        plan = spec_of_group(group(body, [TENSOR]), [type_of(x)])
        assert len(plan.specs[0].reduced) > 1
        (total,) = run(device.prepare(plan), plan, [x])
        np.testing.assert_allclose(total, x.sum((0, 1, 2), dtype=np.float64), rtol=1e-5, atol=1e-3)


def _stretched(op: str, b: Any, x: Any) -> Any:
    return call(b, "sum", call(b, op, x), [0], False, None)


STEPS: dict[str, tuple[Any, set[int]]] = {
    "sum": (lambda b, x: call(b, "sum", x, [0], False, None), {1, 8}),
    "one op more": (partial(_stretched, "neg"), {1, 4}),
    "dear": (partial(_stretched, "exp"), {1}),
    "two passes": (lambda b, x: call(b, "var", x, [0], 1, False), {1, 4}),
    "three passes": (lambda b, x: call(b, "softmax", x, 0, None), {1, 2}),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_takes_in_more_rows_the_less_there_is_to_do(name: str) -> None:
    """In how many places a step over the tile reads the operand."""
    body, wanted = STEPS[name]
    plan = spec_of_group(group(body, [TENSOR]), [TensorType("float32", (1000, 100))])
    text = emit_llvm(plan.specs[-1], TARGETS["512 bits"]).text
    loads = [len(re.findall(r"= load <\d+ x float>, ptr %v\d+, align 4", step)) for step in text.split("\nlatch")]
    assert {count for count in loads if count} - {0} >= wanted
    assert max(loads) == max(wanted)
