"""Ops of functional languages: no memory, whatever else is unknown of them."""

from dataclasses import replace

import irscope as irs
from irscope.analysis.alias.query.alias_db import AliasDb
from irscope.ops.registry import category_of, effect_of

TEXT = """
graph(%x : Tensor, %w : Tensor):
  %a : Tensor = onnx::Hardmax[axis=1](%x)
  %b : Tensor = onnx::com.microsoft.Gelu(%a)
  %c : Tensor = aten::neg(%b)
  %r : Tensor = onnx::RandomNormalLike(%c)
  return (%b, %r)
"""


def test_results_of_an_unknown_functional_op_are_new_memory_and_the_verdict_says_why() -> None:
    db = AliasDb(irs.parse(TEXT))
    apart = db.may_alias("a", "x")
    assert not apart
    assert "results of ONNX ops are new" in apart.because
    assert not db.has_writers("x")
    assert not db.may_alias("b", "a")


def test_an_unknown_op_of_another_language_stays_conservative() -> None:
    db = AliasDb(irs.parse(TEXT.replace("onnx::com.microsoft.Gelu", "mine::gelu")))
    assert db.may_alias("b", "x") or db.has_writers("x")


def test_inputs_of_a_functional_program_are_distinct_and_those_of_another_are_not() -> None:
    graph = irs.parse(TEXT)
    assert AliasDb(graph).may_alias("x", "w")
    apart = AliasDb(replace(graph, functional="ONNX")).may_alias("x", "w")
    assert not apart
    assert "a program in ONNX, whose values share no memory" in apart.because


def test_an_op_with_blocks_is_asked_through_its_blocks() -> None:
    graph = irs.parse(
        "graph(%x : Tensor):\n  %y : Tensor = stablehlo::strange(%x)\n    block0(%p : Tensor):\n"
        "      %q : Tensor = aten::relu_(%x)\n      -> (%q)\n  return (%y)"
    )
    assert AliasDb(graph).has_writers("x")
    assert effect_of(graph.node("y")) == "opaque"


def test_random_ops_are_pure_and_yet_not_the_same_twice() -> None:
    graph = irs.parse(TEXT)
    assert effect_of(graph.node("r")) == "pure"
    assert category_of(graph.node("r")) == "random"
