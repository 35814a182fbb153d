"""The LLVM text of reductions: on narrower processors, for others, line by line; and launches that were split."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel.launches import split_reduction
from irscope.codegen.kernel.loops import reduction_nest
from irscope.codegen.llvm.emit import emit_llvm
from irscope.ir.types import TENSOR
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.kernels import call, dense, group, planned, run
from tests.codegen.llvm.test_reductions import KINDS, TARGETS, device_for
from tests.codegen.numerics.test_reductions import NORMALISATIONS, OPS, PAIRS, F, check, normal

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")


@pytest.mark.parametrize("name", TARGETS)
def test_every_width_and_every_remainder(name: str, tmp_path: Path) -> None:
    device = device_for(name, tmp_path)
    sum_body, sum_eager = OPS["sum"]
    soft_body, soft_eager = NORMALISATIONS["softmax"]
    for length in (1, 7, 8, 17, 31, 33, 64, 65, 129):
        for shape in [(3, length), (length, 5), (5, length, 2), (19, length)]:
            x = normal(*shape)
            for dim in (0, 1):
                check(device, partial(sum_body, d=[dim], k=False), partial(sum_eager, d=[dim], k=False), x)
            check(device, partial(soft_body, d=1), partial(soft_eager, d=1), x, rtol=4e-6)
            check(device, partial(soft_body, d=0), partial(soft_eager, d=0), x, rtol=4e-6)
    for body, eager in PAIRS.values():
        check(device, partial(body, d=1), partial(eager, d=1), normal(4, 77))
        check(device, partial(body, d=0), partial(eager, d=0), normal(77, 41))


def test_each_line_knows_the_node_that_it_computes() -> None:
    def body(b: Any, x: Any) -> Any:
        return call(b, "div", x, call(b, "sqrt", call(b, "sum", call(b, "exp", x), [1], True, None)))

    source = emit_llvm(planned(body, dense(64, 96)).specs[0])
    lines = source.text.splitlines()
    assert len(lines) == len(source.line_nodes)
    block = group(body, [TENSOR]).blocks[0]
    position = {node.op: index for index, node in enumerate(block.nodes)}
    root = [line for line in source.lines_of(position["aten::sqrt"]) if "llvm.sqrt" in lines[line]]
    assert root, "the root is computed on a line of its node"
    added = [line for line in source.lines_of(position["aten::sum"]) if "fadd" in lines[line]]
    assert added
    divided = [line for line in source.lines_of(position["aten::div"]) if "fdiv" in lines[line]]
    assert divided
    assert min(added) < min(root) < min(divided)


def test_a_softmax_takes_three_passes_and_computes_its_exponentials_once() -> None:
    plan = planned(KINDS["softmax"][0], dense(64, 96))
    passes = reduction_nest(plan.specs[0]).passes
    assert [len(each.reductions) for each in passes] == [1, 1, 0]
    assert [len(each.writes) for each in passes] == [0, 0, 1]
    whole, rest = 1, 1
    wide = emit_llvm(plan.specs[0], TARGETS["512 bits"])
    rounds = [line for line in wide.text.splitlines() if "splat (float 0x3FF7154760000000)" in line]
    assert len(rounds) == whole + rest, "log2 e: in the loop and in its last vector, of one pass"


LONG: dict[str, tuple[Any, Any]] = {
    "sum": (lambda b, x: call(b, "sum", x, None), torch.sum),
    "var": (lambda b, x: call(b, "var", x, [0], 1, True), lambda x: x.var(0, keepdim=True)),
    "amax": (lambda b, x: call(b, "amax", x, [0], False), lambda x: x.amax(0)),
    "argmax": (lambda b, x: call(b, "argmax", x, None, False), torch.argmax),
    "softmax": (lambda b, x: call(b, "softmax", x, 0, None), lambda x: x.softmax(0)),
    "layer_norm": (
        lambda b, x: call(b, "layer_norm", x, list(SIZES), None, None, 1e-5, False), lambda x: F.layer_norm(x, x.shape)
    ),
}  # fmt: skip
SIZES = (700_000, 3)


@pytest.mark.parametrize("name", LONG)
def test_a_split_launch_gives_the_same(name: str, tmp_path: Path) -> None:
    device = CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=3)
    body, eager = LONG[name]
    x = normal(*SIZES)
    plan = check(device, body, eager, x, rtol=4e-6)
    assert len(device.prepare(plan).kernels) > len(plan.launches), "it was split"
    if name == "argmax":
        x[600_000, 1] = x[200_000, 2] = np.nan
        check(device, body, eager, x)


def test_the_parts_of_a_split_launch_count_all_elements() -> None:
    """The stages by themselves, run one after the other on whole loops: one part is the whole."""
    plan = planned(lambda b, x: call(b, "var", x, [0, 1], 1, False), dense(40, 9))
    split = split_reduction(plan.launches[0], 1, 1, 1)
    assert [stage.partial for stage in split.stages] == [True, False, True, False]
    assert split.part_elements == 1
    x = normal(40, 9)
    memory = [np.zeros(elements, dtype) for dtype, elements in split.temporaries]
    found = np.zeros(1, np.float32)
    outputs = [found.ctypes.data, *(array.ctypes.data for array in memory)]
    inputs = [x.ctypes.data, *(array.ctypes.data for array in memory)]
    for stage in split.stages:
        NumpyDevice().compile(stage.launch.spec)(stage.launch, outputs, inputs)
    np.testing.assert_allclose(found[0], x.astype(np.float64).var(ddof=1), rtol=1e-6)


def test_results_do_not_depend_on_which_thread_was_first(tmp_path: Path) -> None:
    device = CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=4)
    x = normal(2_000_000)
    plan = planned(LONG["sum"][0], x)
    prepared = device.prepare(plan)
    assert len({float(run(prepared, plan, [x])[0]) for _ in range(10)}) == 1


def test_results_past_the_caches_are_the_same(tmp_path: Path) -> None:
    device = CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=1)
    for name in ("softmax", "norm"):
        body, _ = KINDS[name]
        x = normal(9, 333 if name == "softmax" else 96)
        plan = planned(body, x)
        streaming = replace(plan.launches[0], spec=replace(plan.specs[0], nontemporal=True))
        assert "!nontemporal" in emit_llvm(streaming.spec).text
        usual = run(device.prepare(plan), plan, [x])
        past = run(device.prepare(replace(plan, launches=(streaming,))), plan, [x])
        np.testing.assert_array_equal(usual[0], past[0])


def test_columns_that_two_vectors_share_are_written_once(tmp_path: Path) -> None:
    """The exponentials lie where the results will be, also those that the vector before has finished."""
    device = CpuDevice(store=ObjectStore(tmp_path / "cpu"), threads=1)
    for columns in (33, 50, 1024, 1025, 1060, 2050):
        body, eager = NORMALISATIONS["softmax"]
        check(device, partial(body, d=0), partial(eager, d=0), normal(37, columns), rtol=4e-6)

    def both(b: Any, x: Any) -> Any:
        powers = call(b, "exp", x)
        total = call(b, "sum", powers, [0], True, None)
        far = call(b, "amax", call(b, "div", powers, total), [0], False)
        return [call(b, "div", powers, total), far]

    def eagerly(x: Any) -> Any:
        shares = x.exp() / x.exp().sum(0, keepdim=True)
        return shares, shares.amax(0)

    check(device, both, eagerly, normal(37, 1030), rtol=4e-6)
