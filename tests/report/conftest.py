"""One small program with everything in it: a module path, a group, a write through a view, a block, a list."""

import pytest

import irscope as irs
from irscope.report.pages.exploration import Exploration

PROGRAM = """graph(%x : Float(4, 8, strides=[8, 1], device=cpu), %flag : bool):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Float(4, 8, strides=[8, 1], device=cpu) = aten::sigmoid(%x), scope: net.gate
  %b : Float(4, 8, strides=[8, 1], device=cpu) = aten::mul(%a, %x), scope: net.gate
  %c : Float(4, 8, strides=[8, 1], device=cpu) = aten::cumsum(%b, %one, %none), scope: net.head
  %row : Float(8, strides=[1], device=cpu) = aten::select(%c, %zero, %zero), scope: net.head
  %w : Float(8, strides=[1], device=cpu) = aten::relu_(%row), scope: net.head
  %list : Tensor[] = prim::ListConstruct(%b, %c)
  %cat : Float(8, 8, strides=[8, 1], device=cpu) = aten::cat(%list, %zero)
  %t : Float(8, 8, strides=[8, 1], device=cpu) = aten::tanh(%cat)
  %e : Float(8, 8, strides=[8, 1], device=cpu) = aten::mul(%t, %cat)
  %r : Float(8, 8, strides=[8, 1], device=cpu) = prim::If(%flag)
    block0():
      %n : Float(8, 8, strides=[8, 1], device=cpu) = aten::neg(%e)
      -> (%n)
    block1():
      -> (%e)
  return (%r)
""".replace("%none", "%no").replace("  %a :", "  %no : NoneType = prim::Constant()\n  %a :", 1)


@pytest.fixture(scope="session")
def exploration() -> Exploration:
    return Exploration(irs.fuse(irs.parse(PROGRAM)))
