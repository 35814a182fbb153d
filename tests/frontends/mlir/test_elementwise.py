"""Each elementwise op of StableHLO and CHLO, for each element type, on the numbers where types end, against XLA."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
import pytest

import irscope as irs
from irscope.errors import RunError
from tests.frontends.mlir.test_reference import by_xla

jax = pytest.importorskip("jax")
pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

ELEMENTS: Final = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int32": "i32", "uint8": "ui8", "int8": "i8",
    "int16": "i16", "int64": "i64", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64", "bool": "i1",
}  # fmt: skip
FLOATS: Final = (
    "cbrt round_nearest_afz round_nearest_even ceil floor is_finite logistic cosine sine tan tanh exponential "
    "exponential_minus_one log log_plus_one rsqrt sqrt chlo.erf chlo.erf_inv chlo.digamma chlo.acos chlo.acosh chlo.asin "
    "chlo.asinh chlo.atan chlo.atanh chlo.cosh chlo.sinh chlo.square chlo.is_inf chlo.is_pos_inf chlo.is_neg_inf"
).split()
BITS: Final = ["not"]
NUMBERS: Final = ["abs", "negate", "sign"]
OF_TWO: Final = {
    "f": "add subtract multiply divide power atan2".split(),
    "i": "add subtract multiply divide remainder and or xor maximum minimum shift_left shift_right_arithmetic shift_right_logical".split(),
    "u": "add subtract multiply divide remainder and or xor maximum minimum shift_left shift_right_logical".split(),
    "b": "and or xor maximum minimum".split(),
}
NOT_IN_TORCH: Final = ("uint16", "uint32", "uint64")
"""Of which torch has few ops."""
SIDES: Final = ["EQ", "NE", "LT", "LE", "GT", "GE"]


def _numbers(dtype: str) -> np.ndarray[Any, Any]:
    """Limits, zeros, halves, NaN and what is near; no subnormal numbers, which XLA takes for zeros."""
    if dtype == "bool":
        return np.array([False, True])
    if "int" in dtype:
        limits = np.iinfo(dtype)
        near = [limits.min, limits.min + 1, limits.max, limits.max - 1, *range(-9, 10), 15, 16, 31, 32, 33, 63, 64, 65, -33, -64]
        return np.array([number for number in near if limits.min <= number <= limits.max], dtype)
    limits = ml_dtypes.finfo(dtype)
    near = [0.0, 0.5, 1, 1.5, 2.5, 3, 0.25, 0.9, 7, 10, 50, 88, 128, 255, 256, 1000, 3e4, 65535, 1e6, 3e9, 1e19, 1e20, np.inf]
    with np.errstate(all="ignore"):
        return np.array([np.nan, *near, *(-n for n in near), limits.max, -float(limits.max)]).astype(_numpy(dtype))


def _numpy(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def _lines(dtype: str, a: str, b: str, kind: Any) -> list[tuple[str, str, str]]:
    """Name, text and type of the result of each op on `%a`, and of each on `%a` and `%b` with all pairs of numbers."""
    is_float, is_bool = "f" in dtype, dtype == "bool"
    one = [*(FLOATS if is_float else BITS), *([] if is_bool else NUMBERS)]
    if dtype.startswith("u"):
        one = BITS
    made = []
    for op in one:
        result = kind(a, "i1") if ".is" in op or op == "is_finite" else a
        made.append((op, f'"{op if "." in op else f"stablehlo.{op}"}"(%a) : ({a}) -> {result}', result))
    others = [name for name in ELEMENTS.values() if name != "bf16" or dtype not in NOT_IN_TORCH]
    made += [(f"to {other}", f"stablehlo.convert %a : ({a}) -> {kind(a, other)}", kind(a, other)) for other in others]
    for op in OF_TWO["f" if is_float else "b" if is_bool else dtype[0]]:
        if not (dtype in NOT_IN_TORCH and op.startswith("shift")):  # which NumPy has not either
            made.append((op, f"stablehlo.{op} %b, %c : {b}", b))
    made += [(f"compare {side}", f"stablehlo.compare {side}, %b, %c : ({b}, {b}) -> {kind(b, 'i1')}", kind(b, "i1")) for side in SIDES]
    return made


@pytest.mark.parametrize("dtype", [
    name if name in ("float32", "int8", "uint8") else pytest.param(name, marks=pytest.mark.long) for name in ELEMENTS
])  # fmt: skip
def test_ops_equal_xla(dtype: str) -> None:
    one = _numbers(dtype)
    left, right = (grid.reshape(-1).copy() for grid in np.meshgrid(one, one))
    element = ELEMENTS[dtype]
    a, b = (f"tensor<{len(numbers)}x{element}>" for numbers in (one, left))
    lines = _lines(dtype, a, b, lambda type, other: type.replace(f"x{element}>", f"x{other}>"))
    text = f"func.func @main(%a: {a}, %b: {b}, %c: {b}) -> ({', '.join(type for *_, type in lines)}) {{\n"
    text += "".join(f"  %r{number} = {line}\n" for number, (_, line, _) in enumerate(lines))
    names = ", ".join(f"%r{number}" for number in range(len(lines)))
    text += f"  return {names} : {', '.join(type for *_, type in lines)}\n}}"
    with jax.enable_x64(True):
        wanted = by_xla(text, [one, left, right])
    graph = irs.load(text)
    assert not any(node.op.startswith(("stablehlo", "chlo")) for node in graph.nodes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        device = "reference" if dtype in NOT_IN_TORCH else "cpu"
        found = irs.compile(irs.fuse(graph), device=device)(one.copy(), left, right)
    for (name, *_), got, want in zip(lines, found, wanted, strict=True):
        _same(f"{name} of {dtype}", np.asarray(got), want)


def _same(what: str, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    step, least = (float(getattr(ml_dtypes.finfo(want.dtype), name)) for name in ("eps", "tiny"))
    least = 8 * step if "digamma" in what else 4 * least  # near its root, where XLA's own terms cancel
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=64 * step, atol=least, err_msg=what)


def test_complex_numbers_are_compared_by_real_and_then_imaginary_parts() -> None:
    parts = (0.0, -1.0, 1.5, 2.5, np.inf, np.nan)
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(*[np.array([complex(x, y) for x in parts for y in parts], np.complex64)] * 2))
    of, flags = (f"tensor<{len(a)}x{element}>" for element in ("complex<f32>", "i1"))
    lines = [f"%0 = stablehlo.maximum %a, %b : {of}", f"%1 = stablehlo.minimum %a, %b : {of}"]
    lines += [f"%{2 + i} = stablehlo.compare {side}, %a, %b : ({of}, {of}) -> {flags}" for i, side in enumerate(SIDES)]
    types, names = ", ".join([of] * 2 + [flags] * 6), ", ".join(f"%{i}" for i in range(8))
    text = f"func.func @main(%a: {of}, %b: {of}) -> ({types}) {{\n" + "\n".join(lines) + f"\nreturn {names} : {types}\n}}"

    def pairs(name: str, left: Any, right: Any) -> Any:
        compare = getattr(np, name)
        return np.where(left.real == right.real, compare(left.imag, right.imag), compare(left.real, right.real))

    larger = np.where(pairs("greater", a, b), a, b)
    words = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    wanted = [larger, np.where(pairs("less", a, b), a, b), a == b, a != b, *(pairs(word, a, b) for word in words[2:])]
    for found, want in zip(irs.compile(irs.fuse(irs.load(text)))(a, b), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def test_comparisons_of_complex_numbers_are_not_run_by_xla() -> None:
    text = """func.func @main(%x: tensor<4xcomplex<f32>>, %z: tensor<complex<f32>>) -> tensor<complex<f32>> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0]
    : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}"""
    clamp = "func.func @main(%x: T, %z: T) -> T {\n  %0 = stablehlo.clamp %z, %x, %z : T\n  return %0 : T\n}"
    clamp = clamp.replace("T", "tensor<4xcomplex<f32>>")
    for program, zeros in ((text, ()), (clamp, 4)):
        with pytest.raises(RunError, match="XLA compares the real parts"):
            irs.compile(irs.load(program))(np.ones(4, np.complex64), np.zeros(zeros, np.complex64))


def test_bfloat16_constants_are_rounded_to_the_nearest() -> None:
    numbers = np.random.default_rng(0).normal(size=60).astype(ml_dtypes.bfloat16)
    listed = ", ".join(f"{float(number):.6e}" for number in numbers)  # with the six digits that MLIR writes
    text = f"""func.func @main() -> (tensor<60xbf16>, bf16) {{
  %0 = stablehlo.constant dense<[{listed}]> : tensor<60xbf16>
  %1 = arith.constant {float(numbers[0]):.6e} : bf16
  return %0, %1 : tensor<60xbf16>, bf16
}}"""
    several, one = irs.compile(irs.load(text))()
    np.testing.assert_array_equal(several, numbers)
    assert one == numbers[0]
    x = jax.numpy.ones(60, jax.numpy.bfloat16)
    np.testing.assert_array_equal(irs.compile(irs.load(lambda x: x * jax.numpy.asarray(numbers), x))(x), numbers)
