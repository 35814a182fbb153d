"""The tables of ops are complete and consistent, and know of every op how exact and how large its result is."""

import inspect
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.analysis.alias.alias_db import AliasDb
from irscope.errors import ArgumentError
from irscope.ops.accuracy import STEP_ULPS
from irscope.ops.python import containers, scalars
from irscope.ops.python.scalars import RESULT_SIZES, size_of
from irscope.ops.registry import category_of, effect_of
from tests.ops.oracle import POINTWISE, table
from tests.programs import ir

OVERLOADS = sorted(table().items())


def test_rule_and_reference_take_the_arguments_of_the_schema() -> None:
    refused = []
    for name, (op, schema) in OVERLOADS:
        for function in filter(None, (op.type_rule, op.reference)):
            try:
                inspect.signature(function).bind(**{argument.name: None for argument in schema.arguments})
            except TypeError as error:
                refused.append((name, str(error)))
    assert refused == []


@pytest.mark.parametrize(("op", "step"), [("exp", "exp"), ("aten::tanh", "tanh"), ("mul", "mul"), ("sigmoid", "sigmoid")])
def test_an_op_of_one_step_has_the_bound_of_the_step(op: str, step: str) -> None:
    for column, dtype in enumerate(("float32", "float64")):
        bound = irs.error_bound(op, dtype)
        assert bound.ulps == STEP_ULPS[step][column] and f"at most {bound.ulps:g} ulp off" in str(bound)


def test_steps_that_copy_choose_or_count_are_exact() -> None:
    for op, dtype in (("relu", "float32"), ("where", "float64"), ("add", "int64"), ("fmod", "float32"), ("floor", "float16")):
        assert irs.error_bound(op, dtype).ulps == 0
    assert str(irs.error_bound("neg")) == "aten::neg of float32 is neg(self), exact"


def test_halves_round_once() -> None:
    bound = irs.error_bound("tanh", "bfloat16")
    assert bound.ulps == pytest.approx(0.5 + 2 / 2**16)
    assert "computed in float32 and rounded once to bfloat16" in str(bound)


def test_errors_of_several_steps_have_no_one_number() -> None:
    bound = irs.error_bound("gelu", approximate="tanh")
    assert bound.ulps is None and dict(bound.steps) == {"mul": 0.5, "add": 0.5, "tanh": 2.0}
    assert bound.formula.startswith("(0.5f * self) * (1.0f + tanh(")


def test_whole_numbers_become_floats_first() -> None:
    bound = irs.error_bound("exp", "int64")
    assert (bound.result, bound.computed_in, bound.formula) == ("float32", "float32", "exp(float32(self))")


@pytest.mark.parametrize(("op", "arguments", "reason"), [
    ("nothing", {}, "aten::nothing is not an op that irscope knows"),
    ("sum", {}, "aten::sum has no bound here"),
    ("asin", {}, "aten::asin has no bound here"),
    ("exp", {"dtype": "complex64"}, "kernels do not compute with complex64"),
    ("gelu", {"dtype": "int32"}, "erf of int32 elements"),
    ("exp", {"base": 2}, "no argument 'base'"),
])  # fmt: skip
def test_what_has_no_bound_says_why(op: str, arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        irs.error_bound(op, **arguments)  # type: ignore[arg-type]


def test_every_pointwise_op_that_kernels_compute_can_be_asked() -> None:
    known = [op for op in POINTWISE if op.expression and op.category == "pointwise" and op.name.startswith("aten::")]
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


CONSTANTS = """
  %text : str = prim::Constant[value="aa"]()
  %wide : str = prim::Constant[value="{:99999999999}"]()
  %percent : str = prim::Constant[value="%99999999999d"]()
  %star : str = prim::Constant[value="%*d"]()
  %huge : int = prim::Constant[value=100000000000]()
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %small : int[] = prim::Constant[value=[1, 2, 3]]()
  %l : int[] = prim::ListConstruct(%one, %one)"""


def program(lines: str, result: str = "%r") -> str:
    return f"graph(%x : Tensor):{CONSTANTS}\n  {lines}\n  return ({result})"


@pytest.mark.parametrize("line", [
    "%r : int[] = aten::mul(%small, %huge)", "%r : int[] = aten::mul(%l, %huge)",
    "%r : int = aten::__lshift__(%one, %huge)", "%r : int = aten::factorial(%huge)", "%r : str = aten::format(%wide, %one)",
    "%r : str = aten::percentFormat(%percent, %one)", "%r : str = aten::percentFormat(%star, %huge, %one)",
    "%r : int[] = prim::rangelist(%huge)",
])  # fmt: skip
def test_what_would_fill_the_memory_is_left_to_the_run(line: str) -> None:
    started = time.process_time()
    fusion = irs.fuse(irs.parse(program(line)))
    assert time.process_time() - started < 5
    assert line.partition("= ")[2].partition("(")[0] in str(fusion.graph)


@pytest.mark.parametrize(("start", "step"), [
    ("%v0 : str = aten::add(%text, %text)", "%v{b} : str = aten::add(%v{a}, %v{a})"),
    ("%v0 : int[] = aten::add(%l, %l)", "%v{b} : int[] = aten::add(%v{a}, %v{a})"),
    ("%v0 : int[] = aten::add_(%l, %l)", "%v{b} : int[] = aten::add_(%l, %l)"),
    ("aten::extend(%l, %l)", "aten::extend(%l, %l)"),
    ("%v0 : str = aten::join(%text, %s)", "%v{b} : str = aten::replace(%v{a}, %text, %v{a})"),
])  # fmt: skip
def test_doubling_sixty_times(start: str, step: str) -> None:
    strings = "%s : str[] = prim::ListConstruct(%text, %text)"
    lines = [strings, start, *(step.format(a=i, b=i + 1) for i in range(60))]
    irs.fuse(irs.parse(program("\n  ".join(lines), "%l")))


def test_doubling_in_a_loop_is_left_and_what_is_small_is_folded() -> None:
    loop = """%r : str = prim::Loop(%n, %true, %text)
    block0(%i : int, %s : str):
      %t : str = aten::add(%s, %s)
      -> (%true, %t)"""
    text = program("%n : int = prim::Constant[value=1000]()\n  " + loop)
    assert "prim::Loop" in str(irs.fuse(irs.parse(text)).graph)
    graph = irs.fuse(irs.parse(program("%r : str = aten::add(%text, %text)"))).graph
    assert '"aaaa"' in str(graph)


NUMBERS = st.integers(-40, 40)
TEXTS = st.text(alphabet="ab{}%d1*", max_size=6)
OPERANDS = {
    "aten::add": st.tuples(TEXTS, TEXTS) | st.tuples(st.lists(NUMBERS), st.lists(NUMBERS)) | st.tuples(NUMBERS, NUMBERS),
    "aten::mul": st.tuples(TEXTS, NUMBERS) | st.tuples(st.lists(NUMBERS), NUMBERS) | st.tuples(NUMBERS, NUMBERS),
    "aten::__lshift__": st.tuples(NUMBERS, NUMBERS),
    "aten::factorial": st.tuples(st.integers(0, 16)),
    "aten::format": st.tuples(TEXTS, NUMBERS, TEXTS),
    "aten::percentFormat": st.tuples(TEXTS, NUMBERS, NUMBERS),
    "aten::join": st.tuples(TEXTS, st.lists(TEXTS)),
    "aten::replace": st.tuples(TEXTS, TEXTS, TEXTS),
    "prim::rangelist": st.tuples(NUMBERS),
}


@pytest.mark.parametrize("name", sorted(RESULT_SIZES))
def test_a_size_is_never_too_small(name: str) -> None:
    function = next(op for op in (*scalars.OPS, *containers.OPS) if op.name == name).reference
    assert function is not None

    @settings(max_examples=150, deadline=None)
    @given(OPERANDS[name])
    def check(operands: tuple[object, ...]) -> None:
        try:
            result = function(*operands)
        except (ValueError, TypeError, LookupError, ArithmeticError):
            return
        assert size_of(result) <= RESULT_SIZES[name](*operands) + 8

    check()


TEXT = ir("x w | r = onnx::RandomNormalLike x | r w")


def test_values_of_functional_programs_are_distinct_and_random_ops_not_the_same_twice() -> None:
    graph = irs.parse(TEXT)
    assert AliasDb(graph).may_alias("x", "w")
    apart = AliasDb(replace(graph, functional="ONNX")).may_alias("x", "w")
    assert not apart and "a program in ONNX, whose values share no memory" in apart.because
    assert effect_of(graph.node("r")) == "pure"
    assert category_of(graph.node("r")) == "random"
