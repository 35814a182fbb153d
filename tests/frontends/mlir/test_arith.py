"""`arith`, `complex` and `tensor` ops that torch has no op of that meaning for, against NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest

import irscope as irs
from tests.frontends.mlir.test_loop_nests import _load

NUMPY = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "i1": np.bool_, "f32": np.float32, "f64": np.float64}
WORDS = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
FLOAT_WORDS = ["false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"]


def _compiled(lines: str, arguments: list[str], result: str) -> Any:
    """A function that gives `%r`, of arguments `%a`, `%b`, …, compiled; every op must have become one of ours."""
    declared = ", ".join(f"%{name}: {type}" for name, type in zip("abcd", arguments, strict=False))
    graph = _load(f"module {{ func.func @f({declared}) -> {result} {{\n{lines}\nreturn %r : {result} }} }}")
    assert {node.op.partition("::")[0] for node in graph.nodes()} <= {"aten", "prim", "prims"}, graph
    return irs.compile(graph)


def _pairs(element: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of the numbers at the ends of a type, and some."""
    limits = np.iinfo(NUMPY[element])
    some = [limits.min, limits.min + 1, -100, -2, -1, 0, 1, 2, 7, 100, limits.max - 1, limits.max]
    a, b = np.array(list(itertools.product(some, some)), NUMPY[element]).T
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def _unsigned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(f"uint{8 * array.dtype.itemsize}")


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_arith_ops_on_unsigned_integers(element: str) -> None:
    a, b = _pairs(element)
    kind, wide = f"tensor<{len(a)}x{element}>", f"tensor<{len(a)}xi1>"
    for word, compared in WORDS.items():
        run = _compiled(f"%r = arith.cmpi {word}, %a, %b : {kind}", [kind, kind], wide)
        np.testing.assert_array_equal(run(a, b), compared(_unsigned(a), _unsigned(b)))
    for name, extreme in (("maxui", np.maximum), ("minui", np.minimum)):
        run = _compiled(f"%r = arith.{name} %a, %b : {kind}", [kind, kind], kind)
        np.testing.assert_array_equal(_unsigned(run(a, b)), extreme(_unsigned(a), _unsigned(b)))
    by = np.abs(b.astype(np.int64)).astype(np.uint64) % (8 * a.itemsize)
    shifts = {"shli": np.left_shift(a, by.astype(a.dtype)), "shrsi": np.right_shift(a, by.astype(a.dtype))}
    shifts["shrui"] = np.right_shift(_unsigned(a), by.astype(_unsigned(a).dtype)).view(a.dtype)
    for name, wanted in shifts.items():
        run = _compiled(f"%r = arith.{name} %a, %b : {kind}", [kind, kind], kind)
        np.testing.assert_array_equal(run(a, by.astype(a.dtype)), wanted)


def test_the_smaller_of_two_indices_as_unsigned_numbers() -> None:
    """Offsets of slices are clamped so: what is negative is larger than all others."""
    for name, extreme in (("maxui", np.maximum), ("minui", np.minimum)):
        lines = [f"%{x}0 = tensor.extract %{x}[] : tensor<i64>\n%{x}1 = arith.index_cast %{x}0 : i64 to index" for x in "ab"]
        lines += [f"%m = arith.{name} %a1, %b1 : index", "%r = arith.index_cast %m : index to i64"]
        run = _compiled("\n".join(lines), ["tensor<i64>", "tensor<i64>"], "i64")
        for a, b in itertools.product(np.array([-5, -1, 0, 3, 7, np.iinfo(np.int64).min, np.iinfo(np.int64).max]), repeat=2):
            assert np.uint64(np.asarray(run(a, b)).astype(np.uint64)) == extreme(a.astype(np.uint64), b.astype(np.uint64)), (name, a, b)


@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
def test_unsigned_integers_are_widened_divided_and_converted(element: str) -> None:
    a, b = _pairs(element)
    kind = f"tensor<{len(a)}x{element}>"
    widened = _compiled(f"%r = arith.extui %a : {kind} to tensor<{len(a)}xi64>", [kind], f"tensor<{len(a)}xi64>")
    np.testing.assert_array_equal(widened(a), _unsigned(a).astype(np.int64))
    floats = _compiled(f"%r = arith.uitofp %a : {kind} to tensor<{len(a)}xf64>", [kind], f"tensor<{len(a)}xf64>")
    np.testing.assert_array_equal(floats(a), _unsigned(a).astype(np.float64))
    back = _compiled(f"%r = arith.fptoui %a : tensor<{len(a)}xf64> to {kind}", [f"tensor<{len(a)}xf64>"], kind)
    np.testing.assert_array_equal(back(_unsigned(a).astype(np.float64)), a)
    divided = b != 0
    a, b = a[divided], b[divided]
    kind = f"tensor<{len(a)}x{element}>"
    for name, by in (("divui", np.floor_divide), ("remui", np.remainder)):
        run = _compiled(f"%r = arith.{name} %a, %b : {kind}", [kind, kind], kind)
        np.testing.assert_array_equal(_unsigned(run(a, b)), by(_unsigned(a), _unsigned(b)))


def test_every_comparison_of_floats() -> None:
    some = np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan], np.float32)
    a, b = (np.ascontiguousarray(part) for part in np.array(list(itertools.product(some, some)), np.float32).T)
    unordered = np.isnan(a) | np.isnan(b)
    plain = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": (a < b) | (a > b)}
    kind = f"tensor<{len(a)}xf32>"
    for word in FLOAT_WORDS[1:-1]:
        wanted = {"ord": ~unordered, "uno": unordered}.get(word)
        if wanted is None:
            wanted = plain[word[1:]] | (unordered if word[0] == "u" else False)
        run = _compiled(f"%r = arith.cmpf {word}, %a, %b : {kind}", [kind, kind], f"tensor<{len(a)}xi1>")
        np.testing.assert_array_equal(run(a, b), wanted, err_msg=word)


def test_bitcasts_and_truncation_to_one_bit() -> None:
    a = np.array([0.0, -0.0, 1.5, np.nan, -np.inf], np.float32)
    run = _compiled("%r = arith.bitcast %a : tensor<5xf32> to tensor<5xi32>", ["tensor<5xf32>"], "tensor<5xi32>")
    np.testing.assert_array_equal(run(a), a.view(np.int32))
    run = _compiled("%r = arith.trunci %a : tensor<4xi32> to tensor<4xi1>", ["tensor<4xi32>"], "tensor<4xi1>")
    np.testing.assert_array_equal(run(np.array([0, 1, 2, -1], np.int32)), [False, True, False, True])


def test_slices_are_extracted_and_inserted_at_known_and_computed_offsets() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    cut = "%r = tensor.extract_slice %a[1, 0] [2, 3] [1, 2] : tensor<4x6xf32> to tensor<2x3xf32>"
    np.testing.assert_array_equal(_compiled(cut, ["tensor<4x6xf32>"], "tensor<2x3xf32>")(x), x[1:3, 0:6:2])
    cut = "%r = tensor.extract_slice %a[%b, 1] [1, 4] [1, 1] : tensor<4x6xf32> to tensor<4xf32>"
    np.testing.assert_array_equal(_compiled(cut, ["tensor<4x6xf32>", "index"], "tensor<4xf32>")(x, 2), x[2, 1:5])
    part = -np.ones((2, 3), np.float32)
    put = "%r = tensor.insert_slice %b into %a[1, 0] [2, 3] [1, 2] : tensor<2x3xf32> into tensor<4x6xf32>"
    run, wanted, given = _compiled(put, ["tensor<4x6xf32>", "tensor<2x3xf32>"], "tensor<4x6xf32>"), x.copy(), x.copy()
    wanted[1:3, 0:6:2] = part
    np.testing.assert_array_equal(run(given, part), wanted)
    np.testing.assert_array_equal(given, x)
    put = "%r = tensor.insert_slice %b into %a[%c, 3] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x6xf32>"
    run, wanted = _compiled(put, ["tensor<4x6xf32>", "tensor<2x3xf32>", "index"], "tensor<4x6xf32>"), x.copy()
    wanted[2:4, 3:6] = part
    np.testing.assert_array_equal(run(x, part, 2), wanted)
    read = "%r = tensor.extract %a[%b, %c] : tensor<4x6xf32>"
    assert _compiled(read, ["tensor<4x6xf32>", "index", "index"], "f32")(x, 3, 4) == x[3, 4]


def test_padding_with_a_constant_and_a_computed_number() -> None:
    pad = "%r = stablehlo.pad %a, %b, low = [1, 0], high = [0, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x7xf32>"
    found = _compiled(pad, ["tensor<2x3xf32>", "tensor<f32>"], "tensor<3x7xf32>")(np.ones((2, 3), np.float32), np.float32(7))
    wanted = np.full((3, 7), 7, np.float32)
    wanted[1:, 0:5:2] = 1
    np.testing.assert_array_equal(found, wanted)
    pad = """%r = tensor.pad %a low[1, 0] high[0, 2] {
    ^bb0(%i: index, %j: index):
      %c = arith.constant 2.5 : f32
      tensor.yield %c : f32
    } : tensor<2x3xf32> to tensor<3x5xf32>"""
    x = np.ones((2, 3), np.float32)
    wanted = np.pad(x, ((1, 0), (0, 2)), constant_values=2.5)
    np.testing.assert_array_equal(_compiled(pad, ["tensor<2x3xf32>"], "tensor<3x5xf32>")(x), wanted)


def test_complex_numbers() -> None:
    x, y, kind = np.array(1 - 2j, np.complex64), np.array(-0.5 + 3j, np.complex64), "complex<f32>"
    for name, numpys in (("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh), ("neg", np.negative)):
        np.testing.assert_allclose(_compiled(f"%r = complex.{name} %a : {kind}", [kind], kind)(x), numpys(x), rtol=1e-5)
    for name, numpys in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        run = _compiled(f"%r = complex.{name} %a, %b : {kind}", [kind, kind], kind)
        np.testing.assert_allclose(run(x, y), numpys(x, y), rtol=1e-5)
    lines = f"""%i = complex.im %a : {kind}
    %n = complex.create %i, %i : {kind}
    %c = complex.constant [1.5 : f32, 0xFF800000 : f32] : {kind}
    %r = complex.add %n, %c : {kind}"""
    assert _compiled(lines, [kind], kind)(x) == complex(-0.5, -np.inf)
