"""Rows shorter than a vector: read with what follows them as long as something follows, and never beyond the last."""

from __future__ import annotations

import ctypes
import mmap
import sys
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

Array = np.ndarray[Any, Any]


def gathered(b: Any, x: Any, weight: Any, dim: int) -> list[Any]:
    """Two reductions, the second in another pass, and something at every point; a weight that all rows share."""
    product = call(b, "mul", x, weight)
    shares = call(b, "softmax", product, dim, None)
    return [call(b, "sum", product, [dim], False, None), shares]


def check(device: Any, x: Array, weight: Array, dim: int) -> None:
    plan = spec_of_group(group(lambda b, *own: gathered(b, *own, dim), [TENSOR] * 2), [type_of(x), type_of(weight)])
    total, shares = run(device.prepare(plan), plan, [x, weight])
    product = x.astype(np.float64) * weight
    powers = np.exp(product - product.max(dim, keepdims=True))
    np.testing.assert_allclose(total, product.sum(dim), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(shares, powers / powers.sum(dim, keepdims=True), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", TARGETS)
def test_what_lies_between_rows_does_not_matter(name: str, dim: int, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    for columns in (2, 7, 15, 16, 31, 32, 60):
        for rows in (1, 2, 9, 33, 70):
            for gap in (0, 3, 40):
                memory = np.full((rows, columns + gap), np.nan, np.float32)
                memory[:, :columns] = numbers(rows, columns)
                check(device, memory[:, :columns], numbers(columns), dim)


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_that_overlap(dim: int, tmp_path: Path) -> None:
    line = numbers(60)
    windows = np.lib.stride_tricks.sliding_window_view(line, 9)
    for step in (1, 2, 5):
        check(device_for("512 bits", tmp_path), windows[::step], numbers(9), dim)


def test_the_last_rows_are_read_under_a_mask() -> None:
    for dim, loops in ((0, {False, True}), (1, {False, True})):
        made = group(lambda b, x, dim=dim: call(b, "sum", x, [dim], False, None), [TENSOR])
        plan = spec_of_group(made, [TensorType("float32", (1000, 10))])
        blocks = emit_llvm(plan.specs[0], TARGETS["512 bits"]).text.split("\nlatch")
        masks = {
            "masked.load" in block for block in blocks if "masked.load" in block or "= load <16 x float>, ptr" in block
        }
        assert masks == loops


GUARDED = """
import ctypes, mmap, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.codegen.llvm.test_short_rows import guarded_runs
guarded_runs(Path(sys.argv[2]))
print("whole")
"""


def at_the_edge(size: int, kept: list[Any], *, first: bool) -> Array:
    """Bytes at the start or at the end of a page, with pages around it that must not be touched."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    kept.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in (start, start + (pages + 1) * page):
        assert libc.mprotect(ctypes.c_void_p(place), page, 0) == 0
    begin = start + page if first else start + (pages + 1) * page - size
    return np.frombuffer((ctypes.c_char * size).from_address(begin), np.uint8)


def guarded_runs(folder: Path) -> None:
    """Reductions, and reads in tiles, of operands that end where memory does."""
    kept: list[Any] = []
    for name in TARGETS:
        device = device_for(name, folder)
        for shape in ((5, 3), (40, 10), (33, 31), (9, 60), (70, 70), (100, 333), (1030, 7)):
            for first in (True, False):
                x = at_the_edge(4 * shape[0] * shape[1], kept, first=first).view(np.float32).reshape(shape)
                weight = at_the_edge(4 * shape[1], kept, first=first).view(np.float32)
                x[...], weight[...] = numbers(*shape), numbers(shape[1])
                for dim in (0, 1):
                    check(device, x, weight, dim)
                made = group(lambda b, x, weight: call(b, "add", x, weight, 1), [TENSOR] * 2)
                plan = spec_of_group(made, [type_of(x), type_of(weight)])
                np.testing.assert_array_equal(run(device.prepare(plan), plan, [x, weight])[0], x + weight)
                y = at_the_edge(x.nbytes, kept, first=first).view(np.float32).reshape(shape[::-1])
                y[...] = x.T
                plan = spec_of_group(
                    group(lambda b, x, y: call(b, "add", x, y, 1), [TENSOR] * 2), [type_of(x), type_of(y.T)]
                )
                (found,) = run(device.prepare(plan), plan, [x, y.T])
                np.testing.assert_array_equal(found, x + x)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pages around memory are forbidden by mprotect")
def test_nothing_is_read_beyond_the_end_of_memory(tmp_path: Path) -> None:
    """In a process of its own, which a wrong read would end."""
    import subprocess

    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", GUARDED, root, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    assert done.stdout.strip() == "whole"


def scaled(b: Any, x: Any, weight: Any, shift: Any) -> list[Any]:
    """Light work on rows, a weight that they share, and a number of each."""
    total = call(b, "add", call(b, "mul", x, weight), shift, 1)
    return [total, call(b, "relu", call(b, "neg", total))]


@pytest.mark.parametrize("name", TARGETS)
def test_pointwise_rows_shorter_than_a_vector(name: str, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    for columns in (1, 3, 7, 8, 15, 16, 31, 32):
        for rows in (1, 2, 33, 70):
            memory = np.full((rows, columns + 5), np.nan, np.float32)
            memory[:, :columns] = numbers(rows, columns)
            x, weight, shift = memory[:, :columns], numbers(columns), numbers(rows, 1)
            for body in (scaled, lambda b, *own: [call(b, "tanh", each) for each in scaled(b, *own)]):
                plan = spec_of_group(group(body, [TENSOR] * 3), [type_of(x), type_of(weight), type_of(shift)])
                found = run(device.prepare(plan), plan, [x, weight, shift])
                total = x.astype(np.float64) * weight + shift
                wanted = [total, np.maximum(-total, 0)]
                for got, want in zip(found, wanted if body is scaled else map(np.tanh, wanted), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
