"""Numbers and strings of TorchScript programs are what torch makes of them, also where Python raises, grows or knows better."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

import irscope as irs
from tests.programs import ir

torch = pytest.importorskip("torch")

FLOATS = (0.0, -0.0, 0.5, -0.5, 2.0, -1.0, 2.5, -7.5, 1e10, 800.0, 1e300, -1e300, math.inf, -math.inf, math.nan)
INTS = (0, 1, -1, 7, -7, 63, 2**62, 2**63 - 1, -(2**63))
ONE_FLOAT = "sqrt log log10 log1p exp expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh gamma lgamma".split()


def ran(op: str, operands: Sequence[Any], result: str) -> tuple[Any, Any]:
    """What torch and the compiled program give; None where they refuse."""
    names = {float: "float", int: "int", bool: "bool", str: "str"}
    given = ", ".join(f"%{index} : {names[type(operand)]}" for index, operand in enumerate(operands))
    called = ", ".join(f"%{index}" for index in range(len(operands)))
    text = f"graph({given}):\n  %r : {result} = {op}({called})\n  return (%r)"
    found = []
    for make in (lambda: torch._C._create_function_from_graph("f", torch._C.parse_ir(text)), lambda: irs.compile(irs.parse(text))):
        function = make()
        try:
            found.append(function(*operands))
        except (RuntimeError, irs.IrscopeError):
            found.append(None)
    return found[0], found[1]


def assert_same(op: str, operands: Sequence[Any], result: str) -> None:
    wanted, found = ran(op, operands, result)
    told = f"{op}{tuple(operands)} is {wanted!r}, and {found!r} here"
    assert type(found) is type(wanted), told
    if isinstance(wanted, float) and math.isfinite(wanted):
        assert found == pytest.approx(wanted, rel=1e-14), told
        assert math.copysign(1, found) == math.copysign(1, wanted), told
    elif isinstance(wanted, float):
        assert str(found).lstrip("-" * math.isnan(wanted)) == str(wanted).lstrip("-" * math.isnan(wanted)), told
    else:
        assert found == wanted, told


@pytest.mark.parametrize("op", ONE_FLOAT)
def test_functions_of_a_float(op: str) -> None:
    for value in FLOATS:
        assert_same(f"aten::{op}", [value], "float")


@pytest.mark.parametrize("op", ["aten::fmod", "aten::mathremainder", "aten::pow", "aten::floordiv", "aten::remainder", "aten::div"])
def test_functions_of_two_floats(op: str) -> None:
    for pair in itertools.product(FLOATS, FLOATS):
        if op == "aten::pow" and pair[0] == 0 and pair[1] < 0:
            continue  # torch's own interpreters differ
        assert_same(op, pair, "float")


@pytest.mark.parametrize("op", ["aten::add", "aten::sub", "aten::mul"])
def test_ints_wrap_around(op: str) -> None:
    for pair in itertools.product(INTS, INTS):
        assert_same(op, pair, "int")


@pytest.mark.parametrize("op", ["aten::Int", "aten::floor", "aten::ceil"])
def test_a_float_that_no_int_holds_is_refused(op: str) -> None:
    for value in (2.5, -2.5, 1e18):
        assert_same(op, [value], "int")
    graph = irs.parse(f"graph(%x : float):\n  %r : int = {op}(%x)\n  return (%r)")
    for value in (1e300, math.inf, math.nan):
        with pytest.raises(irs.IrscopeError):
            irs.compile(graph)(value)


@pytest.mark.parametrize(
    "text", ["{}", "{} {}", "a{}b", "{0}", "{:>5}", "{{}}", "{", "}", "", "{0.__class__}", "{0.__class__.__mro__}", "{!r}"]
)
@pytest.mark.parametrize("value", [1, True, 2.0, -0.0, 0.1, 1e300, 1e10, 2.0**63, math.inf, "a'b"])
def test_only_empty_braces_stand_for_something(text: str, value: Any) -> None:
    kind = {int: "int", bool: "bool", float: "float", str: "str"}[type(value)]
    graph = f'graph(%x : {kind}):\n  %t : str = prim::Constant[value="{text}"]()\n  %r : str = aten::format(%t, %x)\n  return (%r)'
    function = torch._C._create_function_from_graph("f", torch._C.parse_ir(graph))
    try:
        wanted = function(value)
    except RuntimeError:
        with pytest.raises(irs.IrscopeError):
            irs.compile(irs.parse(graph))(value)
        return
    assert irs.compile(irs.parse(graph))(value) == wanted


def test_what_is_folded_shows_nothing_of_this_process() -> None:
    text = ir('| t = "{0.__add__} {0.__class__}"; n = 1; r = format t n | r', "str")
    folded = str(irs.Pipeline("fold-constants")(irs.parse(text)).graph)
    assert "{0.__add__} {0.__class__}" in folded and "method-wrapper" not in folded


def percent(number: int, ratio: float, word: str) -> str:
    return "%d%% of %s is %f" % (number, word, ratio)  # noqa: UP031


def printed(numbers: list[float], words: list[str], pair: tuple[int, str], yes: bool) -> str:
    return str(numbers) + "{} {} {}".format(words, pair, yes) + str(None)  # noqa: UP032


def searched(text: str, part: str, start: int, end: int) -> tuple[int, int, bool, bool]:
    return (text.find(part), text.find(part, start, end), text.startswith(part, start, end), text.endswith(part, start, end))


def test_strings_are_made_as_torchscript_makes_them() -> None:
    script = torch.jit.script(percent)
    assert irs.compile(irs.load(script))(3, 0.5, "x") == script(3, 0.5, "x")
    script = torch.jit.script(printed)
    given = [1.0, 0.1], ["a", "b"], (1, "c"), True
    assert irs.compile(irs.load(script))(*given) == script(*given)


@pytest.mark.parametrize("start", [0, 2, -3, 8])
@pytest.mark.parametrize("end", [-1, 4, 0, 99, -5])
def test_strings_are_searched_as_torchscript_searches_them(start: int, end: int) -> None:
    script = torch.jit.script(searched)
    executable = irs.compile(irs.load(script))
    for text, part in (("trunctr", "tr"), ("banana", "an"), ("abc", ""), ("", "")):
        try:
            wanted = script(text, part, start, end)
        except RuntimeError:
            with pytest.raises(irs.IrscopeError):
                executable(text, part, start, end)
            continue
        assert executable(text, part, start, end) == wanted, (text, part)
