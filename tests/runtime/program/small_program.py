"""A program of one group, and what it should give."""

from typing import Any

import numpy as np

import irscope as irs
from irscope.runtime.program.executable import Executable, compile_graph

BODY = """  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::mul(%a, %y)
  %c : Tensor = aten::tanh(%b)
"""
CHAIN = f"graph(%x : Tensor, %y : Tensor):\n{BODY}  return (%c)\n"


def chain(x: Any, y: Any) -> Any:
    return np.tanh(np.maximum(x, 0) * y)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(0)
    return [numbers.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def loaded(text: str, *args: object) -> Executable:
    """The program of a text, fused and compiled for these arguments."""
    return compile_graph(irs.fuse(irs.load(text, *args)))
