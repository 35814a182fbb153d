"""Specs are keys: equal for equal kernels in another order and nothing else, without sizes; loops that are collapsed."""

import math
import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irscope.codegen.kernel import UNIT, canonical_launch
from irscope.codegen.kernel.loops import collapse_loops, loop_nest
from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch, Operand, Result, constant_bits, constant_value
from irscope.errors import CodegenError
from irscope.ops.expr import COMMUTATIVE
from tests.work import long

X = Operand("float32", "tensor", (2, 1))
CODE = (Instruction("input", (), "float32", 0, node=0), Instruction("exp", (0,), "float32", node=1))
SPEC = KernelSpec((X,), CODE, (Result("float32", (2, 1), 1),), 2)


def test_the_node_of_an_instruction_is_not_part_of_the_key() -> None:
    moved = replace(SPEC, instructions=tuple(replace(code, node=code.node + 5) for code in CODE))
    assert moved == SPEC
    assert hash(moved) == hash(SPEC)
    assert moved.fingerprint == SPEC.fingerprint


@pytest.mark.parametrize("other", [
    replace(SPEC, nontemporal=True),
    replace(SPEC, row_limit=8),
    replace(SPEC, instructions=(CODE[0], Instruction("log", (0,), "float32"))),
    replace(SPEC, inputs=(Operand("float32", "tensor", (0, 1)),)),
    replace(SPEC, inputs=(Operand("float16", "tensor", (2, 1)),)),
    replace(SPEC, outputs=(Result("float32", (2, 2), 1),)),
])  # fmt: skip
def test_everything_else_is(other: KernelSpec) -> None:
    assert other != SPEC and other.fingerprint != SPEC.fingerprint and other.name != SPEC.name


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_constants_keep_their_sign_and_are_rounded_to_their_type(dtype: str) -> None:
    assert constant_bits(0.0, dtype) != constant_bits(-0.0, dtype)
    assert constant_bits(math.nan, dtype) == constant_bits(math.nan, dtype)
    assert constant_value(constant_bits(-math.inf, dtype), dtype) == -math.inf
    third = constant_value(constant_bits(1 / 3, dtype), dtype)
    assert third == constant_value(constant_bits(third, dtype), dtype)
    assert (third == 1 / 3) == (dtype == "float64")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_constants_round_as_torch_rounds(dtype: str, torch: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 2**64, 2000, np.uint64).view(np.float64)
    near = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.random.default_rng(2).integers(-46, 40, 2000)
    edges = [65504.0, 65519.99, 65520.0, 3.4028235677973366e38, 3.3961775292304601e38, 1e-45, 7e-46, 2**-25, 2**-24]
    values = [*bits[np.isfinite(bits)], *near, *edges, *(-edge for edge in edges), math.inf, -math.inf, 0.0]
    wanted = torch.tensor(values, dtype=torch.float64)
    wanted = (wanted.float() if dtype == "bfloat16" else wanted).to(getattr(torch, dtype)).double().tolist()
    found = [constant_value(constant_bits(float(value), dtype), dtype) for value in values]
    assert found == wanted


def test_a_launch_counts_each_tensor_once() -> None:
    inputs = (X, Operand("float16", "tensor", (0, 1)), Operand("float64", "scalar"))
    code = (*CODE, Instruction("input", (), "float16", 1), Instruction("input", (), "float64", 2))
    launch = Launch(KernelSpec(inputs, code, SPEC.outputs, 2), (10, 100), (0, 1, 2), (0,), ((100, 1), (100, 1), (0, 1), ()))
    assert launch.elements == 1000
    assert launch.bytes_moved == 4000 + 4000 + 200, "a number is no tensor"


@pytest.mark.parametrize(("pattern", "reduced"), [((2, 0), ()), ((0, 1), ()), ((0, 0, 1), (0, 1, 2)), ((2, 0), (0,))])
def test_a_result_that_every_step_of_a_loop_would_write_is_refused(pattern: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    with pytest.raises(CodegenError, match="does not move along"):
        replace(SPEC, outputs=(Result("float32", pattern, 1),), rank=len(pattern), reduced=reduced)


OPS = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "minimum": np.minimum, "exp": np.exp, "neg": np.negative}
BINARY = ("add", "mul", "sub", "minimum")


def random_launch(rng: random.Random) -> Launch:
    inputs = rng.randint(1, 4)
    steps = [Instruction("input", (), "float32", place) for place in range(inputs)]
    steps += [Instruction("const", (), "float32", constant_bits(number, "float32")) for number in (0.5, 2.0)]
    for _ in range(rng.randint(2, 9)):
        op = rng.choice(list(OPS))
        args = tuple(rng.randrange(len(steps)) for _ in range(2 if op in BINARY else 1))
        steps.append(Instruction(op, args, "float32"))
    # everything is read: the last instruction is a sum of all that nothing reads
    for at in [at for at in range(len(steps)) if not any(at in step.args for step in steps)]:
        if at != len(steps) - 1:
            steps.append(Instruction("add", (len(steps) - 1, at), "float32"))
    strides = tuple((place + 1,) for place in range(inputs + 1))
    operands = tuple(Operand("float32", "tensor", (UNIT,)) for _ in range(inputs))
    spec = KernelSpec(operands, tuple(steps), (Result("float32", (UNIT,), len(steps) - 1),), 1)
    return Launch(spec, (8,), tuple(range(inputs)), (0,), strides, tuple(10 * place for place in range(inputs + 1)))


def shuffled(launch: Launch, rng: random.Random) -> Launch:
    """Another order of operands, instructions and commutative arguments."""
    spec, count = launch.spec, len(launch.spec.outputs)
    operands = rng.sample(range(len(spec.inputs)), len(spec.inputs))
    order: list[int] = []
    while len(order) < len(spec.instructions):
        ready = [at for at, step in enumerate(spec.instructions) if at not in order and set(step.args) <= set(order)]
        order.append(rng.choice(ready))
    steps = []
    for at in order:
        step = spec.instructions[at]
        args = [order.index(arg) for arg in step.args]
        if step.op in COMMUTATIVE and rng.random() < 0.5:
            args.reverse()
        value = operands.index(step.value) if step.op == "input" and step.value is not None else step.value
        steps.append(replace(step, args=tuple(args), value=value))
    return replace(
        launch,
        spec=replace(
            spec, inputs=tuple(spec.inputs[at] for at in operands), instructions=tuple(steps),
            outputs=tuple(replace(each, instruction=order.index(each.instruction)) for each in spec.outputs),
        ),
        reads=tuple(launch.reads[at] for at in operands),
        strides=(*launch.strides[:count], *(launch.strides[count + at] for at in operands)),
        offsets=(*launch.offsets[:count], *(launch.offsets[count + at] for at in operands)),
    )  # fmt: skip


def computed(launch: Launch, arguments: list[np.ndarray]) -> bytes:
    """The results to the bit, with the group's inputs as the launch reads them."""
    made: list[np.ndarray] = []
    for step in launch.spec.instructions:
        if step.op == "input":
            made.append(arguments[launch.reads[step.value or 0]])
        elif step.op == "const":
            made.append(np.full(4, constant_value(step.value or 0, "float32"), np.float32))
        else:
            made.append(OPS[step.op](*(made[arg] for arg in step.args)))
    return b"".join(made[result.instruction].tobytes() for result in launch.spec.outputs)


def check(seed: int) -> None:
    rng = random.Random(seed)
    launch = random_launch(rng)
    made = canonical_launch(launch)
    assert canonical_launch(made) is made, "it is canonical already"
    arguments = [np.array([rng.uniform(-2, 2) for _ in range(4)], np.float32) for _ in launch.reads]
    with np.errstate(all="ignore"):
        assert computed(made, arguments) == computed(launch, arguments)
    for read, strides, offset in zip(made.reads, made.strides[1:], made.offsets[1:], strict=True):
        assert (strides, offset) == ((read + 2,), 10 * (read + 1)), "an operand keeps what is said of it"
    assert made.spec.fingerprint == canonical_launch(shuffled(launch, rng)).spec.fingerprint


@pytest.mark.parametrize("seeds", [range(300), *long([range(300, 20000)])], ids=str)
def test_orders_have_one_spec_that_computes_the_same(seeds: range) -> None:
    for seed in seeds:
        check(seed)


def test_what_matters_stays_another_spec() -> None:
    x, y = (Instruction("input", (), "float32", place) for place in (0, 1))
    operands = (Operand("float32", "tensor", (UNIT,)), Operand("float32", "tensor", (2,)))

    def spec_of(op: str, args: tuple[int, int]) -> KernelSpec:
        spec = KernelSpec(operands, (x, y, Instruction(op, args, "float32")), (Result("float32", (UNIT,), 2),), 1)
        return canonical_launch(Launch(spec, (8,), (0, 1), (0,), ((1,), (1,), (2,)))).spec

    assert spec_of("sub", (0, 1)) != spec_of("sub", (1, 0))
    assert spec_of("minimum", (0, 1)) != spec_of("minimum", (1, 0))  # of 0.0 and -0.0 it is the first
    assert spec_of("mul", (0, 1)) == spec_of("mul", (1, 0))


def test_other_numbers_are_not_a_reason_for_another_order() -> None:
    operand = Operand("float32", "tensor", (UNIT,))

    def lines(numbers: tuple[float, float]) -> list[str]:
        code = [Instruction("input", (), "float32", place) for place in (0, 1)]
        code += [Instruction("const", (), "float32", constant_bits(number, "float32")) for number in numbers]
        code += [Instruction("mul", (0, 2), "float32"), Instruction("sub", (1, 3), "float32"), Instruction("add", (4, 5), "float32")]
        spec = KernelSpec((operand, operand), tuple(code), (Result("float32", (UNIT,), 6),), 1)
        made = canonical_launch(Launch(spec, (8,), (0, 1), (0,), ((1,), (1,), (1,))))
        return str(made.spec).replace(str(numbers[0]), "a").replace(str(numbers[1]), "b").splitlines()

    seen = {tuple(lines((one, other))) for one in (0.5, 3.0, 7.0) for other in (0.25, 9.0, 11.0)}
    assert len(seen) == 1


def addresses(sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Where each tensor is read at each point, in some order of the points."""
    points = product(*map(range, sizes))
    return sorted(tuple(sum(i * s for i, s in zip(point, own, strict=True)) for own in strides) for point in points)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """A shape, and strides of a dense tensor and of views of dense tensors: permuted, sliced, broadcast."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    tensors = []
    for index in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(len(shape))))
        strides, step = [0] * len(shape), 1
        for dim in order:
            strides[dim] = step * (draw(st.sampled_from([1, 1, 1, 2])) if index else 1)
            step = strides[dim] * max(shape[dim], 1)
        if index:
            strides = [0 if draw(st.integers(0, 4)) == 0 else stride for stride in strides]
        tensors.append(tuple(strides))
    return shape, tensors


@given(layouts())
def test_collapsed_loops_visit_the_same_elements_together(layout: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    shape, strides = layout
    sizes, steps = collapse_loops(shape, strides)
    assert addresses(sizes, steps) == addresses(shape, tuple(strides))
    assert len(sizes) == 1 or 1 not in sizes


@given(layouts())
def test_no_two_neighbouring_loops_could_still_be_one(layout: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    sizes, steps = collapse_loops(*layout)
    for outer in range(len(sizes) - 1):
        assert not all(own[outer] == own[outer + 1] * sizes[outer + 1] for own in steps)


def test_the_innermost_loop_walks_the_result_in_memory_order() -> None:
    sizes, steps = collapse_loops((8, 16), [(1, 8), (16, 1)])
    assert sizes == (16, 8)
    assert steps == ((8, 1), (1, 16))


def test_what_depends_on_the_row_alone_is_computed_once_a_row() -> None:
    inputs = (Operand("float32", "tensor", (2, 1)), Operand("float32", "tensor", (2, 0)), Operand("float64", "scalar"))
    code = (
        Instruction("input", (), "float32", 0), Instruction("input", (), "float32", 1), Instruction("input", (), "float64", 2),
        Instruction("cast", (2,), "float32"), Instruction("add", (1, 3), "float32"), Instruction("rsqrt", (4,), "float32"),
        Instruction("mul", (0, 5), "float32"),
    )  # fmt: skip
    nest = loop_nest(KernelSpec(inputs, code, (Result("float32", (2, 1), 6),), 2))
    assert nest.depths == (2, 1, 0, 0, 1, 1, 2) and nest.stages == ((2, 3), (1, 4, 5), (0, 6))
    assert nest.carried == (5,)


def test_a_whole_dense_tensor_is_one_loop() -> None:
    strides = tuple(step // 4 for step in np.zeros((2, 3, 4, 5), np.float32).strides)
    assert collapse_loops((2, 3, 4, 5), [strides, strides]) == ((120,), ((1,), (1,)))
