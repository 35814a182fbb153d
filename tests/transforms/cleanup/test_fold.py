"""Folding and removal of dead nodes: values stay, runs share nothing; what they do to which program is in `tests/cases/passes`."""

import numpy as np

import irscope as irs
from irscope.ir.core import Graph
from irscope.ir.rewriter import Created, Erased
from irscope.runtime.reference import run_reference
from irscope.transforms.cleanup.fold import fold_constants, remove_dead_nodes


def ops(graph: Graph) -> list[str]:
    return [node.op.partition("::")[2] for node in graph.nodes()]


def test_a_folded_number_is_the_same_value() -> None:
    graph = irs.parse("graph(%x : Float(2, 3)):\n  %n : int = aten::dim(%x)\n  return (%n)")
    record = fold_constants(graph)
    assert record.after.outputs == graph.outputs
    assert ops(record.after) == ["Constant"]
    assert {type(edit) for edit in record.edits} == {Erased, Created}


def test_a_chain_of_a_hundred_thousand_dead_nodes_needs_no_recursion() -> None:
    lines = [f"  %v{i} : Tensor = aten::relu(%{f'v{i - 1}' if i else 'x'})" for i in range(100_000)]
    graph = irs.parse("\n".join(["graph(%x : Tensor):", *lines, "  return (%x)"]))
    assert ops(remove_dead_nodes(graph).after) == []


def test_runs_do_not_share_what_they_write() -> None:
    """A state that starts as a constant and is written in place later is made again at each run."""
    fusion = irs.fuse(
        irs.parse("""graph(%x : Float(3, 4, strides=[4, 1])):
      %none : NoneType = prim::Constant()
      %one : int = prim::Constant[value=1]()
      %h : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)
      %g : Tensor = aten::add_(%h, %x, %one)
      %y : Tensor = aten::neg(%h)
      return (%y)""")
    )
    x = np.ones((3, 4), np.float32)
    first = run_reference(fusion.graph, x)[0]
    np.testing.assert_array_equal(run_reference(fusion.graph, x)[0], first)


def test_a_fused_graph_with_a_larger_constant_runs_after_it_was_printed() -> None:
    graph = irs.parse("""graph(%x : Float(8, 8, strides=[8, 1])):
      %none : NoneType = prim::Constant()
      %one : int = prim::Constant[value=1]()
      %zero : int = prim::Constant[value=0]()
      %eight : int = prim::Constant[value=8]()
      %i : Long(8, strides=[1]) = aten::arange(%eight, %none, %none, %none, %none)
      %c : Long(8, 1, strides=[1, 1]) = aten::unsqueeze(%i, %one)
      %m : Bool(8, 8, strides=[8, 1]) = aten::le(%i, %c)
      %y : Float(8, 8) = aten::masked_fill(%x, %m, %zero)
      %z : Float(8, 8) = aten::exp(%y)
      return (%z)""")
    fused = irs.fuse(graph).graph
    again = irs.parse(str(fused))
    assert "<Tensor CPUBoolType{8,8} " in str(fused)
    assert str(again) == str(fused)
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(run_reference(again, x), run_reference(graph, x))
