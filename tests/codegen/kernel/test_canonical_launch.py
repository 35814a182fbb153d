"""One spec for what is the same in another order: random specs, shuffled, and computed by hand before and after."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from irscope.codegen.kernel import (
    UNIT,
    Instruction,
    KernelSpec,
    Launch,
    Operand,
    Result,
    canonical_launch,
    constant_bits,
)
from irscope.codegen.kernel.spec import constant_value
from irscope.ops.expr import COMMUTATIVE

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


def test_orders_have_one_spec_that_computes_the_same() -> None:
    for seed in range(300):
        check(seed)


@pytest.mark.long
def test_more_orders() -> None:
    for seed in range(300, 20000):
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


def test_other_numbers_are_no_reason_for_another_order() -> None:
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
