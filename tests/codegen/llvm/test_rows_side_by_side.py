"""Rows that are gathered two at a time: what a row gives depends on nothing but the row."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.llvm.emit import Target, emit_llvm
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.groups import call, group, run, type_of

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


def device_for(name: str, folder: Path, threads: int = 1) -> CpuDevice:
    device = Narrow(store=ObjectStore(folder / "cpu"), threads=threads)
    device.target = TARGETS[name]
    return device


def scaled(b: Any, x: Any, weight: Any) -> list[Any]:
    """Two reductions of a row beside a number of its own, and what is made of them."""
    product = call(b, "mul", x, weight)
    total = call(b, "sum", product, [1], False, None)
    return [total, call(b, "neg", call(b, "amax", product, [1], False))]


def found(device: CpuDevice, x: Array, weight: Array) -> list[Array]:
    plan = spec_of_group(group(scaled, [TENSOR, TENSOR]), [type_of(x), type_of(weight)])
    return run(device.prepare(plan), plan, [x, weight])


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
    plan = spec_of_group(group(body, [TENSOR]), [TensorType("float32", (40, 300))])
    text = emit_llvm(plan.specs[-1], TARGETS["512 bits"]).text
    steps = [block for block in text.split("\nlatch") if re.search(r"= load <\d+ x float>", block)]
    assert steps
    assert {len(re.findall(r"= load <\d+ x float>, ptr %v\d+", step)) for step in steps} == {wanted}
