"""One spec for kernels that are the same but for the order of instructions, operands and commutative arguments.

A kernel's text is written from its spec, and the caches of kernels, in memory and on disk, are keyed by it. So that a program which
lists the same computation in another order finds what was compiled before, be it in a later process or for another model, every
launch gets the canonical form of its spec: instructions in the order in which the results need them, arguments of a commutative
instruction with the larger one first and constants last, operands as they are first read. The launch says of each operand
which input of the group it is, so nothing else changes.

*Why it computes the same.* Instructions and results are the old ones under other numbers, and the commutative ones change no bit
(`irscope.ops.expr`). Operands that look alike are told apart by who reads them, in a few rounds; what is not told apart then keeps
its order, which may miss an entry and never finds a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, TypeVar

from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch
from irscope.ops.expr import COMMUTATIVE

__all__ = ["canonical_launch"]

_ROUNDS: Final = 4
T = TypeVar("T")


def canonical_launch(launch: Launch) -> Launch:
    """The launch with the canonical form of its spec.

    >>> from irscope.codegen.kernel.spec import UNIT, Operand, Result
    >>> x, n = Operand("float32", "tensor", (UNIT,)), Operand("float64", "tensor", (UNIT,))
    >>> code = (Instruction("input", (), "float32", 1), Instruction("input", (), "float64", 0),
    ...         Instruction("cast", (0,), "float64"), Instruction("mul", (1, 2), "float64"))
    >>> spec = KernelSpec((n, x), code, (Result("float64", (UNIT,), 3),), 1)
    >>> made = canonical_launch(Launch(spec, (8,), (0, 1), (0,), ((1,), (1,), (1,))))
    >>> print(made.spec)
    1 loop
    t0 : float32 = x0[unit]
    t1 : float64 = cast(t0)
    t2 : float64 = x1[unit]
    t3 : float64 = mul(t1, t2)
    y0[unit] : float64 = t3
    >>> made.reads
    (1, 0)
    """
    spec = launch.spec
    order, args = _order(spec)
    steps = spec.instructions
    operands = list(dict.fromkeys(value for at in order if steps[at].op == "input" and (value := steps[at].value) is not None))
    operands += [place for place in range(len(spec.inputs)) if place not in operands]  # which nothing reads
    if order == list(range(len(steps))) and operands == sorted(operands) and all(
        args[at] == steps[at].args for at in order
    ):
        return launch
    number = {at: place for place, at in enumerate(order)}
    place_of = {operand: place for place, operand in enumerate(operands)}
    made = tuple(
        replace(
            steps[at], args=tuple([number[arg] for arg in args[at]]),
            value=place_of[value] if steps[at].op == "input" and (value := steps[at].value) is not None else steps[at].value,
        )
        for at in order
    )  # fmt: skip
    results = tuple(replace(result, instruction=number[result.instruction]) for result in spec.outputs)
    count = len(spec.outputs)

    def moved(each: tuple[T, ...]) -> tuple[T, ...]:
        """Of results and operands, the operands in the new order."""
        return (*each[:count], *(each[count + operand] for operand in operands)) if each else each

    return replace(
        launch,
        spec=replace(spec, inputs=tuple([spec.inputs[at] for at in operands]), instructions=made, outputs=results),
        reads=tuple([launch.reads[at] for at in operands]),
        strides=moved(launch.strides),
        offsets=moved(launch.offsets),
    )


def _order(spec: KernelSpec) -> tuple[list[int], list[tuple[int, ...]]]:
    """The instructions in the order in which the results need them, and the arguments of each."""
    steps = spec.instructions
    coarse, fine = _colors(spec, whole=False), _colors(spec, whole=True)
    told = (coarse, _above(spec, coarse), fine, _above(spec, fine))  # another number or layout is no reason for another order
    rank = [(step.op == "const", -size, *own) for step, size, *own in zip(steps, _sizes(steps), *told, strict=True)]
    args = [tuple(sorted(step.args, key=rank.__getitem__)) if step.op in COMMUTATIVE else step.args for step in steps]
    order: list[int] = []
    done = [False] * len(steps)
    stack = [result.instruction for result in reversed(spec.outputs)]
    while stack:
        at = stack[-1]
        waiting = [arg for arg in args[at] if not done[arg]]
        if done[at] or not waiting:
            stack.pop()
            if not done[at]:
                done[at] = True
                order.append(at)
        else:
            stack.append(waiting[0])
    number = {at: place for place, at in enumerate(order)}  # of what is alike, the first that was needed comes first
    return order, [
        tuple(sorted(own, key=lambda arg: (rank[arg], number[arg]))) if step.op in COMMUTATIVE and done[at] else own
        for at, (step, own) in enumerate(zip(steps, args, strict=True))
    ]


def _sizes(steps: Sequence[Instruction]) -> list[int]:
    """How deep the chain of instructions is that ends at each."""
    sizes: list[int] = []
    for step in steps:
        sizes.append(1 + max((sizes[arg] for arg in step.args), default=0))
    return sizes


def _colors(spec: KernelSpec, *, whole: bool) -> list[bytes]:
    """A digest of each instruction with all that it is computed from, operands that look alike also by what is made of them.
    Without numbers and layouts if not `whole`."""
    steps = spec.instructions
    own = [repr((operand.dtype, operand.kind, operand.pattern if whole else ())).encode() for operand in spec.inputs]
    colors = _filled(steps, own, whole)
    for _ in range(_ROUNDS):
        if len(set(own)) == len(own):
            break
        above = _above(spec, colors)
        reads: list[list[bytes]] = [[] for _ in own]
        for step, made_of_it in zip(steps, above, strict=True):
            if step.op == "input" and step.value is not None:
                reads[step.value].append(made_of_it)
        told = [_digest(color, *sorted(read)) for color, read in zip(own, reads, strict=True)]
        if len(set(told)) == len(set(own)):
            break
        own, colors = told, _filled(steps, told, whole)
    return colors


def _above(spec: KernelSpec, colors: Sequence[bytes]) -> list[bytes]:
    """A digest of each instruction of all that reads it, up to the results."""
    steps = spec.instructions
    uses: list[list[bytes]] = [[] for _ in steps]
    for place, result in enumerate(spec.outputs):
        uses[result.instruction].append(b"y%d" % place)
    made = [b""] * len(steps)
    for at in range(len(steps) - 1, -1, -1):
        made[at] = _digest(*sorted(uses[at]))
        for place, arg in enumerate(steps[at].args):
            uses[arg].append(_digest(made[at], colors[at], b"" if steps[at].op in COMMUTATIVE else b"%d" % place))
    return made


def _filled(steps: Sequence[Instruction], own: Sequence[bytes], whole: bool) -> list[bytes]:
    colors: list[bytes] = []
    for step in steps:
        if step.op == "input" and step.value is not None:
            colors.append(_digest(b"input", own[step.value]))
            continue
        read = [colors[arg] for arg in step.args]
        read = sorted(read) if step.op in COMMUTATIVE else read
        value = step.value if whole or step.op != "const" else None
        colors.append(_digest(repr((step.op, step.dtype, value)).encode(), *read))
    return colors


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"|".join(parts), digest_size=8).digest()
