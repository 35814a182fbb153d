"""The lines around a place, and the steps of a walk that they are made from."""

from __future__ import annotations

from irscope.ir.text.parser import parse
from irscope.ir.text.printer import excerpt
from irscope.ir.traversal import steps

G = parse("""graph(%c : bool, %x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%a)
  %d : Tensor = prim::If(%c)
    block0():
      %e : Tensor = aten::neg(%b)
      -> (%e)
    block1():
      -> (%b)
  %f : Tensor = aten::relu(%d)
  %g : Tensor = aten::relu(%f)
  return (%g)""")


def test_far_places_are_shown_apart():
    assert excerpt(G, {G.node("a"): "one", G.node("g"): "two"}, context=0) == (
        ">     %a : Tensor = aten::relu(%x)    one\n    …\n>     %g : Tensor = aten::relu(%f)    two"
    )


def test_the_end_of_a_block_can_be_marked():
    assert excerpt(G, {G.node("d").blocks[1]: "gives %b"}, context=1) == (
        "        block1():\n>         -> (%b)    gives %b\n      %f : Tensor = aten::relu(%d)"
    )


def test_results_are_done_after_the_blocks_and_before_the_next_node():
    kinds = [(step.kind, step.node.op if step.node else "") for step in steps(G)]
    assert (
        kinds.index(("done", "prim::If"))
        == kinds.index(("leave", "prim::If"), kinds.index(("leave", "prim::If")) + 1) + 1
    )
    assert [step.node for step in steps(G) if step.kind == "node"] == list(G.nodes())
