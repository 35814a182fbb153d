"""A primitive has all of its texts, and expressions of reductions are what NumPy makes of the ops."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from irscope.codegen.cuda.instruction_text import element_text
from irscope.codegen.kernel import Instruction
from irscope.codegen.llvm import FunctionBuilder, VectorBuilder
from irscope.codegen.llvm.instruction_text import element
from irscope.ops.expr import COMMUTATIVE, NO_OPERATION, PRIMITIVES, Expr, NoExpression, apply, call, evaluate, input_element, number
from irscope.ops.expr.expression import COMPARISONS
from irscope.ops.registry import _op_files

TAKEN = {
    "all": ("float32", "float64", "int32", "uint8", "bool"), "numbers": ("float32", "float64", "int32", "uint8"),
    "floats": ("float32", "float64"), "bits": ("int32", "uint8", "bool"), "integers": ("int32", "uint8"),
}  # fmt: skip

rows = pytest.mark.parametrize("op", sorted(PRIMITIVES))


@cache
def arity(op: str) -> int:
    if op == "where":  # of one array, NumPy gives positions
        return 3
    one = np.ones(1, TAKEN[PRIMITIVES[op].of][-1])
    for count in (1, 2, 3):
        try:
            apply(op, [one] * count, str(one.dtype))
        except (TypeError, ValueError):
            continue
        return count
    raise AssertionError(f"NumPy has no function for {op}: give it one in numpy_eval")


def types(op: str, dtype: str) -> tuple[list[str], str]:
    """Of the operands and of the result."""
    operands = ["bool" if op == "where" else dtype, *[dtype] * (arity(op) - 1)]
    return operands, "bool" if op in COMPARISONS or op == "isnan" else dtype


@rows
def test_it_has_a_function_in_numpy(op: str) -> None:
    for dtype in TAKEN[PRIMITIVES[op].of]:
        operands, result = types(op, dtype)
        assert str(apply(op, [np.ones(3, each) for each in operands], result).dtype) == result


@rows
def test_it_has_text_for_the_processor(op: str) -> None:
    for dtype in texts(op):
        operands, result = types(op, dtype)
        code = Instruction(op, tuple(range(len(operands))), result)
        names = [f"%a{index}" for index in range(len(operands))]
        assert element(VectorBuilder(FunctionBuilder(), 8), code, names, operands, native_half=False)


@rows
def test_it_has_text_for_a_gpu(op: str) -> None:
    for dtype in texts(op):
        operands, result = types(op, dtype)
        code = Instruction(op, tuple(range(len(operands))), result)
        assert element_text(code, [f"t{index}" for index in range(len(operands))], operands, set())


def texts(op: str) -> tuple[str, ...]:
    """A NaN is asked for only among floats."""
    return TAKEN["floats"] if op == "isnan" else TAKEN[PRIMITIVES[op].of]


@rows
def test_it_takes_the_types_that_its_row_says(op: str) -> None:
    if op == "where":
        return
    taken = []
    for dtype in TAKEN["all"]:
        try:
            call(op, *[input_element(index, dtype) for index in range(arity(op))])
        except NoExpression:
            continue
        taken.append(dtype)
    assert tuple(taken) == TAKEN[PRIMITIVES[op].of]


@rows
def test_its_row_is_sensible(op: str) -> None:
    row = PRIMITIVES[op]
    assert row.flops >= 1 and row.cycles > 0 and row.instructions >= 1 and all(0 <= ulps <= 5 for ulps in row.ulps)
    assert any(row.ulps) or row.flops == 1
    assert op not in NO_OPERATION


@pytest.mark.parametrize("op", sorted(COMMUTATIVE))
def test_operands_may_change_places(op: str) -> None:
    special = [0.0, -0.0, 1.0, -1.5, 1e30, -1e30, 3e-40, np.inf, -np.inf]
    for dtype in TAKEN[PRIMITIVES[op].of]:
        numbers = special if dtype.startswith("float") else [0, 1, 2, 5, 127]
        a, b = (each.ravel() for each in np.meshgrid(*[np.array(numbers).astype(dtype)] * 2))
        with np.errstate(all="ignore"):
            one, other = (apply(op, [*pair], types(op, dtype)[1]) for pair in ((a, b), (b, a)))
        is_number = one == one
        assert one[is_number].tobytes() == other[is_number].tobytes()


def op_with(name: str) -> Any:
    (found,) = [op for op in _op_files()[name] if op.category in ("reduction", "normalization")]
    return found


def test_along_no_axis_an_element_is_its_own_sum() -> None:
    scalar = input_element(0, "float32", rank=0)
    assert evaluate(op_with("aten::sum").expression(scalar), [np.float32(2)]) == 2
    assert evaluate(op_with("aten::argmax").expression(scalar), [np.float32(2)]) == 0
    assert evaluate(op_with("aten::softmax").expression(scalar, 0), [np.float32(2)]) == 1


def refusal(name: str, operand: Expr, **given: Any) -> str:
    with pytest.raises(NoExpression) as caught:
        op_with(name).expression(operand, **given)
    return caught.value.what


def test_what_is_not_an_expression() -> None:
    whole, real = input_element(0, "int64", rank=2), input_element(0, "float32", rank=2)
    assert "mean has no result of type int64" in refusal("aten::mean", whole)
    assert "no variance of int64" in refusal("aten::var", whole)
    assert "number of dimensions" in refusal("aten::sum", input_element(0, "float32"))
    assert "not known before the program runs" in refusal("aten::sum", real, dim=number(1, "int64"))
    assert "order of the norm" in refusal("aten::norm", real, p=number(1, "float64"))
    assert "complex64" in refusal("aten::sum", input_element(0, "complex64", rank=2))
