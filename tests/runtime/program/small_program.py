"""A program of one group, and one of two around a matrix product, what they should give, and arrays that show whether a call kept them."""

import gc
import weakref
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


TEXT = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::mul(%a, %y)
  %p : Tensor = aten::matmul(%b, %y)
  %c : Tensor = aten::tanh(%p)
  %d : Tensor = aten::mul(%c, %x)
  return (%d)
"""
OUTER = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %y)
  return (%b)
"""
"""One group, whose result is an outer product where the arguments are a column and a row."""


def given() -> list[np.ndarray[Any, Any]]:
    return arrays((6, 6), (6, 6))


def truth(x: Any, y: Any) -> Any:
    return np.tanh((np.maximum(x, 0) * y) @ y) * x


def fused() -> Executable:
    return loaded(TEXT, *given())


def still_works(run: Executable) -> None:
    x, y = given()
    np.testing.assert_allclose(run(x, y), truth(x, y), rtol=1e-5, atol=1e-6)


class Kept:
    """Arrays that a call is given, to see afterwards whether it kept any."""

    def __init__(self) -> None:
        self.references: list[weakref.ref[Any]] = []

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.references.append(weakref.ref(array))
        return array

    def none(self) -> bool:
        gc.collect()
        return all(reference() is None for reference in self.references)
