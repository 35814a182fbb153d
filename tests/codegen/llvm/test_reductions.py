"""Columns gathered from row to row, rows two at a time, and rows shorter than a vector, read never beyond the last."""

import ctypes
import mmap
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel import KernelSpec, with_tiled_reads
from irscope.codegen.llvm.emit import Target, emit_llvm
from irscope.ir.types import TensorType
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.kernels import call, dense, planned, results

pytest.importorskip("llvmlite")


Array = np.ndarray[Any, Any]

TARGETS = {
    "128 bits": Target(), "256 bits": Target(32, native_half=True),
    "512 bits": Target(64, native_half=True, masks=True, registers=4),
}  # fmt: skip


class Narrow(CpuDevice):
    """This processor, with text for another one."""

    target = Target()

    @cached_property
    def host(self) -> Any:
        """What the text should know; that the processor has float16 only where it does."""
        host = super().host
        return replace(host, target=replace(self.target, native_half=self.target.native_half and host.target.native_half))


def device_for(target: str | Target, folder: Path, threads: int = 1) -> CpuDevice:
    device = Narrow(store=ObjectStore(folder / "cpu"), threads=threads)
    device.target = TARGETS[target] if isinstance(target, str) else target
    return device


KINDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "softmax": (lambda b, x: call(b, "softmax", x, -1, None), (64, 96)),
    "columns": (lambda b, x: call(b, "var", x, [0], 1, False), (64, 96)),
    "short columns": (lambda b, x: call(b, "var", x, [0], 1, False), (64, 6)),
    "argmax": (lambda b, x: call(b, "argmax", x, 1, False), (64, 96)),
    "norm": (lambda b, x: call(b, "layer_norm", x, [96], None, None, 1e-5, False), (64, 96)),
    "all": (lambda b, x: call(b, "all", call(b, "gt", x, 0.0), 0, False), (64, 96)),
}


def kernels_of_every_kind() -> Iterator[KernelSpec]:
    """Reductions, elementary functions beside conversions of halves, and an operand that is read in tiles."""
    for name, (body, shape) in KINDS.items():
        for dtype in ("float32", "float16", "int32") if name in ("argmax", "all") else ("float32", "float16"):
            yield from planned(body, dense(*shape, dtype=dtype)).specs

    def smooth(b: Any, x: Any, half: Any) -> list[Any]:
        made = [call(b, op, x) for op in ("exp", "log", "tanh", "erf", "sigmoid", "expm1", "log1p")]
        return [*made, call(b, "to", call(b, "add", half, x, 1), 15, False, False, None)]  # to bfloat16

    yield from planned(smooth, dense(8, 8), dense(8, 8, dtype="float16")).specs
    turned = TensorType("float32", (100, 200), (1, 100))
    plan = planned(lambda b, x, y: call(b, "add", x, call(b, "tanh", y), 1), dense(100, 200), turned)
    (spec,) = (with_tiled_reads(launch, 4, 8).spec for launch in plan.launches)
    assert spec.is_turned
    yield spec


@pytest.mark.parametrize(
    "triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx", "x86_64-pc-windows-msvc"]
)
def test_the_text_compiles_for_other_processors_without_library_calls(triple: str) -> None:
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine(opt=3)
    usual = ("memcpy", "memset", "chkstk", *["*%r11"] * ("windows" in triple))  # the stack's probe
    for spec in kernels_of_every_kind():
        assembly = machine.emit_assembly(binding.parse_assembly(emit_llvm(spec).text))
        calls = [line for line in assembly.splitlines() if line.split()[:1] in (["callq"], ["call"], ["bl"])]
        assert not [line for line in calls if all(word not in line for word in usual)]


def scaled(b: Any, x: Any, weight: Any) -> list[Any]:
    """Two reductions of a row beside a number of its own, and what is made of them."""
    product = call(b, "mul", x, weight)
    total = call(b, "sum", product, [1], False, None)
    return [total, call(b, "neg", call(b, "amax", product, [1], False))]


def found(device: CpuDevice, x: Array, weight: Array) -> list[Array]:
    return results(device, scaled, x, weight)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(0, 3, shape).astype(np.float32)


@pytest.mark.parametrize("name", TARGETS)
def test_a_row_gives_the_same_alone_and_beside_others(name: str, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    for columns in (65, 100, 128, 333, 1024, 5000):
        x, weight = numbers(7, columns), numbers(7, 1)
        alone = [found(device, x[[row]], weight[[row]]) for row in range(7)]
        for rows in (2, 3, 6, 7):
            for place, together in enumerate(found(device, x[:rows], weight[:rows])):
                np.testing.assert_array_equal(together, np.concatenate([each[place] for each in alone[:rows]]))
        product = x.astype(np.float64) * weight
        scale = np.abs(product).sum(1)
        assert (np.abs(np.concatenate([each[0] for each in alone]) - product.sum(1)) <= 1e-6 * scale).all()


@pytest.mark.parametrize("name", TARGETS)
def test_rows_that_do_not_lie_side_by_side(name: str, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    memory = numbers(11, 4, 700)
    for x in (memory[:, 1, :600], memory[::2, 2, 3::2], memory[:, :, 5].T[:3], np.broadcast_to(memory[0, 0], (5, 700))):
        weight = numbers(x.shape[0], 1)
        total, least = found(device, x, weight)
        product = x.astype(np.float64) * weight
        np.testing.assert_allclose(total, product.sum(1), rtol=1e-5, atol=1e-6 * np.abs(product).sum(1).max())
        np.testing.assert_array_equal(least, -(x * weight).max(1))


def test_a_row_gives_the_same_whichever_thread_has_it(tmp_path: Path) -> None:
    x, weight = numbers(3001, 301), numbers(3001, 1)
    one, *others = (found(device_for("256 bits", tmp_path, threads), x, weight) for threads in (1, 2, 3))
    for other in others:
        for got, want in zip(other, one, strict=True):
            np.testing.assert_array_equal(got, want)


BODIES: dict[str, tuple[Any, int]] = {
    "sum": (lambda b, x: call(b, "sum", x, [1], False, None), 2),
    "any": (lambda b, x: call(b, "any", call(b, "gt", x, 2.0), 1, False), 2),
    "dear": (lambda b, x: call(b, "sum", call(b, "exp", x), [1], False, None), 1),
    "argmax": (lambda b, x: call(b, "argmax", x, 1, False), 1),
    "two passes": (lambda b, x: call(b, "var", x, [1], 1, False), 1),
    "written everywhere": (lambda b, x: [call(b, "sum", x, [1], False, None), call(b, "neg", x)], 1),
    "one row": (lambda b, x: call(b, "sum", x, None), 1),
}


@pytest.mark.parametrize("name", BODIES)
def test_rows_are_paired_where_memory_sets_the_pace(name: str) -> None:
    """In how many places a step of the loop over whole vectors reads the operand."""
    body, wanted = BODIES[name]
    plan = planned(body, dense(40, 300))
    text = emit_llvm(plan.specs[-1], TARGETS["512 bits"]).text
    steps = [block for block in text.split("\nlatch") if re.search(r"= load <\d+ x float>", block)]
    assert steps
    assert {len(re.findall(r"= load <\d+ x float>, ptr %v\d+", step)) for step in steps} == {wanted}


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
        total, least, place, spread = results(device, gathered, x)
        exact = x.astype(np.float64)
        scale = np.abs(exact).sum(0)
        assert (np.abs(total - exact.sum(0)) <= 4e-7 * scale).all(), rows
        np.testing.assert_array_equal(least, x.min(0))
        np.testing.assert_array_equal(place, x.argmax(0))
        np.testing.assert_allclose(spread, ((exact - exact.mean(0)) ** 2).sum(0), rtol=2e-6, atol=1e-5 * scale.max() / rows)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_element_type(dtype: str, name: str, tmp_path: Path) -> None:
    """Accumulators of different widths side by side: what is narrower than the widest fills no register."""
    device = device_for(name, tmp_path)
    for rows, columns in ((5, 70), (40, 9), (3, 300)):
        x = np.random.default_rng(columns).integers(0, 2 if dtype == "bool" else 90, (rows, columns)).astype(dtype)
        body = lambda b, x: [call(b, "amax", x, [0], False), call(b, "argmax", x, 0, False), call(b, "any", x, 0, False)]  # noqa: E731
        sums = lambda b, x: [call(b, "amin", x, [0], False), call(b, "sum", x, [0], False, None)]  # noqa: E731
        found = [*results(device, body, x), *results(device, sums, x)]
        for got, want in zip(found, (x.max(0), x.argmax(0), x.any(0), x.min(0), x.sum(0)), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("columns", [3, 24, 40, 500])
def test_the_error_of_a_tall_sum_does_not_grow_with_its_rows(columns: int, tmp_path: Path) -> None:
    """Row after row added to the one sum of a column would be wrong by 4e-6 to 1e-5 of it."""
    device = device_for("512 bits", tmp_path)
    x = np.random.default_rng(columns).random((3_000_000 // columns, columns), np.float32)
    (total,) = results(device, lambda b, x: call(b, "sum", x, [0], False, None), x)
    np.testing.assert_allclose(total, x.sum(0, dtype=np.float64), rtol=3e-7)


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
    plan = planned(body, dense(1000, 100))
    text = emit_llvm(plan.specs[-1], TARGETS["512 bits"]).text
    loads = [len(re.findall(r"= load <\d+ x float>, ptr %v\d+, align 4", step)) for step in text.split("\nlatch")]
    assert {count for count in loads if count} - {0} >= wanted
    assert max(loads) == max(wanted)


def weighted(b: Any, x: Any, weight: Any, dim: int) -> list[Any]:
    """Two reductions, the second in another pass, and something at every point; a weight that all rows share."""
    product = call(b, "mul", x, weight)
    shares = call(b, "softmax", product, dim, None)
    return [call(b, "sum", product, [dim], False, None), shares]


def check(device: Any, x: Array, weight: Array, dim: int) -> None:
    total, shares = results(device, partial(weighted, dim=dim), x, weight)
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
        plan = planned(lambda b, x, dim=dim: call(b, "sum", x, [dim], False, None), dense(1000, 10))
        blocks = emit_llvm(plan.specs[0], TARGETS["512 bits"]).text.split("\nlatch")
        masks = {"masked.load" in block for block in blocks if "masked.load" in block or "= load <16 x float>, ptr" in block}
        assert masks == loops


GUARDED = """
import ctypes, mmap, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.codegen.llvm.test_reductions import guarded_runs
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
                y = at_the_edge(x.nbytes, kept, first=first).view(np.float32).reshape(shape[::-1])
                y[...] = x.T
                for other in (weight, y.T):
                    (found,) = results(device, lambda b, x, y: call(b, "add", x, y, 1), x, other)
                    np.testing.assert_array_equal(found, x + other)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pages around memory are forbidden by mprotect")
def test_nothing_is_read_beyond_the_end_of_memory(tmp_path: Path) -> None:
    """In a process of its own, which a wrong read would end."""
    import subprocess

    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", GUARDED, root, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    assert done.stdout.strip() == "whole"


def shifted(b: Any, x: Any, weight: Any, shift: Any) -> list[Any]:
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
            for body in (shifted, lambda b, *own: [call(b, "tanh", each) for each in shifted(b, *own)]):
                found = results(device, body, x, weight, shift)
                total = x.astype(np.float64) * weight + shift
                wanted = [total, np.maximum(-total, 0)]
                for got, want in zip(found, wanted if body is shifted else map(np.tanh, wanted), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


SHORT_STEPS: dict[str, Any] = {
    "sum": (lambda b, x: call(b, "sum", x, [1, 2], False, None), lambda x: x.sum((1, 2))),
    "variance": (lambda b, x: call(b, "var", x, [1, 2], 1, False), lambda x: x.var((1, 2), ddof=1)),
    "largest and where": (lambda b, x: call(b, "argmax", x, None, False), lambda x: np.asarray(x.argmax())),
    "normalised": (lambda b, x: call(b, "sub", x, call(b, "mean", x, [1, 2], True, None), 1), lambda x: x - x.mean((1, 2), keepdims=True)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", SHORT_STEPS)
def test_short_steps_are_reduced_several_at_a_time(kind: str, target: str, tmp_path: Path) -> None:
    body, of_numpy = SHORT_STEPS[kind]
    device = device_for(target, tmp_path)
    for steps, length in ((1, 4), (4, 8), (11, 5), (6, 16), (5, 31)):
        x = np.random.default_rng(steps).integers(-9, 9, (2, steps, length + 3)).astype(np.float32)[..., :length]
        (found,) = results(device, body, x)
        np.testing.assert_allclose(found, of_numpy(x.astype(np.float64)), rtol=1e-5, atol=1e-5)
