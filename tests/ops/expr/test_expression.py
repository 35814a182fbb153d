"""Expressions: how they are built, what NumPy makes of them, what they refuse, and the type rule of pointwise ops."""

import math
import random
from typing import Any

import numpy as np
import pytest

from irscope.errors import ArgumentError
from irscope.ir.types import TensorType
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.expr.expression import Expr, NoExpression, call, cast, const, input_element, number, where
from irscope.ops.expr.numpy_eval import erf, erfc, evaluate, round_to, sigmoid
from irscope.ops.op import Op
from tests.ops.oracle import POINTWISE, the_op
from tests.ops.pointwise.test_pointwise import choices, plain

X, Y = input_element(0, "float32"), input_element(1, "float32")


def expression(op: str, **given: Any) -> Expr:
    found = the_op(op)
    made = found.expression(**given)
    assert isinstance(made, Expr)
    return made


def test_operators_build_expressions_of_one_type_and_share_their_parts() -> None:
    made = (X * 2.0 - Y) / (1.0 + abs_of(X))
    assert made.dtype == "float32"
    assert evaluate(made, [np.float32(3), np.float32(1)]) == np.float32(1.25)
    square = X * X
    assert (square + square).args[0] is (square + square).args[1]
    assert (X < Y).dtype == "bool"
    with pytest.raises(AssertionError):
        _ = X + input_element(1, "float64")
    assert cast(X, "float32") is X and cast(X, "float64").op == "cast"
    nothing = input_element(0, "float32", rank=0)
    assert (nothing * 2.0).strength == nothing.strength and (nothing * X).strength == X.strength
    with pytest.raises(AssertionError):
        where(X, X, Y)


def abs_of(operand: Expr) -> Expr:
    return call("abs", operand)


def test_a_long_chain_is_evaluated_without_recursion() -> None:
    chain = X
    for _ in range(20_000):
        chain = chain + 1.0
    assert evaluate(chain, [np.float32(0)]) == 20_000


@pytest.mark.parametrize(("value", "dtype", "expected"), [(-1, "uint8", 255), (300, "int8", 44), (2, "bool", True), (3, "float32", 3.0)])
def test_known_numbers_wrap_into_their_type(value: int, dtype: str, expected: Any) -> None:
    made = const(value, dtype).value
    assert made == expected and type(made) is type(expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_compute_in_float32(dtype: str) -> None:
    made = expression("aten::mul", self=input_element(0, dtype), other=input_element(1, dtype))
    assert (made.op, made.dtype) == ("cast", dtype)
    assert (made.args[0].op, made.args[0].dtype) == ("mul", "float32")


def test_bfloat16_rounds_to_nearest_even(torch: Any) -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=5000), [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40]])
    single = values.astype(np.float32)
    theirs = torch.from_numpy(single).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(round_to(single, "bfloat16"), theirs)


@pytest.mark.parametrize(("given", "dtype"), [
    ({"self": input_element(0, "int64"), "other": 2.5}, "float32"),
    ({"self": input_element(0, "int64"), "other": number(1, "float64")}, "float32"),
    ({"self": input_element(0, "float16"), "other": number(1, "float64")}, "float16"),
    ({"self": input_element(0, "float32"), "other": input_element(1, "float64", rank=0)}, "float32"),
    ({"self": input_element(0, "float32"), "other": input_element(1, "float64")}, "float64"),
    ({"self": input_element(0, "uint8"), "other": input_element(1, "int8")}, "int16"),
    ({"self": input_element(0, "bool"), "other": 2}, "int64"),
])  # fmt: skip
def test_results_promote(given: dict[str, Any], dtype: str) -> None:
    assert expression("aten::mul", **given).dtype == dtype


@pytest.mark.parametrize(("op", "given", "reason"), [
    ("aten::add", {"self": input_element(0, "complex64"), "other": 1}, "complex64"),
    ("aten::sub", {"self": input_element(0, "bool"), "other": input_element(1, "bool")}, "bools"),
    ("aten::div", {"self": X, "other": Y, "rounding_mode": number(2, "int64")}, "rounding mode"),
    ("aten::floor_divide", {"self": input_element(0, "int64"), "other": input_element(1, "int64")}, "zero"),
    ("aten::floor_divide", {"self": input_element(0, "int64"), "other": 0}, "zero"),
    ("aten::pow", {"self": X, "exponent": number(1, "float64")}, "exponent"),
    ("aten::pow", {"self": input_element(0, "int64"), "exponent": -1}, "negative power"),
    ("aten::dropout", {"input": X, "p": 0.5, "train": True}, "training"),
    ("aten::dropout", {"input": X, "p": 0.5, "train": number(1, "bool")}, "training"),
    ("aten::to", {"self": X, "dtype": number(1, "int64")}, "element type"),
    ("aten::to", {"self": X, "dtype": 6, "device": "cuda"}, "device"),
    ("aten::to", {"self": X, "dtype": 9}, "complex64"),
    ("aten::gelu", {"self": X, "approximate": number(1, "int64")}, "approximation"),
])  # fmt: skip
def test_calls_that_no_kernel_computes_say_why(op: str, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoExpression, match=reason):
        expression(op, **given)


def test_dividing_integers_by_a_known_number() -> None:
    values = np.array([7, -7, 0, 9, -(2**63)], np.int64)
    whole = input_element(0, "int64")
    for divisor in (3, -3, 1, -1, 2):
        floor = expression("aten::floor_divide", self=whole, other=divisor)
        np.testing.assert_array_equal(evaluate(floor, [values[:4]]), values[:4] // divisor)
        rest = expression("aten::remainder", self=whole, other=divisor)
        np.testing.assert_array_equal(evaluate(rest, [values]), np.remainder(values, divisor))


NORM = {"weight": 1, "bias": 2, "running_mean": 3, "running_var": 4}


def norm(missing: tuple[str, ...] = (), dtype: str = "float32", **more: Any) -> Expr:
    given: dict[str, Any] = {"input": input_element(0, dtype), "eps": 1e-5, "momentum": 0.1, "cudnn_enabled": True, "training": False}
    given.update({name: input_element(index, "float32") for name, index in NORM.items() if name not in missing})
    given.update(dict.fromkeys(missing))
    given.update(more)
    return expression("aten::batch_norm", **given)


def test_a_batch_norm_refuses_when_it_may_train_or_has_kept_nothing() -> None:
    with pytest.raises(NoExpression, match="training"):
        norm(training=True)
    with pytest.raises(NoExpression, match="training"):
        norm(training=number(9, "bool"))
    with pytest.raises(NoExpression, match="kept statistics"):
        norm(("running_mean", "running_var"))


def test_weights_of_norms_and_dropouts_that_drop_nothing() -> None:
    found = the_op("aten::batch_norm")
    assert dict(found.operand_axes) == dict.fromkeys(NORM, 1)
    assert expression("aten::dropout", input=X, p=0.5, train=False) is X
    found = the_op("aten::dropout")
    array = np.ones(3)
    assert found.reference(input=array, p=0.5, train=False) is array


def test_prelu_lays_its_weight_along_the_channels(torch: Any) -> None:
    found = the_op("aten::prelu")
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    weight = np.array([0.1, 0.2, 0.3], np.float32)
    wanted = torch.ops.aten.prelu(torch.from_numpy(x), torch.from_numpy(weight)).numpy()
    np.testing.assert_array_equal(found.reference(self=x, weight=weight), wanted)


def test_error_function_and_sigmoid_are_exact_and_do_not_overflow() -> None:
    points = np.concatenate([np.linspace(-7, 7, 5001), [0.0, -0.0, 1e-300, math.inf, -math.inf]])
    np.testing.assert_allclose(erf(points), [math.erf(point) for point in points], rtol=1e-15)
    assert np.isnan(erf(np.array(math.nan)))
    far = np.concatenate([np.linspace(-7, 26, 2000), [0.84375, 1.25, 1 / 0.35, 40.0, math.inf, -math.inf]])
    np.testing.assert_allclose(erfc(far), [math.erfc(point) for point in far], rtol=1e-15)
    assert np.isnan(erfc(np.array(math.nan)))
    with np.errstate(all="raise", under="ignore"):
        assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]


def test_type_rules_keep_what_they_do_not_know_and_refuse_what_does_not_broadcast() -> None:
    rule = the_op("aten::add").type_rule
    known = TensorType("float32", (2, 3), (3, 1))
    assert rule(self=known, other=TensorType("float32", (3,), (1,)), alpha=1) == known
    assert rule(self=known, other=TensorType(), alpha=1) == TensorType()
    assert rule(self=known, other=TensorType(None, (3,)), alpha=1) == TensorType(None, (2, 3))
    assert rule(self=TensorType("int64", (2,), (1,)), other=2.5, alpha=1) == TensorType("float32", (2,), (1,))
    op = the_op("aten::add_")
    whole = TensorType("int64", (2, 3), (1, 2))
    assert op.type_rule(self=whole, other=TensorType("int64", (3,), (1,)), alpha=1) is whole
    op = the_op("aten::add")
    with pytest.raises(ArgumentError, match="broadcast"):
        op.type_rule(self=TensorType("float32", (2, 3)), other=TensorType("float32", (4,)), alpha=1)


def test_an_entry_that_misses_a_word_says_which_and_one_on_numbers_first_has_no_in_place_variant() -> None:
    with pytest.raises(ArgumentError, match=r"write const\(1, x.dtype\)"):
        where(call("gt", X, 0.0), 1, 0)
    with pytest.raises(ArgumentError, match=r"prelu has no argument other.*\n.*it has self, weight"):
        elementwise("aten::prelu", expr=where)
    with pytest.raises(ArgumentError, match=r"aten::nonesuch in irscope/ops/core_schemas.txt"):
        elementwise("aten::nonesuch", expr=where)
    made = elementwise("aten::f.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", numpy=max)
    assert [op.name for op in made] == ["aten::f"]


DTYPES = ["float32", "float64", "int64", "bool"]
ODD = {"aten::isinf", "aten::isfinite", "aten::mish_backward"}
"""Ops for which torch makes a copy of whole numbers, with the steps of axes of one element, and one that it does not promote."""


def a_tensor(torch: Any, pick: random.Random, shape: tuple[int, ...], dtypes: list[str]) -> Any:
    """A tensor of a shape that broadcasts to this one, laid out at random: permuted, strided, repeated."""
    sizes = [1 if pick.random() < 0.2 else size for size in shape][pick.choice([0, 0, 0, 1]) :]
    order = list(range(len(sizes)))
    if pick.random() < 0.6:
        pick.shuffle(order)
    stored = torch.ones([sizes[axis] for axis in order], dtype=getattr(torch, pick.choice(dtypes)))
    result = stored.permute([order.index(axis) for axis in range(len(sizes))])
    if sizes and pick.random() < 0.15:
        result = result.repeat_interleave(2, dim=0)[::2]
    if sizes and pick.random() < 0.15:
        axis = pick.randrange(len(sizes))
        result = result.narrow(axis, 0, 1).expand(result.shape)
    return result


def told(tensor: Any) -> TensorType:
    return TensorType(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.stride())


LAID = [op for op in POINTWISE if (op.category, op.effect, op.name[:6]) == ("pointwise", "pure", "aten::")]


@pytest.mark.parametrize("op", LAID, ids=lambda op: op.name.removeprefix("aten::"))
def test_every_op_lays_its_result_out_as_torch_does(op: Op, torch: Any) -> None:
    assert op.type_rule is not None
    pick = random.Random(op.name)
    dtypes = ["int64"] if op.name.startswith(("aten::bitwise", "aten::__")) else ["float32"] if op.name in ODD else DTYPES
    for schema in op.schemas * 24:
        shape = tuple(pick.choice([1, 2, 3, 4]) for _ in range(pick.randrange(1, 5)))
        given = {
            argument.name: a_tensor(torch, pick, shape, dtypes) if isinstance(plain(argument), TensorType) else choices(argument, 0)
            for argument in schema.arguments
        }
        for name in {"mask", "condition"} & set(given):
            given[name] = given[name].bool()
        if op.name == "aten::masked_fill" and schema.overload == "Tensor":
            given["value"] = torch.ones(())
        if op.operand_axes:
            given["weight"] = torch.ones(given["self"].shape[1] if given["self"].ndim > 1 else 1)
        call = getattr(getattr(torch.ops.aten, op.name.removeprefix("aten::")), schema.overload or "default")
        keywords = {a.name: given[a.name] for a in schema.arguments if a.keyword_only}
        try:
            theirs = call(*(given[a.name] for a in schema.arguments if not a.keyword_only), **keywords)
        except (RuntimeError, NotImplementedError):  # torch has no kernel of its own for some layouts and types of some ops
            continue
        ours = op.type_rule(**{k: told(v) if isinstance(v, torch.Tensor) else v for k, v in given.items()})
        what = f"{schema.full_name} {[told(v) for v in given.values() if isinstance(v, torch.Tensor)]}"
        assert (ours.dtype, ours.shape) == (told(theirs).dtype, told(theirs).shape), what
        assert ours.strides in (theirs.stride(), None), what
