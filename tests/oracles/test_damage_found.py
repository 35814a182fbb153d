"""Programs that once ended in an exception of our internals, cut down to the lines that matter; each names what it broke."""

from __future__ import annotations

import pytest

import irscope as irs
from tests.oracles.everything import trouble

GROUPED = """graph(%x : Float(2, 3)):
  %a : Float(2, 3) = aten::relu(%x)
  %b : Float(2, 3) = aten::tanh(%a)
  %s : Float(2, 3) = aten::cumsum(%b, %one, %none)
  %c : Float(2, 3) = aten::exp(%s)
  %d : Float(2, 3) = aten::neg(%c)
  return (%d)""".replace(
    "  %s", "  %one : int = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n  %s"
)


@pytest.mark.parametrize("view_groups", [False, True])
def test_a_program_that_has_groups_is_shown_fused_again_and_compiled(view_groups: bool) -> None:
    once = irs.fuse(irs.parse(GROUPED), view_groups=view_groups)
    assert len(once.groups) == 2
    for graph in (once.graph, irs.parse(str(once.graph))):
        assert trouble(str(graph), compiled=True) == ""
        again = irs.fuse(graph, view_groups=view_groups)
        assert again.groups == ()
        assert str(again.graph) == str(graph)
        inside = again.why_not("a", "b.1")
        assert inside
        assert "%b" in inside.because
        apart = again.obstacle("a", "s")
        assert apart is not None
        assert apart.rule == "given-group"
        assert "already" in apart.because
        assert again.why_alone("a")
        assert again.group_of("a") is graph.node("b")


def test_a_loop_in_a_group_stays_as_it_is() -> None:
    """Groups are not made inside of groups, nor inside of what nobody knows."""
    body = """
      %i : Float(2, 3) = prim::If(%c)
        block0():
          %p : Float(2, 3) = aten::relu(%y)
          %q : Float(2, 3) = aten::tanh(%p)
          -> (%q)
        block1():
          -> (%y)
      -> (%i)"""
    for op in ("prim::FusionGroup", "my::region"):
        text = f"graph(%x : Float(2, 3), %c.1 : bool):\n  %z : Float(2, 3) = {op}(%x, %c.1)\n"
        text += f"    block0(%y : Float(2, 3), %c : bool):{body}\n  return (%z)"
        fusion = irs.fuse(irs.parse(text))
        assert fusion.groups == ()
        assert fusion.obstacle("p", "q").rule == "given-group" if op == "my::region" else fusion.why_not("p", "q")
        assert trouble(text) == ""


CONSTANTS = """
  %one : int = prim::Constant[value=1]()
  %text : str = prim::Constant[value="a"]()
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()"""


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ("%r : int = prim::GetAttr[value=0]()", "operand-count"),
        ("prim::SetAttr[name=\"a\"]()", "operand-count"),
        ("%r : NoneType = aten::mul_(%x, %half)", "result-kind"),
        ("%r : __torch__.M = aten::sigmoid_(%x)", "result-kind"),
        ("%r : Any = aten::add(%x, %one, %one)", "result-kind"),
        ("%r : Tensor = aten::add(%x, %x, %none)", "operand-kind"),
        ("%r : Tensor = aten::add(%x, %x, %text)", "operand-kind"),
        ("%r : int = prim::Constant[value=[0.5]]()", "constant-kind"),
        ("%r : float = prim::Constant[value=None]()", "constant-kind"),
        ("%r : int = prim::Constant[value=1" + "0" * 200 + "]()", "constant-kind"),
        ("%r : Float(3, 4) = prim::Constant[value=1]()", "constant-kind"),
        ("%r : Tensor, %s : Tensor = prim::TupleUnpack(%x)", "operand-kind"),
        ("%r : (Tensor, Tensor) = prim::TupleConstruct(%x)", "operand-count"),
        ("%r : Tensor[] = prim::ListConstruct(%text)", "operand-kind"),
        ("%r : Float(-1) = aten::relu(%x)", "extent"),
    ],
)
def test_what_the_analyses_tripped_over_is_refused(lines: str, rule: str) -> None:
    text = f"graph(%x : Float(2, 3)):{CONSTANTS}\n  {lines}\n  return (%x)"
    with pytest.raises(irs.IrscopeError) as caught:
        irs.load(text)
    assert caught.value.rule == rule, str(caught.value)
    assert trouble(text) == ""


def test_a_tensor_where_a_number_is_wanted_is_carried_along() -> None:
    """The tracer writes such programs: they load, and nothing that looks at them fails."""
    text = """graph(%x : Float(2), %y : Float(2), %t : Bool(3, 4)):
  %a : Float(2) = aten::relu(%x)
  %s : Float(2) = aten::add(%a, %y, %t)
  %f : Float(2) = aten::mul(%a, %s)
  return (%f)"""
    assert trouble(text) == ""
