"""Expressions become lists without repetition; positions are the digits of every point; numbers may be operands."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.codegen.kernel.spec import Instruction, constant_value, trimmed
from irscope.codegen.lowering import spec_of_group
from irscope.codegen.lowering.index_propagation import AffineIndex, AxisMustSplit, InstructionList, Space, delinearize, linearize
from irscope.errors import CodegenError, IrscopeError

from irscope.ir import (  # isort: skip
    BOOL, FLOAT, INT, NONE, NUMBER, REQUIRED, STR, Block, ListType, Node, OpSchema, OptionalType, TensorType, Type, Value, new_id,
)  # fmt: skip
from irscope.ops.expr.expression import Expr, call, cast, const, input_element
from irscope.ops.expr.numpy_eval import evaluate
from irscope.ops.registry import known_names, overloads
from irscope.ops.traits import DECIDES

X, Y, HALF = input_element(0, "float32"), input_element(1, "float32"), input_element(0, "bfloat16")
IN_HALF = [cast(call(op, cast(HALF, "float32")), "bfloat16") for op in ("exp", "neg")]


def spliced(*exprs: Expr, dtypes: tuple[str, ...] = ("float32", "float32")) -> tuple[InstructionList, list[int]]:
    """Instructions of expressions over some operands, and the last of each."""
    code = InstructionList()
    leaves = {index: code.input(index, dtype) for index, dtype in enumerate(dtypes)}
    return code, [code.splice(expr, leaves, node=number) for number, expr in enumerate(exprs)]


def test_equal_parts_are_computed_once() -> None:
    code, (first, second, one, other) = spliced(call("exp", X + Y), call("exp", Y + X), X - Y, Y - X)
    assert first == second and one != other
    assert [step.op for step in code.steps] == ["input", "input", "add", "exp", "sub", "sub"]


def test_zeros_of_both_signs_and_nan_are_constants_of_their_own() -> None:
    _, values = spliced(*(const(value, "float32") for value in (0.0, -0.0, math.nan, math.nan)), dtypes=())
    assert values == [0, 1, 2, 2]


def test_constants_are_computed_in_their_type() -> None:
    code, (last,) = spliced(call("mul", const(0.1, "float32"), const(3.0, "float32")))
    step = code.steps[last]
    assert step.op == "const" and step.value is not None
    assert constant_value(step.value, "float32") == float(np.float32(0.1) * np.float32(3.0)) != 0.1 * 3.0


@pytest.mark.parametrize(("first", "then", "dtype", "kept"), [
    (*IN_HALF, "bfloat16", ["input", "cast", "exp", "neg", "cast"]),
    (cast(X, "float16"), cast(input_element(0, "float16"), "float32"), "float32", ["input", "cast", "cast"]),
    (call("exp", X), X * 2.0, "float32", ["input", "exp", "const", "mul"]),
], ids=["between two halves it is dropped", "the program asks for it", "there is none"])  # fmt: skip
def test_rounding_between_two_ops(first: Expr, then: Expr, dtype: str, kept: list[str]) -> None:
    code, (inner,) = spliced(first, dtypes=(dtype,))
    outer = code.splice(then, {0: inner}, node=1)
    assert [step.op for step in trimmed(code.steps, [outer])[0]] == kept


def test_what_no_result_needs_is_left_out() -> None:
    code, (kept, _) = spliced(X * 2.0, call("exp", X), dtypes=("float32",))
    steps, number = trimmed(code.steps, [kept])
    assert [step.op for step in steps] == ["input", "const", "mul"]
    assert number[kept] == 2


def to_expressions(steps: Sequence[Instruction]) -> list[Expr]:
    """Convert each instruction of a pointwise kernel back to an expression; operands keep their positions."""
    made: list[Expr] = []
    for step in steps:
        if step.op == "const":
            made.append(const(step.number, step.dtype))
        else:
            made.append(Expr(step.op, tuple(made[arg] for arg in step.args), step.dtype, step.value))
    return made


def test_instructions_read_back_as_expressions() -> None:
    expr = call("tanh", X * 0.5 + 1.0)
    code, (last,) = spliced(expr)
    values = [np.linspace(-3, 3, 7, dtype=np.float32)]
    np.testing.assert_array_equal(evaluate(to_expressions(code.steps)[last], values), evaluate(expr, values))


def test_a_long_chain_needs_no_deep_stack() -> None:
    expr: Expr = input_element(0, "float32")
    for _ in range(20_000):
        expr = call("neg", expr)
    assert len(spliced(expr)[0].steps) == 20_002


def at(form: AffineIndex, point: tuple[int, ...]) -> int:
    return form.offset + sum(step * point[axis] for axis, step in form.terms)


def random_position(rng: np.random.Generator, space: Space, elements: int) -> AffineIndex | None:
    """A position that stays inside: an offset and a step along each axis."""
    terms, reach = [], 0
    for axis, size in enumerate(space.extents):
        step = int(rng.choice([0, 1, 2, 3, 4, 6, 12]))
        if size > 1 and step and reach + step * (size - 1) < elements:
            terms.append((axis, step))
            reach += step * (size - 1)
    return AffineIndex(int(rng.integers(0, elements - reach)), tuple(terms))


def test_digits_are_the_indices_of_each_position() -> None:
    rng = np.random.default_rng(0)
    found = {"described": 0, "split": 0, "refused": 0}
    for _ in range(3000):
        shape = tuple(int(size) for size in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 4))))
        space = Space([int(size) for size in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 4)))], [])
        position = random_position(rng, space, int(np.prod(shape)))
        assert position is not None
        try:
            indices = delinearize(position, shape, space.extents)
        except AxisMustSplit as cut:
            assert space.extents[cut.axis] % cut.inner == 0
            assert 1 < cut.inner < space.extents[cut.axis]
            found["split"] += 1
            continue
        except CodegenError:
            found["refused"] += 1
            continue
        found["described"] += 1
        for point in product(*map(range, space.extents)):
            want = np.unravel_index(at(position, point), shape)
            assert tuple(at(index, point) for index in indices) == tuple(map(int, want))
    assert min(found.values()) > 50, found


def test_cutting_an_axis_keeps_every_element_in_its_place() -> None:
    space = Space([12, 5], [7])
    before = [space.kept_form(0), space.kept_form(1), space.reduced_form()]
    space.split(0, 4)
    space.split(1, 2)
    after = [space.kept_form(0), space.kept_form(1), space.reduced_form()]
    assert space.extents == [3, 2, 2, 5, 7]
    for point in product(*map(range, space.extents)):
        a, b, c, row, gathered = point
        assert [at(form, point) for form in after] == [a * 4 + b * 2 + c, row, gathered]
    assert [form.offset for form in before] == [0, 0, 0]


def test_a_flattened_image_is_walked_by_rows_and_columns() -> None:
    space = Space([20], [])
    with pytest.raises(AxisMustSplit) as cut:
        delinearize(space.kept_form(0), (4, 5), space.extents)
    space.split(cut.value.axis, cut.value.inner)
    assert delinearize(space.kept_form(0), (4, 5), space.extents) == (AffineIndex(0, ((0, 1),)), AffineIndex(0, ((1, 1),)))


def test_positions_add_up() -> None:
    forms = [AffineIndex(2, ((0, 1),)), AffineIndex(0, ((0, 3), (1, 1)))]
    assert linearize(forms, [10, 2], 5) == AffineIndex(25, ((0, 16), (1, 2)))


TENSOR = TensorType("float32", (4, 8), (8, 1))
TYPES: dict[type, Type] = {float: FLOAT, int: INT, bool: BOOL, type(None): NONE, str: STR}


def bare(type: Type) -> Type:
    while isinstance(type, OptionalType):
        type = type.element
    return type


def numbers() -> Iterator[tuple[OpSchema, int]]:
    """Every argument of every schema that is a number, of ops that write nothing."""
    for name in sorted(known_names()):
        for schema in overloads(name):
            if schema.returns and not schema.is_mutable:
                yield from ((schema, place) for place, each in enumerate(schema.arguments) if bare(each.type) in (FLOAT, NUMBER))


def group(schema: OpSchema, place: int, *, operand: bool) -> Node:
    """One op as a group, with 0.5 for the number: a constant of the body, or an operand."""
    params, nodes, inputs = [], [], []
    for index, argument in enumerate(schema.arguments):
        type = bare(argument.type)
        if isinstance(type, TensorType) or (operand and index == place):
            params.append(Value(new_id(), TENSOR if isinstance(type, TensorType) else FLOAT))
            inputs.append(params[-1])
            continue
        default = None if argument.default is REQUIRED else argument.default
        given = 0.5 if index == place or (default is None and type in (FLOAT, NUMBER)) else default
        stored = int(given) if isinstance(given, bool) else given
        value = Value(new_id(), TYPES.get(given.__class__, ListType(INT)))
        nodes.append(Node(new_id(), "prim::Constant", (), (value,), EMPTY if given is None else FrozenDict(value=stored)))
        inputs.append(value)
    outputs = tuple(Value(new_id(), TENSOR) for _ in schema.returns)
    nodes.append(Node(new_id(), schema.name, tuple(inputs), outputs))
    block = Block(new_id(), tuple(params), tuple(nodes), outputs[:1])
    return Node(new_id(), "prim::FusionGroup", tuple(params), outputs[:1], FrozenDict(kind="pointwise"), (block,))


def has_kernel(node: Node) -> bool:
    try:
        spec_of_group(node, [value.type for value in node.inputs])
    except IrscopeError:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_numbers_may_be_operands_unless_they_decide() -> None:
    tried = 0
    for schema, place in numbers():
        try:
            constant = has_kernel(group(schema, place, operand=False))
        except (AssertionError, IndexError, TypeError, ValueError):
            continue  # not an op that takes tensors like these
        if not constant:
            continue
        tried += 1
        decides = schema.arguments[place].name in DECIDES.get(schema.name, ())
        told = f"{schema.arguments[place].name} of {schema.full_name}: DECIDES has the numbers that an expression must know, and no others"
        assert has_kernel(group(schema, place, operand=True)) != decides, told
    assert tried > 50
