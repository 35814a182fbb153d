"""What a constant is in a running program, and of which type a value is: the same for the reference and for every library."""

from typing import Any

import numpy as np
import pytest

from irscope.ir.text.parser import parse
from irscope.ir.types import FLOAT, INT, NONE, STR, TENSOR, DictType, ListType, OptionalType, TupleType, Type, UnionType
from irscope.runtime.arrays.library import is_a, unpacked
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.reference import run_reference


@pytest.mark.parametrize(("value", "type", "expected"), [
    ({"a": 1}, DictType(STR, INT), True), ({"a": 1.0}, DictType(STR, INT), False), ([], DictType(STR, INT), False),
    (1, UnionType((INT, STR)), True), (1.5, UnionType((INT, STR)), False), (True, INT, False),
    (np.float32(1), TENSOR, False), (np.ones(1), TENSOR, True), (None, OptionalType(TENSOR), True),
    ((1, "a"), TupleType((INT, STR)), True), ((1,), TupleType((INT, STR)), False), (None, NONE, True),
])  # fmt: skip
def test_of_which_type_a_value_is(value: Any, type: Type, expected: bool) -> None:
    assert is_a(value, type) is expected


@pytest.mark.parametrize(("payload", "type", "expected"), [
    ((1, 2), TupleType((INT, FLOAT)), (1, 2.0)), ((1, 2), OptionalType(TupleType((INT, INT))), (1, 2)),
    (((1,), (2, 3)), ListType(ListType(INT)), [[1], [2, 3]]), ((), ListType(INT), []),
])  # fmt: skip
def test_what_a_payload_becomes(payload: Any, type: Type, expected: Any) -> None:
    found = unpacked(payload, type, repr)
    assert found == expected and found.__class__ is expected.__class__


def test_the_reference_and_the_library_hold_the_same() -> None:
    g = parse("graph():\n  %c : (int[], float)? = prim::Constant[value=([1, 2], 3)]()\n  return (%c)")
    (found,) = run_reference(g)
    assert found == NumpyLibrary().constant(g.node("c")) == ([1, 2], 3.0)
