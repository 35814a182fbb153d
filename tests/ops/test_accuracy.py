"""How exact a kernel is can be asked for every op that kernels compute, and is refused with a reason for the rest."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ops.accuracy import STEP_ULPS
from tests.ops import pointwise_ops as pointwise


@pytest.mark.parametrize(
    ("op", "step"), [("exp", "exp"), ("aten::tanh", "tanh"), ("mul", "mul"), ("sigmoid", "sigmoid")]
)
def test_an_op_of_one_step_has_the_bound_of_the_step(op: str, step: str) -> None:
    for column, dtype in enumerate(("float32", "float64")):
        bound = irs.error_bound(op, dtype)
        assert bound.ulps == STEP_ULPS[step][column]
        assert f"at most {bound.ulps:g} ulp off" in str(bound)


def test_steps_that_copy_choose_or_count_are_exact() -> None:
    for op, dtype in (
        ("relu", "float32"),
        ("where", "float64"),
        ("add", "int64"),
        ("fmod", "float32"),
        ("floor", "float16"),
    ):
        assert irs.error_bound(op, dtype).ulps == 0
    assert str(irs.error_bound("neg")) == "aten::neg of float32 is neg(self), exact"


def test_halves_round_once() -> None:
    bound = irs.error_bound("tanh", "bfloat16")
    assert bound.ulps == pytest.approx(0.5 + 2 / 2**16)
    assert "computed in float32 and rounded once to bfloat16" in str(bound)


def test_errors_of_several_steps_have_no_one_number() -> None:
    bound = irs.error_bound("gelu", approximate="tanh")
    assert bound.ulps is None
    assert dict(bound.steps) == {"mul": 0.5, "add": 0.5, "tanh": 2.0}
    assert bound.formula.startswith("(0.5f * self) * (1.0f + tanh(")


def test_whole_numbers_become_floats_first() -> None:
    bound = irs.error_bound("exp", "int64")
    assert (bound.result, bound.computed_in, bound.formula) == ("float32", "float32", "exp(float32(self))")


@pytest.mark.parametrize(
    ("op", "arguments", "reason"),
    [
        ("nothing", {}, "aten::nothing is not an op that irscope knows"),
        ("sum", {}, "aten::sum has no bound here"),
        ("asin", {}, "aten::asin has no bound here"),
        ("exp", {"dtype": "complex64"}, "kernels do not compute with complex64"),
        ("gelu", {"dtype": "int32"}, "erf of int32 elements"),
        ("exp", {"base": 2}, "no argument 'base'"),
    ],
)
def test_what_has_no_bound_says_why(op: str, arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        irs.error_bound(op, **arguments)  # type: ignore[arg-type]


def test_every_pointwise_op_that_kernels_compute_can_be_asked() -> None:
    known = [
        op for op in pointwise.OPS if op.expression and op.category == "pointwise" and op.name.startswith("aten::")
    ]
    bounds = []
    for op in known:
        for dtype in ("float32", "int64"):
            try:
                bounds.append(irs.error_bound(op.name, dtype))
                break
            except ArgumentError as error:
                assert "no kernel computes this call" in error.what, op.name
    assert len(bounds) > 0.95 * len(known)
    assert all(str(bound).startswith(f"{bound.op} of {bound.dtype} is ") for bound in bounds)
