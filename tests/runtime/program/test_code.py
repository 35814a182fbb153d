"""Instructions and the functions generated from them: control flow, what dies when, and errors that name their node."""

from __future__ import annotations

import numpy as np
import pytest

from irscope.errors import RunError
from irscope.ir.text.parser import parse
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.program.code import flatten
from tests.behaviour.live_results import CountingLibrary


def run(text: str, *args: object) -> list[object]:
    graph = parse(text)
    code = flatten(graph.body, NumpyLibrary())
    slots = code.template.copy()
    for slot, argument in zip(code.inputs, args, strict=True):
        slots[slot] = argument
    code.run(slots)
    return [slots[slot] for slot in code.outputs]


LOOP = """graph(%n : int, %go : bool):
  %one : int = prim::Constant[value=1]()
  %ten : int = prim::Constant[value=10]()
  %a : int, %b : int = prim::Loop(%n, %go, %one, %ten)
    block0(%i : int, %x : int, %y : int):
      %z : int = aten::add(%x, %i)
      %on : bool = aten::lt(%z, %ten)
      -> (%on, %y, %z)
  return (%a, %b)
"""


def by_hand(n: int, go: bool) -> list[int]:
    x, y, i = 1, 10, 0
    while go and i < n:
        x, y = y, x + i
        go = y < 10
        i += 1
    return [x, y]


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("n", range(6))
def test_a_loop_swaps_its_values_at_once(n: int, go: bool):
    assert run(LOOP, n, go) == by_hand(n, go)


def test_the_counter_may_die_in_the_body():
    text = LOOP.replace("-> (%on, %y, %z)", "-> (%go, %z, %y)")
    assert run(text, 4, True) == [7, 10]


def test_branches_read_and_return_outer_values():
    text = """graph(%c : bool, %x : int):
      %y : int = prim::If(%c)
        block0():
          -> (%x)
        block1():
          %z : int = aten::neg(%x)
          -> (%z)
      return (%y, %x)
    """
    assert run(text, True, 3) == [3, 3]
    assert run(text, False, 3) == [-3, 3]


def test_deep_nesting_needs_no_python_stack():
    depth = 3000
    lines = ["graph(%c : bool, %x0 : int):"]
    for level in range(depth):
        lines += [f"%y{level} : int = prim::If(%c)", "block0():"]
    lines += ["%x1 : int = aten::neg(%x0)", "-> (%x1)"]
    for level in range(depth - 1, -1, -1):
        lines += ["block1():", "-> (%x0)"]
        lines += [f"-> (%y{level})"] if level else []
    graph_text = "\n".join([*lines, "return (%y0)"])
    assert run(graph_text, True, 3) == [-3]


def test_values_die_after_their_last_reader():
    """The first array is gone when the third is made, though the program goes on."""
    library = CountingLibrary()
    text = "graph(%x : Tensor):\n" + "".join(
        f"  %y{i} : Tensor = aten::relu(%{'x' if i == 0 else f'y{i - 1}'})\n" for i in range(6)
    )
    graph = parse(f"{text}  return (%y5)")
    code = flatten(graph.body, library)
    slots = code.template.copy()
    slots[code.inputs[0]] = np.ones(3)
    code.run(slots)
    assert library.alive == [0, 1, 1, 1, 1, 1]


def test_a_value_that_a_later_turn_reads_lives_through_the_loop():
    text = """graph(%x : Tensor, %n : int):
      %t : bool = prim::Constant[value=1]()
      %one : int = prim::Constant[value=1]()
      %w : Tensor = aten::relu(%x)
      %y : Tensor = prim::Loop(%n, %t, %x)
        block0(%i : int, %acc : Tensor):
          %z : Tensor = aten::add(%acc, %w, %one)
          -> (%t, %z)
      return (%y)
    """
    (result,) = run(text, np.ones(2), 3)
    assert np.array_equal(result, [4.0, 4.0])


def test_an_op_that_fails_names_its_node_and_place():
    text = "graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::matmul(%x, %y) # model.py:7:3\n  return (%z)"
    with pytest.raises(RunError) as caught:
        run(text, np.ones((2, 3)), np.ones((2, 3)))
    assert "aten::matmul" in caught.value.what
    assert "model.py:7:3" in caught.value.where


def test_an_unknown_op_fails_only_when_it_runs():
    text = """graph(%c : bool, %x : Tensor):
      %y : Tensor = prim::If(%c)
        block0():
          %z : Tensor = my::op(%x)
          -> (%z)
        block1():
          -> (%x)
      return (%y)
    """
    run(text, False, np.ones(2))
    with pytest.raises(RunError, match="my::op"):
        run(text, True, np.ones(2))
