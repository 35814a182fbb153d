"""One small program with everything in it: a module path, a group, a write through a view, a block, a list."""

import pytest

import irscope as irs
from irscope.report.pages.exploration import Exploration
from tests.programs import ir

ROWS = "Float(4, 8, strides=[8, 1], device=cpu)"
PROGRAM = ir(
    f"x:{ROWS} flag:bool | zero = 0; one = 1; no = None; a:{ROWS} = sigmoid x @ net.gate; b:{ROWS} = mul a x @ net.gate; "
    f"c:{ROWS} = cumsum b one no @ net.head; row:Float(8, strides=[1], device=cpu) = select c zero zero @ net.head; "
    "w:Float(8, strides=[1], device=cpu) = relu_ row @ net.head; list:Tensor[] = ListConstruct b c; cat = cat list zero; t = tanh cat; "
    "e = mul t cat; r = If flag {| n = neg e | n} {| | e} | r",
    "Float(8, 8, strides=[8, 1], device=cpu)",
)


@pytest.fixture(scope="session")
def exploration() -> Exploration:
    return Exploration(irs.fuse(irs.parse(PROGRAM)))
