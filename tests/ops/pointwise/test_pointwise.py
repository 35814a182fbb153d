"""Every pointwise op, as reference and as expression, gives what torch eager gives: values, element types, and the
special numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from irscope.ir import BOOL, FLOAT, INT, NUMBER, STR, Argument, OpSchema, OptionalType, TensorType
from irscope.ops.expr import Expr, NoExpression, evaluate, input_element, number, round_to
from irscope.ops.op import Op
from tests.ops.oracle import POINTWISE

FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLES = ("int32", "int64", "uint8", "bool")
MIXED = (("float32", "int64"), ("int32", "float64"), ("bool", "float32"), ("float16", "float32"), ("int64", "int32"), ("uint8", "bfloat16"))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.7, 6.0, 1e-3, 20.5, -100.0, float("nan"), float("inf"), float("-inf"), 2.5, 3.5, -2.5]
WHOLE = [0, 1, -1, 2, 3, -7, 100, 5, 6, -2, 120, -120, 1, 4, 0, -3, 7, 10]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "float64": 1e-12}
NUMBERS: dict[str, list[Any]] = {
    "alpha": [2, 1], "value": [2, 1], "weight": [0.3, 0.8], "negative_slope": [0.1], "threshold": [1], "beta": [2], "scale": [2],
    "input_scale": [3], "min": [-1, None], "max": [2, 3.5], "min_val": [-2], "lambd": [0.5, 3.7], "max_val": [3],
    "exponent": [2, 3, 0.5, -1, 0, 2.5, -2, -0.5], "self": [2, 2.5], "other": [3, -2, 2.5, 1, -1], "nan": [1.5, None],
    "posinf": [9.0, None], "neginf": [None], "eps": [1e-5], "momentum": [0.1], "p": [0.5], "decimals": [0, 2], "end": [2.0],
}  # fmt: skip

FINITE = {
    "gelu", "gelu_", "gelu_backward", "silu_backward", "hardtanh_backward", "elu_backward", "hardswish_backward", "mish_backward",
}  # fmt: skip
"""Ops whose vector kernels in torch give NaN for some infinities, or treat NaN otherwise than its scalar kernels do."""
COARSE = {"gelu", "gelu_", "gelu_backward"}
"""Ops whose tails cancel: compared with the error that float32 has near 1."""

ANY_ZERO = {
    "softshrink",  # torch's vectors give +0, the elements that fill no vector the sign of the operand
    "lerp", "lerp_", "fmax", "fmin", "relu", "relu_", "relu6", "relu6_", "mish_backward",
    "gelu", "gelu_", "gelu_backward",  # where the processor has no AVX-512, torch gives +0 for large negative float32, and -0 for float64
}  # fmt: skip
"""Ops whose zero results may have either sign: torch's own kernels differ between vectors and their tails."""


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def array(dtype: str, seed: int, *, finite: bool = False) -> np.ndarray[Any, Any]:
    """The special numbers of a type in an order of their own; bfloat16 as float32 numbers."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, 18).astype(bool)
    if dtype in WHOLES:
        values = np.array(WHOLE)
        return generator.permutation(np.abs(values) if dtype == "uint8" else values).astype(dtype)
    values = np.array(SPECIAL * 32)
    return round_to(generator.permutation(values[np.isfinite(values)] if finite else values), dtype)


def to_torch(torch: Any, value: np.ndarray[Any, Any], dtype: str) -> Any:
    return torch.from_numpy(value.copy()).to(getattr(torch, dtype))


def from_torch(torch: Any, value: Any) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return result


def plain(argument: Argument) -> Any:
    return argument.type.element if isinstance(argument.type, OptionalType) else argument.type


def choices(argument: Argument, variant: int) -> Any:
    """The number, flag or word that an argument is in the variant."""
    kind = plain(argument)
    if kind in (NUMBER, FLOAT, INT):
        assert argument.name in NUMBERS, f"NUMBERS of ops/pointwise/test_pointwise.py has no values for {argument.name}"
        options = NUMBERS[argument.name]
        return options[variant % len(options)]
    if kind == BOOL:
        return False
    assert kind == STR, argument
    options = {"rounding_mode": ["floor", "trunc", None], "approximate": ["none", "tanh"]}[argument.name]
    return options[variant % len(options)]


Case = tuple[OpSchema, dict[str, Any], dict[str, str]]


def cases(op: Op) -> Iterator[Case]:
    """Arguments by name and the element types of the tensors among them."""
    finite = op.name.removeprefix("aten::") in FINITE
    for schema in op.schemas:
        tensors = [a.name for a in schema.arguments if isinstance(plain(a), TensorType)]
        variants = 1 if len(tensors) == len(schema.arguments) else 8 if "exponent" in [a.name for a in schema.arguments] else 5
        kinds = [(d,) * len(tensors) for d in FLOATS + WHOLES]
        kinds += [(a, b, b)[: len(tensors)] for a, b in MIXED] if len(tensors) in (2, 3) else []
        for types in kinds:
            for variant in range(variants):
                names = dict(zip(tensors, types, strict=True))
                names.update({name: "bool" for name in names if name in ("mask", "condition")})
                given = {
                    a.name: array(names[a.name], 3 * i + variant, finite=finite) if a.name in names else choices(a, variant)
                    for i, a in enumerate(schema.arguments)
                }
                size = min(len(v) for v in given.values() if isinstance(v, np.ndarray))
                yield schema, {n: v[:size] if isinstance(v, np.ndarray) else v for n, v in given.items()}, names
                if op.name.endswith("masked_fill") and schema.overload == "Tensor":
                    yield schema, {**given, "value": given["value"][0]}, names


def run_torch(torch: Any, schema: OpSchema, given: dict[str, Any], types: dict[str, str]) -> Any:
    """What torch gives; None when it refuses such arguments."""
    space, _, name = schema.name.partition("::")
    call = getattr(getattr(getattr(torch.ops, space), name), schema.overload or "default")
    arguments = {n: to_torch(torch, np.asarray(v), types[n]) if n in types else v for n, v in given.items()}
    positional = [arguments[a.name] for a in schema.arguments if not a.keyword_only]
    try:
        return call(*positional, **{a.name: arguments[a.name] for a in schema.arguments if a.keyword_only})
    except (RuntimeError, TypeError, ZeroDivisionError):
        return None


def check(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], dtype: str, what: str, *, coarse: bool, any_zero: bool) -> None:
    assert found.dtype == wanted.dtype, f"{what}: {found.dtype} for {wanted.dtype}"
    assert found.shape == wanted.shape, f"{what}: {found.shape} for {wanted.shape}"
    if dtype in TOLERANCE:
        tolerance, scale = TOLERANCE[dtype], 30 if coarse else 1
        np.testing.assert_allclose(found, wanted, rtol=tolerance * scale, atol=tolerance * scale * 1e-2, equal_nan=True, err_msg=what)
        zeros = (wanted == 0) & (found == 0)
        alike = np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))
        assert any_zero or alike, f"{what}: the sign of a zero (ANY_ZERO is for ops of which torch itself gives both)"
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


def as_expression(op: Op, given: dict[str, Any], types: dict[str, str], *, late: bool) -> tuple[Expr, list[Any]]:
    """The op's expression, with numbers known now or (`late`) only when the kernel runs."""
    assert op.expression is not None
    arguments: dict[str, Any] = {}
    operands: list[Any] = []
    for name, value in given.items():
        if name in types:
            arguments[name] = input_element(len(operands), types[name], rank=np.ndim(value))
            operands.append(value)
        elif late and isinstance(value, int | float) and not isinstance(value, bool):
            arguments[name] = number(len(operands), "float64" if isinstance(value, float) else "int64")
            operands.append(value)
        else:
            arguments[name] = value
    return op.expression(**arguments), operands


TESTED = [op for op in POINTWISE if not op.operand_axes and op.name.startswith("aten::") and op.category == "pointwise"]


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name.removeprefix("aten::"))
def test_reference_and_expression_are_torchs(torch: Any, op: Op) -> None:
    assert op.reference is not None
    compared = 0
    limits = {"coarse": op.name.removeprefix("aten::") in COARSE, "any_zero": op.name.removeprefix("aten::") in ANY_ZERO}
    for schema, given, types in cases(op):
        theirs = run_torch(torch, schema, given, types)
        if theirs is None:
            continue
        compared += 1
        dtype = str(theirs.dtype).removeprefix("torch.")
        wanted = from_torch(torch, theirs)
        what = f"{schema.full_name} {types} { {n: v for n, v in given.items() if n not in types} }"
        for late in (False, True):
            try:
                expr, operands = as_expression(op, given, types, late=late) if op.expression else (None, [])
            except NoExpression:
                continue
            if expr is not None:
                assert expr.dtype == dtype, f"{what}: {expr.dtype} for {dtype}"
                check(evaluate(expr, operands), wanted, dtype, f"expression, late={late}: {what}", **limits)
        if "bfloat16" not in types.values():
            copies = {n: np.array(v) if n in types else v for n, v in given.items()}
            result = op.reference(**copies)
            assert op.effect != "in-place" or result is copies["self"], "an in-place op gives back its argument"
            check(np.asarray(result), wanted, dtype, f"reference: {what}", **limits)
    assert compared, f"torch ran no case of {op.name}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_round_numbers_and_whole_operands_where_torch_does(torch: Any, dtype: str) -> None:
    """A comparison decides, a power magnifies: whether 0.1003 or the half next to it takes part shows in the result."""
    compared = 0
    some = np.random.default_rng(0).normal(0, 2, 512)
    for op in TESTED:
        if op.expression is None or op.effect != "pure":
            continue
        for schema in op.schemas:
            tensors = [a.name for a in schema.arguments if isinstance(plain(a), TensorType)]
            numbers = [a.name for a in schema.arguments if plain(a) in (NUMBER, FLOAT)]
            types = dict.fromkeys(tensors, dtype) | {name: "bool" for name in tensors if name in ("mask", "condition")}
            for value in (0.1003, 1.7011) if numbers and tensors else ():
                near = round_to(np.array([value]), dtype)
                given: dict[str, Any] = {a.name: choices(a, 0) for a in schema.arguments if a.name not in types}
                given = {n: value if n in numbers and n != "eps" else v for n, v in given.items()}
                for name in tensors:
                    x = round_to(np.concatenate([some, near, -near, some]), dtype)
                    given[name] = x > 0 if types[name] == "bool" else abs(x) if schema.name.endswith("pow") else x
                compared += halves_agree(torch, op, schema, given, types)
        if len(op.schemas[0].arguments) == 2 and op.name.removeprefix("aten::") in ("mul", "add", "eq", "maximum"):
            names = [a.name for a in op.schemas[0].arguments]
            whole = {names[0]: np.arange(3000), names[1]: round_to(np.tile([1.0, 256.0, 1024.0], 1000), dtype)}
            compared += halves_agree(torch, op, op.schemas[0], whole, {names[0]: "int64", names[1]: dtype})
    assert compared > 60


def halves_agree(torch: Any, op: Op, schema: OpSchema, given: dict[str, Any], types: dict[str, str]) -> bool:
    theirs = run_torch(torch, schema, given, types)
    if theirs is None:
        return False
    for late in (False, True):
        try:
            expr, operands = as_expression(op, given, types, late=late)
        except NoExpression:
            continue
        found, wanted = evaluate(expr, operands), from_torch(torch, theirs)
        differ = (found != wanted) & ~(np.isnan(found) & np.isnan(wanted)) if found.dtype.kind == "f" else found != wanted
        assert differ.mean() <= (0.01 if found.dtype.kind == "f" else 0), f"{schema.full_name} {types}, late={late}"
    return True
