"""Expressions become lists without repetition, with constants computed and only needless roundings dropped."""

from __future__ import annotations

import math

import numpy as np

from irscope.codegen.kernel.spec import constant_value
from irscope.codegen.lowering.index_propagation import InstructionList, to_expressions
from irscope.ops.expr.expression import Expr, call, cast, const, input_element
from irscope.ops.expr.numpy_eval import evaluate


def ops(code: InstructionList) -> list[str]:
    return [step.op for step in code.steps]


def test_equal_parts_are_computed_once() -> None:
    code = InstructionList()
    x, y = code.input(0, "float32"), code.input(1, "float32")
    a, b = input_element(0, "float32"), input_element(1, "float32")
    first = code.splice(call("exp", a + b), {0: x, 1: y}, node=0)
    second = code.splice(call("exp", b + a), {0: x, 1: y}, node=1)
    assert first == second
    assert ops(code) == ["input", "input", "add", "exp"]


def test_a_difference_is_not_the_difference_the_other_way_round() -> None:
    code = InstructionList()
    leaves = {0: code.input(0, "float32"), 1: code.input(1, "float32")}
    a, b = input_element(0, "float32"), input_element(1, "float32")
    assert code.splice(a - b, leaves, node=0) != code.splice(b - a, leaves, node=1)


def test_zeros_of_both_signs_and_nan_are_constants_of_their_own() -> None:
    code = InstructionList()
    values = [code.splice(const(value, "float32"), {}, node=0) for value in (0.0, -0.0, math.nan, math.nan)]
    assert values == [0, 1, 2, 2]


def test_constants_are_computed_in_their_type() -> None:
    code = InstructionList()
    last = code.splice(call("mul", const(0.1, "float32"), const(3.0, "float32")), {}, node=0)
    step = code.steps[last]
    assert step.op == "const"
    assert step.value is not None
    assert constant_value(step.value, "float32") == float(np.float32(0.1) * np.float32(3.0)) != 0.1 * 3.0


def test_rounding_between_two_half_precision_ops_is_dropped() -> None:
    code = InstructionList()
    leaves = {0: code.input(0, "bfloat16")}
    first = cast(call("exp", cast(input_element(0, "bfloat16"), "float32")), "bfloat16")
    inner = code.splice(first, leaves, node=0)
    outer = code.splice(
        cast(call("neg", cast(input_element(0, "bfloat16"), "float32")), "bfloat16"), {0: inner}, node=1
    )
    steps, _ = code.trimmed([outer])
    assert [step.op for step in steps] == ["input", "cast", "exp", "neg", "cast"]


def test_rounding_that_the_program_asks_for_stays() -> None:
    code = InstructionList()
    leaves = {0: code.input(0, "float32")}
    narrow = code.splice(cast(input_element(0, "float32"), "float16"), leaves, node=0)
    wide = code.splice(cast(input_element(0, "float16"), "float32"), {0: narrow}, node=1)
    steps, _ = code.trimmed([wide])
    assert [step.op for step in steps] == ["input", "cast", "cast"]


def test_what_no_result_needs_is_left_out() -> None:
    code = InstructionList()
    x = code.input(0, "float32")
    kept = code.splice(input_element(0, "float32") * 2.0, {0: x}, node=0)
    code.splice(call("exp", input_element(0, "float32")), {0: x}, node=1)
    steps, results = code.trimmed([kept])
    assert [step.op for step in steps] == ["input", "const", "mul"]
    assert results == (2,)


def test_instructions_read_back_as_expressions() -> None:
    x = input_element(0, "float32")
    expr = call("tanh", x * 0.5 + 1.0)
    code = InstructionList()
    last = code.splice(expr, {0: code.input(0, "float32")}, node=0)
    values = [np.linspace(-3, 3, 7, dtype=np.float32)]
    np.testing.assert_array_equal(evaluate(to_expressions(code.steps)[last], values), evaluate(expr, values))


def test_a_long_chain_needs_no_deep_stack() -> None:
    expr: Expr = input_element(0, "float32")
    for _ in range(20_000):
        expr = call("neg", expr)
    code = InstructionList()
    code.splice(expr, {0: code.input(0, "float32")}, node=0)
    assert len(code.steps) == 20_001
