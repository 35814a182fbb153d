"""The canonical form of a launch: one spec for kernels that differ only in the order of instructions, operands and commutative arguments.

A kernel's text is generated from its spec, and the kernel caches, in memory and on disk, are keyed by it. Every launch gets the
canonical form of its spec, so that a program that lists the same computation in another order hits the cache, even in a later
process or for another model. In the canonical form, instructions are in the order in which the results need them, a commutative
instruction has its deeper argument first and constants last, and operands are in the order of their first read. The launch records
for each operand which input of the group it is, so nothing else changes.

*Why it computes the same.* Instructions and results are the old ones, renumbered, and swapping the arguments of a commutative
instruction changes no bit (`irscope.ops.expr`). Operands that look alike are distinguished by their users, in a few rounds. Those
that remain indistinguishable keep their order, which may miss a cache entry and never finds a wrong one.
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
    """Return the launch with the canonical form of its spec.

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
    operands += [place for place in range(len(spec.inputs)) if place not in operands]  # unused operands
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
        """Reorder the operands of a tuple that lists the results, then the operands."""
        return (*each[:count], *(each[count + operand] for operand in operands)) if each else each

    return replace(
        launch,
        spec=replace(spec, inputs=tuple([spec.inputs[at] for at in operands]), instructions=made, outputs=results),
        reads=tuple([launch.reads[at] for at in operands]),
        strides=moved(launch.strides),
        offsets=moved(launch.offsets),
    )


def _order(spec: KernelSpec) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the instructions in the order in which the results need them, and the arguments of each."""
    steps = spec.instructions
    coarse, fine = _colors(spec, whole=False), _colors(spec, whole=True)
    digests = (coarse, _above(spec, coarse), fine, _above(spec, fine))  # constants and layouts only break ties
    rank = [(step.op == "const", -size, *own) for step, size, *own in zip(steps, _sizes(steps), *digests, strict=True)]
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
    number = {at: place for place, at in enumerate(order)}  # of equal arguments, the first one needed comes first
    return order, [
        tuple(sorted(own, key=lambda arg: (rank[arg], number[arg]))) if step.op in COMMUTATIVE and done[at] else own
        for at, (step, own) in enumerate(zip(steps, args, strict=True))
    ]


def _sizes(steps: Sequence[Instruction]) -> list[int]:
    """Return the depth of the longest chain of instructions that ends at each."""
    sizes: list[int] = []
    for step in steps:
        sizes.append(1 + max((sizes[arg] for arg in step.args), default=0))
    return sizes


def _colors(spec: KernelSpec, *, whole: bool) -> list[bytes]:
    """Return a digest of each instruction and everything it is computed from; operands that look alike are refined by their users.
    Without `whole`, constants and layouts are left out."""
    steps = spec.instructions
    own = [repr((operand.dtype, operand.kind, operand.pattern if whole else ())).encode() for operand in spec.inputs]
    colors = _filled(steps, own, whole)
    for _ in range(_ROUNDS):
        if len(set(own)) == len(own):
            break
        above = _above(spec, colors)
        reads: list[list[bytes]] = [[] for _ in own]
        for step, users in zip(steps, above, strict=True):
            if step.op == "input" and step.value is not None:
                reads[step.value].append(users)
        refined = [_digest(color, *sorted(read)) for color, read in zip(own, reads, strict=True)]
        if len(set(refined)) == len(set(own)):
            break
        own, colors = refined, _filled(steps, refined, whole)
    return colors


def _above(spec: KernelSpec, colors: Sequence[bytes]) -> list[bytes]:
    """Return, for each instruction, a digest of its transitive users, up to the results."""
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
