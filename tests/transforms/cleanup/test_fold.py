"""Folding and removal of dead nodes: what goes, what stays because somebody could notice."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

import irscope as irs
from irscope.ir.core import Graph
from irscope.ir.rewriter import Created, Erased, Replaced
from irscope.ir.verify import verify
from irscope.runtime.reference import run_reference
from irscope.transforms.cleanup.dce import remove_dead_nodes
from irscope.transforms.cleanup.fold import fold_constants
from tests.random_programs.graphs import Program, programs
from tests.transforms.fusion.test_fuse_pass import assert_same


def ops(graph: Graph) -> list[str]:
    return [node.op.partition("::")[2] for node in graph.nodes()]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_the_folded_program_means_the_same(program: Program) -> None:
    graph = irs.parse(program.text)
    folded = fold_constants(graph).after
    verify(folded)
    before, after = program.fresh(), program.fresh()
    assert_same(run_reference(graph, *before), run_reference(folded, *after))
    assert_same(before, after)
    assert fold_constants(folded).after is folded


KNOWN_IF = """graph(%x : Float(2, 3), %y : Tensor):
  %two : int = prim::Constant[value=2]()
  %rank : int = aten::dim(%VALUE)
  %flat : bool = aten::eq(%rank, %two)
  %r : Tensor = prim::If(%flat)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a)
    block1():
      %b : Tensor = aten::exp(%x)
      -> (%b)
  return (%r)"""


def test_a_known_if_gives_way_to_its_branch() -> None:
    graph = irs.parse(KNOWN_IF.replace("VALUE", "x"))
    record = fold_constants(graph)
    assert ops(record.after) == ["relu"]
    assert record.after.outputs == (graph.value("a"),)
    assert Replaced in map(type, record.edits)


def test_an_if_whose_condition_is_unknown_stays() -> None:
    graph = irs.parse(KNOWN_IF.replace("VALUE", "y"))
    assert fold_constants(graph).after is graph


def test_ifs_inside_the_branches_of_known_ifs_fold_too() -> None:
    graph = irs.parse("""graph(%x : Float(2, 3)):
  %yes : bool = prim::Constant[value=1]()
  %r : Tensor = prim::If(%yes)
    block0():
      %s : Tensor = prim::If(%yes)
        block0():
          %a : Tensor = aten::relu(%x)
          -> (%a)
        block1():
          -> (%x)
      %t : Tensor = aten::neg(%s)
      -> (%t)
    block1():
      -> (%x)
  return (%r)""")
    assert ops(fold_constants(graph).after) == ["relu", "neg"]


def test_a_folded_number_is_the_same_value() -> None:
    graph = irs.parse("graph(%x : Float(2, 3)):\n  %n : int = aten::dim(%x)\n  return (%n)")
    record = fold_constants(graph)
    assert record.after.outputs == graph.outputs
    assert ops(record.after) == ["Constant"]
    assert {type(edit) for edit in record.edits} == {Erased, Created}


@pytest.mark.parametrize("line", [
    "%d : Tensor = aten::relu_(%x)",
    "%d : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)",
    " = prim::Print(%x)",
    "%d : Tensor = my::op(%x)",
])  # fmt: skip
def test_what_can_be_noticed_is_not_dead(line: str) -> None:
    text = f"graph(%x : Tensor):\n  %none : NoneType = prim::Constant()\n  {line}\n  return (%x)"
    assert ops(remove_dead_nodes(irs.parse(text)).after)[-1] != "Constant"


def test_dead_chains_go_and_what_an_effect_in_a_block_reads_stays() -> None:
    graph = irs.parse("""graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::exp(%a)
  %u : Tensor = aten::tanh(%x)
  %r : Tensor = prim::If(%c)
    block0():
      %v : Tensor = aten::neg(%u)
      %dead : Tensor = aten::neg(%v)
       = prim::Print(%v)
      -> (%x)
    block1():
      -> (%x)
  return (%x)""")
    record = remove_dead_nodes(graph)
    assert ops(record.after) == ["tanh", "If", "neg", "Print"]
    verify(record.after)


def test_an_if_without_effects_whose_results_nobody_reads_goes() -> None:
    graph = irs.parse("""graph(%x : Tensor, %c : bool):
  %r : Tensor = prim::If(%c)
    block0():
      %v : Tensor = aten::neg(%x)
      -> (%v)
    block1():
      -> (%x)
  return (%x)""")
    assert ops(remove_dead_nodes(graph).after) == []


def test_a_chain_of_a_hundred_thousand_dead_nodes_is_no_recursion() -> None:
    lines = [f"  %v{i} : Tensor = aten::relu(%{f'v{i - 1}' if i else 'x'})" for i in range(100_000)]
    graph = irs.parse("\n".join(["graph(%x : Tensor):", *lines, "  return (%x)"]))
    assert ops(remove_dead_nodes(graph).after) == []


ASSERTED = """graph(%x : Float(2, 3, strides=[3, 1], device=cpu), %y : Tensor, %n : int):
  %0 : NoneType = prim::Constant()
  %float : int = prim::Constant[value=6]()
  %cpu : Device = prim::Constant[value="cpu"]()
  %strided : int = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
  %sizes : int[] = prim::Constant[value=[2, 3]]()
  %text : str = prim::Constant[value="what"]()
  aten::ASSERTION
  return (%x)"""


@pytest.mark.parametrize(
    ("assertion", "stays"),
    [
        ("_assert_tensor_metadata(%x, %0, %0, %float, %cpu, %strided)", False),
        ("_assert_tensor_metadata(%x, %sizes, %0, %0, %0, %0)", False),
        ("_assert_tensor_metadata(%x, %0, %sizes, %0, %0, %0)", True),
        ("_assert_tensor_metadata(%x, %0, %0, %two, %0, %0)", True),
        ("_assert_tensor_metadata(%y, %0, %0, %float, %0, %0)", True),
        ("_assert_tensor_metadata(%x, %0, %0, %n, %0, %0)", True),
        ("_assert_scalar(%two, %text)", False),
        ("_assert_scalar(%strided, %text)", True),
        ("_assert_scalar(%n, %text)", True),
        ("sym_constrain_range(%two, %two, %float)", False),
        ("sym_constrain_range(%strided, %two, %float)", True),
        ("sym_constrain_range_for_size(%two, %0, %0)", False),
    ],
)
def test_an_assertion_that_types_settle_goes(assertion: str, stays: bool) -> None:
    after = fold_constants(irs.parse(ASSERTED.replace("ASSERTION", assertion))).after
    assert any(op.startswith(("_assert", "sym_")) for op in ops(after)) == stays


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ("to(%x, %6, %no, %no, %none)", True),
        ("to(%x, %7, %no, %no, %none)", False),
        ("to(%x, %6, %no, %yes, %none)", False),
        ("contiguous(%x, %0)", True),
        ("contiguous(%t, %0)", False),
        ("dropout(%x, %p, %no)", True),
        ("dropout(%x, %p, %train)", False),
    ],
)
def test_what_returns_its_operand_is_its_operand(line: str, goes: bool) -> None:
    kind = "Double" if "%7" in line else "Float"
    graph = irs.parse(f"""graph(%x : Float(2, 3, strides=[3, 1], device=cpu), %t : Float(2, 3, strides=[1, 2], device=cpu), %train : bool):
      %none : NoneType = prim::Constant()
      %no : bool = prim::Constant[value=0]()
      %yes : bool = prim::Constant[value=1]()
      %0 : int = prim::Constant[value=0]()
      %6 : int = prim::Constant[value=6]()
      %7 : int = prim::Constant[value=7]()
      %p : float = prim::Constant[value=0.5]()
      %y : {kind}(2, 3, strides=[3, 1], device=cpu) = aten::{line}
      %z : {kind}(2, 3, strides=[3, 1], device=cpu) = aten::neg(%y)
      return (%z)""")
    kept = [op for op in ops(fold_constants(graph).after) if op != "Constant"]
    assert kept == (["neg"] if goes else [line.partition("(")[0], "neg"])
