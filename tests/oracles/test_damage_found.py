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
