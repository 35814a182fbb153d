"""Sameness but for names: what is ignored, and each difference that is not; which type may stand where another is wanted."""

import numpy as np
import pytest
from hypothesis import given, settings

from irscope._base.frozen import FrozenDict
from irscope.ir import TensorData, is_subtype
from irscope.ir.structural import same_payload, same_structure
from irscope.ir.text import parse, parse_type
from tests.programs import ir
from tests.random_programs.graphs import programs

BASE = ir("x y c:bool | k = 0.; a = mul x y; b = If c {| s = mul a k | s} {| | a} | a b", "Float(2)")


def test_names_and_locations_do_not_matter():
    renamed = BASE.replace("%a", "%first").replace("%x", "%0").replace("(%x, %y)", "(%x, %y) # m.py:1:1")
    verdict = same_structure(parse(BASE), parse(renamed))
    assert verdict and str(verdict) == "the same: 4 nodes and 7 values correspond one to one"


def test_a_graph_is_the_same_as_itself():
    g = parse(BASE)
    assert same_structure(g, g)


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("aten::mul(%x, %y)", "aten::mul(%y, %x)", "operand of aten::mul, number 0, is %x in one and %y in the other"),
    ("aten::mul(%x", "aten::div(%x", "node 1 is aten::mul in one and aten::div in the other"),
    ("value=0.", "value=-0.", "the attribute 'value' of prim::Constant differs"),
    ("value=0.", "other=0.", "has other attributes"),
    ("-> (%a)", "-> (%x)", "result 0 is %a in one and %x in the other"),
    ("return (%a, %b)", "return (%b, %a)", "result 0 is %a in one and %b in the other"),
    ("return (%a, %b)", "return (%a)", "a block has 2 results in one and 1 in the other"),
    ("%y : Float(2)", "%y : Float(3)", "a parameter is of type Float(2) in one and Float(3) in the other"),
    ("aten::mul(%x, %y)", "aten::mul(%x)", "another number of operands"),
    ("      %s : Float(2) = aten::mul(%a, %k)\n      -> (%s)", "      -> (%a)", "a block has 1 node in one and 0 in the other"),
])  # fmt: skip
def test_every_difference_is_reported(old, new, reason):
    assert old in BASE
    verdict = same_structure(parse(BASE), parse(BASE.replace(old, new, 1)))
    assert not verdict
    assert reason in verdict.because


def test_refinements_can_be_overlooked_but_not_kinds():
    assert same_structure(parse(BASE), parse(BASE.replace("Float(2)", "Tensor")), types=False)
    assert not same_structure(parse(BASE), parse(BASE.replace("Float(2)", "int")), types=False)


def test_tensors_of_unknown_elements_are_the_same_only_on_request():
    text = "graph():\n  %c : Float(20) = prim::Constant[value=<Tensor>]()\n  return (%c)"
    assert not same_structure(parse(text), parse(text))
    assert same_structure(parse(text), parse(text), elements=False)
    assert not same_structure(parse(text), parse(text.replace("20", "21")), elements=False, types=False)


@given(programs(max_size=12), programs(max_size=12))
@settings(max_examples=60, deadline=None)
def test_it_is_symmetric_and_follows_the_text(one, other):
    a, b = parse(one.text), parse(other.text)
    assert bool(same_structure(a, b)) == bool(same_structure(b, a))
    if one.text == other.text:
        assert same_structure(a, b)


@pytest.mark.parametrize(("x", "y", "same"), [
    (1, 1.0, False),
    (1, True, False),
    (0.0, -0.0, False),
    (float("nan"), float("nan"), True),
    (complex(0, -0.0), complex(0, 0), False),
    ((1, (2,)), (1, (2,)), True),
    ((1,), (1, 2), False),
    (FrozenDict(a=1), FrozenDict(a=1), True),
    (FrozenDict(a=1), FrozenDict(a=2), False),
    (FrozenDict(a=1, b=2), FrozenDict(b=2, a=1), False),
    ("a", "a", True),
    (None, None, True),
    (None, 0, False),
    (TensorData.of(np.zeros(2)), TensorData.of(np.zeros(2)), True),
    (TensorData.of(np.zeros(2)), TensorData.of(-np.zeros(2)), False),
    (TensorData.of(np.zeros(2)), TensorData.of(np.zeros(2, np.float32)), False),
])  # fmt: skip
def test_payloads(x, y, same):
    assert same_payload(x, y) is same and same_payload(y, x) is same


@pytest.mark.parametrize(("have", "want", "answer"), [
    ("Float(2)", "Tensor", True), ("Tensor", "Float(2)", True), ("Tensor", "int", False), ("int", "Tensor", False),
    ("int", "float", False), ("int", "Scalar", True), ("str", "Scalar", False), ("Tensor", "Scalar", False), ("NoneType", "int?", True),
    ("int?", "int?", True), ("int", "int?", True), ("str", "int?", False), ("int?", "int", False), ("int", "Union(int, str)", True),
    ("float", "Union(int, str)", False), ("Union(int, str)", "Union(str, int, float)", True), ("int?", "Union(int, NoneType)", True),
    ("int[]", "int[]", True), ("int[]", "float[]", False), ("int[]", "int", False), ("(int, str)", "(int, str)", True),
    ("(int, str)", "(int)", False), ("Dict(str, int)", "Dict(str, str)", False), ("Future[int]", "Future[str]", False),
    ("__torch__.M", "int", True), ("Tensor", "InterfaceType<I>", True), ("Any", "int", True), ("int", "Any", True), ("t", "int", True),
    ("int", "t[]", False), ("Generator", "Generator", True),
])  # fmt: skip
def test_fits(have, want, answer):
    assert is_subtype(parse_type(have), parse_type(want)) is answer
