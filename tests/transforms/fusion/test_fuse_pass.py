"""Fusion on random programs: the result means the same, also after every merge; no dependence is reversed; the answers agree."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import Graph, Merged, Node, Symbol
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.runtime.reference import run_reference
from irscope.session import exploration
from irscope.transforms.fusion import fuse, fuse_groups, prepare_fusion
from tests.programs import ir, parsed
from tests.random_programs.graphs import Program, programs, random_program
from tests.transforms.fusion.judges import assert_no_dependence_is_reversed, assert_same

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

CHAIN = ir("x | a = relu x; b = tanh a; c = neg b | c", "Float(2, 3)")


@QUICK
@example(random_program(214, size=18))  # an op of a loop gets a kernel of its own, and its constants are then unused
@given(programs())
def test_no_dependence_is_reversed_the_text_reads_back_and_fusing_again_changes_nothing(program: Program) -> None:
    fusion = fuse(irs.parse(program.text))
    fused = fusion.graph
    assert_no_dependence_is_reversed(fusion.history.graph(-2), fused)
    assert same_structure(irs.parse(str(fused)), fused)
    again = fuse(fused)
    if all(record.name != "functionalize" for record in again.history.records):  # it may find more after other passes
        assert again.groups == ()
        assert same_structure(again.graph, fused)


@settings(QUICK, max_examples=40)
@given(programs(max_size=12))
def test_why_not_agrees_with_the_groups(program: Program) -> None:
    fusion = fuse(irs.parse(program.text))
    nodes = [node for node in fusion.history.records[fusion._fused_at].before.nodes() if node.op != "prim::Constant"]
    for a in nodes:
        for b in nodes:
            verdict = fusion.why_not(a, b)
            together = a is b or (fusion.group_of(a) is not None and fusion.group_of(a) is fusion.group_of(b))
            assert bool(verdict) == together, f"{a!r} and {b!r}: {verdict}"
            assert verdict.because


@QUICK
@given(programs())
def test_groups_stay_apart_only_where_merging_is_refused(program: Program) -> None:
    """A fusible producer and its reader in one block are together, or there is a reason that names something."""
    fusion = fuse_groups(prepare_fusion(irs.parse(program.text)).final)
    for remark in fusion.remarks:
        assert remark.because and (remark.kind != "missed" or remark.evidence)
    merges = [edit for edit in fusion.history.records[-1].edits if isinstance(edit, Merged)]
    members: dict[Node, set[Node]] = {}
    for merge in merges:
        members.setdefault(merge.group, set()).update(merge.nodes)
    assert set(members) == set(fusion.groups)
    for group, nodes in members.items():
        inside = [node for node in group.blocks[0].nodes if node.op != "prim::Constant"]
        assert {node.id for node in inside} == {node.id for node in nodes}
        assert sum(merge.group is group for merge in merges) == len(nodes) - 1


def test_values_outside_groups_are_the_original_ones_and_a_program_without_groups_is_itself() -> None:
    graph = irs.parse(CHAIN)
    fusion = fuse(graph)
    assert fusion.graph.outputs == graph.outputs and fusion.groups[0].outputs == graph.outputs
    assert fusion.groups[0].inputs == graph.inputs
    graph = irs.parse("graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::matmul(%x, %y)\n  return (%z)")
    assert fuse(graph).graph is graph and fuse(graph).groups == ()


def test_the_table_adds_up_at_a_named_bandwidth() -> None:
    (row,) = fuse(irs.parse(CHAIN)).table().to_dict("records")
    assert row["bytes before"] == 6 * 24 and row["bytes after"] == 2 * 24 and row["bytes saved"] == 96
    assert (row["nodes"], row["space"], row["result"]) == (3, "(2, 3)", "%c") and row["flops"] == (1 + 36 + 1) * 6  # of relu, tanh, neg
    assert row["µs at 20 GB/s"] == pytest.approx(48 / 20e9 * 1e6, abs=1e-3)
    fusion = fuse(irs.parse(CHAIN.replace("Float(2, 3)", "Float(1000, 1000)")))
    assert fusion.table(bandwidth="2 TB/s")["µs at 2 TB/s"].tolist() == [4.0]
    assert fusion.table(bandwidth=1e9)["µs at 1 GB/s"].tolist() == [8000.0]
    for nonsense in ("fast", "0 GB/s", -1, None):
        with pytest.raises(ArgumentError, match="not a bandwidth"):
            fusion.table(bandwidth=nonsense)  # type: ignore[arg-type]


def test_a_softmax_in_parts_gathers_once_and_its_arithmetic_counts_on_every_point() -> None:
    text = ir("x | d = 1; n = None; y = mul x x; s = softmax y d n | s", "Float(4, 8)")
    (row,) = fuse(irs.parse(text)).table().to_dict("records")
    assert (row["kind"], row["bytes after"]) == ("reduction", 2 * 4 * 8 * 4) and row["flops"] >= 5 * 4 * 8


def test_bytes_are_formulas_where_extents_are_unknown_and_never_zero() -> None:
    fusion = fuse(irs.parse(CHAIN.replace("Float(2, 3)", "Tensor")))
    assert fusion.table()["bytes saved"].tolist() == ["unknown"]
    named = fuse(irs.parse(CHAIN.replace("Float(2, 3)", "Float(batch, 3)")))
    known = [fuse(irs.parse(CHAIN.replace("Float(2, 3)", f"Float({batch}, 3)"))) for batch in (5, 7)]
    assert (saved := named.table()["bytes saved"].tolist()) == ["48·batch"]
    assert [int(saved[0].removesuffix("·batch")) * batch for batch in (5, 7)] == [each.table()["bytes saved"][0] for each in known]
    assert named.remarks[0].because.endswith("which saves 48·batch B of memory traffic")
    assert named.cost().bytes == named.traffic(named.groups[0])[1] != 0


@pytest.mark.parametrize("dtype", ["ComplexFloat", "QInt8"])
def test_element_types_that_kernels_do_not_compute_with_stay_out(dtype: str) -> None:
    fusion = fuse(irs.parse(CHAIN.replace("Float", dtype)))
    assert fusion.groups == () and "kernels do not compute with" in fusion.why_not("a", "b").because


def test_why_not_knows_folded_and_inner_names() -> None:
    graph = parsed("x | n:int = dim x; dead = relu x; a = add x x n; b = relu a | b", "Float(2, 3)")
    fusion = fuse(graph)
    assert "unused" in fusion.why_not("dead", "b").because and fusion.why_not("b.1", "a")
    assert not fusion.why_not("n", "a")
    with pytest.raises(UnknownName):
        fusion.why_not("nobody", "a")


@given(st.integers(2, 6), st.integers(1, 8))
def test_the_argument_limit_holds(width: int, limit: int) -> None:
    inputs = ", ".join(f"%x{i} : Float(2)" for i in range(width))
    lines = [f"  %s{i} : Float(2) = aten::mul(%{'x0' if i == 1 else f's{i - 1}'}, %x{i})" for i in range(1, width)]
    text = "\n".join([f"graph({inputs}):", *lines, f"  return (%s{width - 1})"])
    for group in fuse(irs.parse(text), max_arguments=limit).groups:
        assert len(group.inputs) + len(group.outputs) <= limit


def test_a_long_chain_becomes_kernels_of_limited_size() -> None:
    lines = "\n".join(f"  %v{i + 1} : Tensor = aten::tanh(%v{i})" for i in range(300))
    fusion = fuse(irs.parse(f"graph(%v0 : Tensor):\n{lines}\n  return (%v300)"), max_nodes=100)
    sizes = [len(group.blocks[0].nodes) for group in fusion.groups]
    assert sum(sizes) == 300 and max(sizes) <= 100
    assert [remark.rule for remark in fusion.remarks if remark.kind == "missed"] == ["size-limit"] * (len(sizes) - 1)


def test_a_module_is_fused_with_its_calls_inlined():
    body = "graph(%x : Float(3)):\n  %a : Float(3) = aten::relu(%x)\n  %b : Float(3) = {}\n  return (%b)"
    called, caller = body.format("aten::neg(%a)"), body.format('func::call[callee="@f"](%a)')
    f = irs.parse(called)
    with pytest.raises(ArgumentError, match="2 public graphs"):
        irs.fuse(irs.Module({"f": f, "main": irs.parse(caller)}))
    private = (Symbol("f", "func::func", "private"),)
    fusion = irs.fuse(irs.Module({"f": f, "main": irs.parse(caller)}, symbols=private))
    assert [len(group.blocks[0].nodes) for group in fusion.groups] == [3]


def test_a_node_of_a_group_is_said_to_be_in_it() -> None:
    text = "graph(%x : Float(4)):\n  %a : Float(4) = aten::relu(%x)\n  %b : Float(4) = aten::exp(%a)\n  return (%b)"
    assert str(fuse(irs.parse(text)).why_alone("a")) == "fused: it is in the fusion group that makes %b"


def test_an_op_on_tensors_is_not_said_to_compute_with_numbers() -> None:
    said = {
        "Long(64) = aten::gcd(%a, %x)": "aten::gcd is not of a kind known to fuse, and stays with the library",
        "number = aten::item(%a)": "aten::item makes a Python value of a tensor",
    }
    for call, because in said.items():
        fusion = fuse(irs.parse(f"graph(%x : Long(64)):\n  %a : Long(64) = aten::neg(%x)\n  %b : {call}\n  return (%b)"))
        assert fusion.why_alone("b").because == because


@pytest.mark.parametrize(("source", "target"), [("float32", "int32"), ("int64", "float64"), ("uint8", "int8"), ("float16", "int16")])
@pytest.mark.parametrize("count", [7, 8])
def test_the_same_bytes_as_another_type_part_two_groups(source: str, target: str, count: int, torch: Any) -> None:
    x = (torch.arange(count) - 3).to(getattr(torch, source))

    def bits(x):
        return (x.abs() + x).view(getattr(torch, target)) * 2 + 1

    fusion = irs.fuse(irs.load(bits, x))
    assert len(fusion.groups) == 2 and "sees the bytes of" in str(fusion.why_not("add", "view"))
    torch.testing.assert_close(irs.compile(fusion)(x), bits(x), rtol=0, atol=0, equal_nan=True)


LATTICE = ir(
    "x y | n:int = dim x; a = add x y n; b = tanh a; m = mul a y; c:Float(2, 2) = matmul m x; d = sub b a n; e:Float(2, 2) = relu c; "
    "f:Float(2, 2) = neg e | d f",
    "Float(2, 3)",
)


def groups(graph: Graph) -> set[Node]:
    return {node for node in graph.nodes() if node.op == "prim::FusionGroup"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_the_program_means_the_same_after_every_step(program: Program) -> None:
    history = fuse(irs.parse(program.text)).history
    wanted = run_reference(history.initial, *program.fresh())
    for step in range(len(history.steps) + 1):
        graph = history.graph_after(step)
        verify(graph)
        assert_same(run_reference(graph, *program.fresh()), wanted)


def test_steps_say_what_was_joined_and_their_graphs_share_all_but_the_group_that_grew() -> None:
    history = fuse(irs.parse(LATTICE)).history
    assert history.graph_after(0) is history.initial
    assert history.graph_after(-1) is history.graph_after(len(history.steps)) is history.final
    assert history.graph_after(1) is history.graph(1)  # folding is one step
    assert [step.pass_name for step in history.steps] == ["fold-constants", *["fuse-groups"] * 4]
    merges = [edit for edit in history.records[-1].edits if isinstance(edit, Merged)]
    for step, merge in zip(history.steps[1:], merges, strict=True):
        assert (step.rule, step.because) == ("producer-consumer", merge.reason) and step.nodes == merge.nodes
        assert step.bytes_saved > 0
    assert history.steps[0].because == "1 node created, 1 node erased"
    for step in range(1, len(history.steps)):
        before, after = (groups(history.graph_after(place)) for place in (step, step + 1))
        assert len(after - before) == 1
        (grown,) = after - before
        kept = [group for group in before - after if group.id == grown.id]
        assert len(kept) <= 1  # a group keeps its id while it grows
        assert {node.id for node in grown.blocks[0].nodes} >= {node.id for old in kept for node in old.blocks[0].nodes}
    held = history.graph_after(2)
    assert history.graph_after(2) is held
    assert str(held) == str(fuse(irs.parse(LATTICE)).history.graph_after(2))


def test_merges_of_groups_that_stay_too_small_are_not_steps() -> None:
    fusion = fuse(irs.parse(LATTICE), min_size=3)
    assert [len(group.blocks[0].nodes) for group in fusion.groups] == [5]
    assert len(fusion.history.steps) == 4
    assert len(groups(fusion.history.graph_after(2))) == 1


@pytest.mark.parametrize("step", [100, -100])
def test_a_step_that_there_is_not_is_an_error_with_the_last_one(step: int) -> None:
    history = fuse(irs.parse(LATTICE)).history
    with pytest.raises(ArgumentError, match=f"no step {step}") as caught:
        history.graph_after(step)
    assert str(len(history.steps)) in str(caught.value)


def test_a_group_is_answered_for_by_its_members() -> None:
    ops = ("relu(%x)", "tanh(%v0)", "matmul(%v1, %v1)", "relu(%v2)", "tanh(%v3)")
    lines = "\n".join(f"  %v{index} : Float(4, 4) = aten::{op}" for index, op in enumerate(ops))
    f = irs.fuse(irs.parse(f"graph(%x : Float(4, 4)):\n{lines}\n  return (%v4)"))
    first, second = f.groups
    asked = {(first, second): ("v1", "v3"), (second, first): ("v3", "v1"), (first, "v2"): ("v1", "v2"), ("v2", second): ("v2", "v3")}
    for (a, b), members in asked.items():
        assert not f.why_not(a, b) and f.why_not(a, b).because == f.why_not(*members).because
        assert f.obstacle(a, b).rule == f.obstacle(*members).rule  # type: ignore[union-attr]
    for group in f.groups:
        assert f.why_not(group, group) and all(f.why_not(group, inner) for inner in group.blocks[0].nodes)
        assert "gone" not in f.why_alone(group).because


def test_a_fusion_is_fused_again_and_given_groups_are_counted() -> None:
    """An executable shows what runs, and what a verb does not take, it refuses by its name."""
    g, x = irs.parse(CHAIN), np.ones((2, 3), np.float32)
    f = irs.fuse(g)
    assert irs.fuse(f).original is g and str(irs.fuse(f).graph) == str(f.graph)
    assert len(irs.fuse(f, opaque=["b"]).groups) == 0
    assert repr(irs.fuse(f.graph)) == "<Fusion of 'graph': 0 nodes in 0 groups, 1 group given>"
    compiled = irs.compile(f)
    assert exploration(compiled, (), measure="never").fusion.original is compiled.graph
    with pytest.raises(ArgumentError, match=r"compare works on a Graph.* not on Dedup"):
        irs.compare(irs.dedup(f), x)
    with pytest.raises(ArgumentError, match=r"profile works on a Graph.* not on Dedup"):
        irs.profile(irs.dedup(f), x)

    class Model:
        fusion = object()

    for verb, programs_ in ((irs.fuse, [Model()]), (irs.compile, [Model()]), (irs.diff, [Model(), g])):
        with pytest.raises(ArgumentError, match=r"works on a Graph.* not on Model"):
            verb(*programs_)


def test_a_module_or_an_op_stands_for_its_nodes_and_each_node_has_its_bytes(torch: Any) -> None:
    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mlp = torch.nn.LayerNorm(8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())

        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.relu(self.mlp(self.norm(x + 1)))

    model, x = Block(), torch.ones(2, 8)
    f = irs.fuse(irs.load(model, x))
    pairs = {("norm", "mlp"): ("layer_norm", "linear"), ("mlp.1", "relu"): ("gelu", "relu"), ("aten::add", "norm"): ("add", "layer_norm")}
    for (a, b), nodes in pairs.items():
        answer, told = f.why_not(a, b), f.why_not(*nodes)
        assert bool(answer) == bool(told) == (a != "norm") and told.because.partition("; ")[0] in answer.because
    linear = model.mlp[0]
    moved = sum(tensor.untyped_storage().nbytes() for tensor in (x, linear.weight, linear.bias, linear(x)))
    assert f.traffic("linear") == f.traffic(f.original.node("linear")) == (moved, moved)
    (size,) = {tensor.untyped_storage().nbytes() for tensor in (x, linear(x))}
    assert f.traffic("gelu") == f.traffic("relu") == (4 * size, 2 * size)
    with pytest.raises(ArgumentError, match="no producer"):
        f.traffic(f.original.inputs[0])
