"""Facts of kernels on processors: what the text says of itself is found again in the machine code."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from irscope.codegen.llvm.emit import vector_width
from irscope.codegen.lowering.lower import spec_of_group
from irscope.codegen.profile.cpu_bounds import cpu_facts, hot_loops
from irscope.codegen.profile.kernel_facts import KernelFacts
from irscope.errors import CodegenError
from irscope.ir.builder import GraphBuilder
from irscope.ir.core import Value
from irscope.ir.types import TENSOR
from irscope.ops.expr.expression import Expr, call, input_element
from tests.codegen.groups import group, type_of
from tests.codegen.kernels import plan_of, sample
from tests.codegen.numerics.test_random_reductions import Draw, Nodes
from tests.codegen.suite_kernels import NAMES, PROCESSORS, machine_code, suite_spec

POINTWISE = ("k1", "k2", "k3")
PASSES = {
    "softmax": 3, "layernorm": 3, "rmsnorm": 2, "sum rows": 1, "sum columns": 1, "sum all": 1,
} | dict.fromkeys(POINTWISE, 1)  # fmt: skip


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", NAMES)
def test_a_loop_for_each_pass_and_a_vector_for_each_step(name: str, processor: str) -> None:
    spec = suite_spec(name)
    source, _, assembly = machine_code(spec, processor)
    loops = hot_loops(spec, source, assembly)
    assert len(loops) == PASSES[name]
    width = vector_width(spec, PROCESSORS[processor][2])
    assert all(loop.text.points % width == 0 for loop in loops), "a step may take several rows at once"


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_step_of_a_loop_is_as_long_as_the_text_says(processor: str) -> None:
    for name in POINTWISE:
        spec = suite_spec(name)
        source, _, assembly = machine_code(spec, processor)
        (loop,) = hot_loops(spec, source, assembly)
        lines = source.text.splitlines()
        steps = [re.search(r"add i64 %i\S*, (\d+)$", lines[line]) for line in loop.text.lines]
        assert loop.text.points in {int(step[1]) for step in steps if step}


def test_wider_vectors_need_fewer_instructions() -> None:
    for name in NAMES:
        narrow, wide = (facts(name, processor).instructions for processor in ("sse", "avx512"))
        assert wide < narrow / 2, name


def facts(name: str, processor: str = "avx512", **rates: float) -> KernelFacts:
    spec = suite_spec(name)
    source, _, assembly = machine_code(spec, processor)
    return cpu_facts(spec, source, assembly, processor, **rates)


@pytest.mark.parametrize("name", NAMES)
def test_the_pace_follows_from_what_memory_can_do(name: str) -> None:
    slow, fast = facts(name, copy=1e8), facts(name, copy=1e15)
    assert slow.bound == "memory"
    assert slow.copy_share > 0.95
    assert fast.bound in ("issue", "latency")
    assert fast.copy_share < 0.01
    assert slow.busiest == fast.busiest
    assert "0.1 GB/s" in slow.because


def test_sums_wait_for_their_own_results_and_roots_for_the_divider() -> None:
    assert facts("sum all", copy=1e15).bound == "latency"
    root = kernel(call("sqrt", input_element(0, "float64")), "float64")
    assert root.busiest == "divider"
    assert kernel(input_element(0, "float64") * 2.0, "float64").bound == "memory"


def kernel(expr: Expr, dtype: str) -> KernelFacts:
    x = sample(dtype, (4, 400), np.random.default_rng(0))
    spec = plan_of([expr], [x], [dtype], x.shape).specs[0]
    source, _, assembly = machine_code(spec, "sse")
    return cpu_facts(spec, source, assembly, "sse")


def test_bytes_and_operations() -> None:
    softmax, total = facts("softmax"), facts("sum rows")
    assert (softmax.read_bytes, softmax.written_bytes, softmax.operations) == (4, 4, 5)
    assert (total.read_bytes, total.written_bytes, total.operations, total.intensity) == (4, 0, 1, 0.25)
    assert facts("k3").bytes == 12
    assert dict(facts("k3").rows)["memory a point"] == "8 B read, 4 B written"


def test_spills_are_told() -> None:
    assert facts("k1", "avx512").spills > 0
    assert dict(facts("sum rows").rows)["spills"] == "none"


def test_a_kernel_of_one_stretch_has_no_loop_to_count() -> None:
    spec = suite_spec("sum all", 4)
    source, _, assembly = machine_code(spec, "avx512")
    found = cpu_facts(spec, source, assembly, "avx512")
    if hot_loops(spec, source, assembly):
        assert found.bound
    else:
        assert (found.bound, found.instructions) == ("", 0)
        assert "no loop over points" in found.because
    assert found.read_bytes == 4


def test_a_table_for_a_notebook() -> None:
    shown = facts("k1")._repr_html_()
    assert shown.count("<tr>") == len(facts("k1").rows)
    assert "vector units" in shown
    assert str(facts("k1")).endswith(facts("k1").because)


@pytest.mark.parametrize("processor", ["avx512", "neon"])
def test_random_groups_have_a_pace_unless_a_row_is_one_vector(processor: str) -> None:
    told = 0
    for seed in range(60):
        draw = Draw(seed)
        made = group(partial(written, draw), [TENSOR] * len(draw.inputs))
        try:
            plan = spec_of_group(made, [type_of(array) for array in draw.inputs])
        except CodegenError:
            continue
        for spec in plan.specs:
            source, _, assembly = machine_code(spec, processor)
            found = cpu_facts(spec, source, assembly, processor)
            assert found.bound or 0 < spec.row_limit <= 64, seed
            assert (found.instructions > 0) == bool(found.bound) == bool(found.registers)
            assert 0 <= found.copy_share <= 1
            told += bool(found.bound)
    assert told > 40


def written(draw: Draw, builder: GraphBuilder, *values: Value) -> list[Value]:
    """The group of a draw."""
    results: list[Value] = draw.write(Nodes(draw, builder), list(values))
    return results
