"""Groups that gather and groups with views: what is planned can be generated, and gives what torch gives."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import irscope as irs
from irscope.analysis.shapes import Shapes, infer
from irscope.codegen.lowering import spec_of_group
from irscope.ir import BOOL, FLOAT, INT, Graph, Node, TensorType, Type
from irscope.ir.invariants import verify
from irscope.ops.traits import SEEN_THROUGH
from irscope.runtime.reference import run_reference
from irscope.transforms.fusion import fuse
from irscope.transforms.fusion.domains import Domain
from tests.programs import parsed
from tests.random_programs.graphs import FEATURES, MORE_FEATURES, Program, programs
from tests.transforms.fusion.judges import assert_as_eager, assert_same_runs

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALL = FEATURES | MORE_FEATURES
PURE = ("views", "reductions", "select", "norms", "joins")


def planned(graph: Graph, policy: str = "greedy") -> Iterator[tuple[Node, list[Type]]]:
    """The groups all of whose arguments' types are known, and these types."""
    fused = fuse(graph, policy=policy).graph
    shapes = infer(fused)
    for group in fused.nodes():
        if group.op == "prim::FusionGroup":
            types = [bare(shapes, value) for value in group.inputs]
            if all(t in (INT, FLOAT, BOOL) or (isinstance(t, TensorType) and t.is_static and t.strides) for t in types):
                yield group, types


def bare(shapes: Shapes, value: Any) -> Type:
    found = shapes.type(value)
    return TensorType(found.dtype, found.shape, found.strides) if isinstance(found, TensorType) else found


@QUICK
@given(programs(features=ALL))
def test_fused_programs_mean_the_same(program: Program) -> None:
    graph = irs.parse(program.with_types().text)
    fused = fuse(graph).graph
    verify(fused)
    assert_same_runs(graph, fused, program)


@pytest.mark.parametrize("policy", ["greedy", "min-bytes"])
@settings(QUICK, max_examples=60)
@given(program=programs(features=PURE, max_size=40))
def test_what_is_planned_can_be_generated(policy: str, program: Program) -> None:
    for group, types in planned(irs.parse(program.with_types().text), policy):
        spec_of_group(group, types)  # raises where planner and generator disagree


@pytest.mark.long
@settings(QUICK, max_examples=5000)
@given(programs(features=ALL, max_size=60))
def test_what_is_planned_can_be_generated_many_times(program: Program) -> None:
    for group, types in planned(irs.parse(program.with_types().text)):
        spec_of_group(group, types)


@settings(QUICK, max_examples=15)
@given(programs(features=PURE, max_size=12))
def test_kernels_compute_what_torch_computes(program: Program) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("llvmlite")
    run = irs.compile(fuse(irs.parse(program.with_types().text)))
    assert_as_eager(program, [], [run])
    assert [remark.because for remark in run.remarks if remark.kind == "missed"] == []


@QUICK
@given(programs(features=PURE, max_size=40))
def test_a_view_is_in_a_group_only_in_front_of_something(program: Program) -> None:
    fusion = fuse(irs.parse(program.with_types().text))
    for group in fusion.groups:
        returned = set(group.blocks[0].returns)
        read = {value for node in group.blocks[0].nodes for value in node.inputs}
        for node in group.blocks[0].nodes:
            if node.op in SEEN_THROUGH or node.op == "prim::ListUnpack":
                assert not returned & set(node.outputs)
                assert read & set(node.outputs)


def program_of(ops: str, shape: str = "4, 6") -> Graph:
    return parsed(f"x:Float({shape}) y:Float({shape}) | none = None; zero = 0; one = 1; yes = True; {ops} | r")


@pytest.mark.parametrize(
    ("axes", "keep", "together"),
    [("1", True, True), ("0", True, True), ("0, 1", True, True), ("0", False, True), ("0, 1", False, True),
     ("1", False, False)],
)  # fmt: skip
def test_a_gathered_value_must_lie_where_it_is_read(axes: str, keep: bool, together: bool) -> None:
    """Against NumPy: only where the shapes broadcast by accident does the planner decline."""
    numbers = [int(axis) for axis in axes.split(", ")]
    names = "; ".join(f"n{axis} = {axis}" for axis in numbers)
    axes = " ".join(f"n{axis}" for axis in numbers)
    lines = f"{names}; axes:int[] = ListConstruct {axes}; keep = {keep}; s = sum x axes keep none; r = mul y s"
    fusion = fuse(program_of(lines, "4, 4"))
    assert bool(fusion.group_of("s")) == together
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    (found,) = run_reference(fusion.graph, x, y)
    np.testing.assert_allclose(found, y * x.sum(axis=tuple(numbers), keepdims=keep), rtol=1e-5)


def test_a_domain_tells_its_axes() -> None:
    assert str(Domain((4, 8), axes=(1,))) == "(4, 8) reduced over axis 1"
    assert str(Domain((2, 4, 8), axes=(0, 1, 2))) == "(2, 4, 8) reduced over axes 0, 1 and 2"
    assert str(Domain((2, 4, 8), axes=(1, 2), parts=2)) == "(2, 4, 8) reduced over axes 1 and 2 in 2 parts"
    assert str(Domain((2, None))) == "(2, *)"


def test_both_spaces_are_shown_where_they_differ() -> None:
    verdict = fuse(program_of("a = softmax x one none; r = softmax a zero none")).why_not("a", "r")
    assert "(4, 6) reduced over axis 1 and (4, 6) reduced over axis 0" in verdict.because


def test_attention_written_as_ops_is_one_kernel() -> None:
    """The largest, the powers, their sum and the quotient: four ops with two gatherings, and a mask in front."""
    masked = "axes:int[] = ListConstruct one; m = add x y one; t = amax m axes yes; d = sub m t one"
    lines = f"{masked}; e = exp d; s = sum e axes yes none; r = div e s"
    fusion = fuse(program_of(lines))
    (group,) = fusion.groups
    assert group.attrs["kind"] == "reduction"
    assert len(spec_of_group(group, [TensorType("float32", (4, 6))] * 2).launches) == 1
