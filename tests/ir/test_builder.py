"""Graphs built from Python are the ones that the same text gives."""

from __future__ import annotations

import numpy as np
import pytest

from irscope.ir.builder import GraphBuilder, payload_type
from irscope.ir.core import Graph
from irscope.ir.payload import NOT_CONSTANT, TensorData, argument_type, constant_of
from irscope.ir.structural import same_structure
from irscope.ir.text.parser import parse
from irscope.ir.types import BOOL, INT, TENSOR
from irscope.ir.verify import verify


def loop() -> Graph:
    b = GraphBuilder("f")
    x, count = b.input("x"), b.input("count", INT)
    true = b.constant(True, name="true")
    with b.block([("i", INT), ("carried", TENSOR)]) as body:
        next_value = b.op("aten::neg", body.params[1], name="n")
        body.returns([true, next_value])
    (result,) = b.structured("prim::Loop", [count, true, x], [TENSOR], [body], names=["r"])
    return b.finish([result], bound={x: 1})


def test_a_loop_is_the_one_that_its_text_gives() -> None:
    built = loop()
    verify(built)
    text = """graph(%x : Tensor,
      %count : int):
  %true : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%count, %true, %x)
    block0(%i : int, %carried : Tensor):
      %n : Tensor = aten::neg(%carried)
      -> (%true, %n)
  return (%r)"""
    assert same_structure(built, parse(text))
    assert str(built) == text


def test_bound_inputs_are_not_asked_of_the_caller() -> None:
    built = loop()
    assert [value.name for value in built.free_inputs] == ["count"]
    assert [value.name for value in built.inputs] == ["x", "count"]


def test_an_open_block_is_a_mistake_of_ours() -> None:
    b = GraphBuilder()
    with b.block(), pytest.raises(AssertionError, match="still open"):
        b.finish([])


@pytest.mark.parametrize(
    ("payload", "type"),
    [(True, "bool"), (3, "int"), (0.5, "float"), ("s", "str"), (None, "NoneType"), ([1, 2], "int[]"), ((1.5,), "float[]")],
)
def test_constants_know_their_type_and_come_back(payload: object, type: str) -> None:
    b = GraphBuilder()
    value = b.constant(payload)
    graph = b.finish([value])
    assert str(value.type) == type == str(payload_type(payload))
    expected = tuple(payload) if isinstance(payload, list) else payload
    assert constant_of(graph, value) == expected
    back = parse(str(graph))
    assert constant_of(back, back.outputs[0]) == expected


def test_what_is_computed_is_no_constant() -> None:
    graph = parse("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)")
    assert constant_of(graph, graph.value("y")) is NOT_CONSTANT


def test_tensors_compare_by_their_elements() -> None:
    one = TensorData.of(np.array([1.0, np.nan], np.float32))
    assert one == TensorData.of(np.array([1.0, np.nan], np.float32))
    assert one != TensorData.of(np.array([1.0, 2.0], np.float32))
    assert one != TensorData.of(np.array([1.0, np.nan], np.float64))
    assert len({one, TensorData.of(np.array([1.0, np.nan], np.float32))}) == 1


def test_arguments_of_any_array_library_have_a_type() -> None:
    array = np.zeros((2, 3), np.float32)
    assert str(argument_type(array.T)) == "Float(3, 2, strides=[1, 3], device=cpu)"
    assert argument_type(True) == BOOL
    torch = pytest.importorskip("torch")
    assert str(argument_type(torch.zeros(2, 3, dtype=torch.bfloat16))) == "BFloat16(2, 3, strides=[3, 1], device=cpu)"
