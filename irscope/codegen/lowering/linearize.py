"""Linearizes the expressions of many nodes into one list of instructions, with common subexpressions shared, constants folded and
needless roundings dropped.

A half-precision op computes in float32 and rounds its result. When the next op widens that result again, the rounding
between them is dropped, as in other fusing compilers: the fused result is closer to the exact one than op by op.
An explicit cast of an operand (`to(bfloat16)`, a number that becomes a half) keeps its rounding, and in an exact kernel
all casts do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irscope.codegen.kernel import Instruction, constant_bits, constant_value
from irscope.ops.expr import COMMUTATIVE, POSITIONS, REDUCTIONS, Expr, const, evaluate

__all__ = ["InstructionList", "to_expressions"]

_Key = tuple[str, tuple[int, ...], str, int | None]


class InstructionList:
    """A list of instructions in order of computation, each distinct one once.

    >>> from irscope.ops.expr.expression import input_element
    >>> code = InstructionList()
    >>> x = code.input(0, "float32")
    >>> last = code.splice(input_element(0, "float32") * 2.0 + input_element(0, "float32") * 2.0, {0: x}, node=0)
    >>> [step.op for step in code.steps]
    ['input', 'const', 'mul', 'add']
    """

    def __init__(self, *, exact: bool = False) -> None:
        """`exact`: round halves between ops too."""
        self.exact = exact
        self.steps: list[Instruction] = []
        self._known: dict[_Key, int] = {}
        self._explicit: set[int] = set()
        """Explicit casts of operands, whose rounding stays."""

    def input(self, operand: int, dtype: str, *, node: int = -1) -> int:
        """Return the step that reads an operand."""
        return self._step("input", (), dtype, operand, node)

    def splice(
        self,
        root: Expr,
        leaves: Mapping[int, int],
        *,
        node: int,
        gathered: Mapping[int, int] | None = None,
        index: int | None = None,
    ) -> int:
        """Append the steps of an expression and return the last one; `leaves` maps each operand to its step.

        `gathered` maps operands inside reductions to their steps, if these are others, and `index` is the step of the
        position within the reduced loops.
        """
        outside, inside = (leaves, False), (leaves if gathered is None else gathered, True)
        done: dict[tuple[int, bool], int] = {}
        stack = [(root, outside)]
        while stack:
            here, scope = stack[-1]
            below = inside if here.op in REDUCTIONS else scope
            args = () if here.op == "count" else here.args
            waiting = [(arg, below) for arg in args if (id(arg), below[1]) not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if (id(here), scope[1]) not in done:
                given = tuple(done[id(arg), below[1]] for arg in args)
                if here.op in POSITIONS:
                    assert index is not None
                    given = (*given, index)
                done[id(here), scope[1]] = self._expr(here, given, scope[0], node)
        return done[id(root), False]

    def cast(self, step: int, dtype: str, *, node: int) -> int:
        """Return a step converted to another type, or the step itself if it has that type."""
        return self._cast(step, dtype, node)

    def trimmed(self, results: Sequence[int]) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
        """Return only the steps that these results need, renumbered, and the results' new numbers."""
        needed = set(results)
        for index in range(len(self.steps) - 1, -1, -1):
            if index in needed:
                needed.update(self.steps[index].args)
        number = {old: new for new, old in enumerate(sorted(needed))}
        steps = tuple(
            Instruction(step.op, tuple(number[arg] for arg in step.args), step.dtype, step.value, step.node)
            for index, step in enumerate(self.steps)
            if index in needed
        )
        return steps, tuple(number[result] for result in results)

    def _expr(self, expr: Expr, args: tuple[int, ...], leaves: Mapping[int, int], node: int) -> int:
        if expr.op in ("input", "scalar"):
            assert isinstance(expr.value, int)
            leaf = leaves[expr.value]
            assert self.steps[leaf].dtype == expr.dtype, f"operand of {self.steps[leaf].dtype} read as {expr.dtype}"
            return leaf
        if expr.op == "const":
            return self._step("const", (), expr.dtype, constant_bits(expr.value, expr.dtype), node)
        if expr.op == "cast":
            step = self._cast(args[0], expr.dtype, node)
            if expr.args[0].op in ("input", "scalar"):
                self._explicit.add(step)
            return step
        if expr.op in REDUCTIONS or expr.op == "count":
            return self._step(expr.op, args, expr.dtype, None, node)
        if all(self.steps[arg].op == "const" for arg in args):
            return self._folded(expr.op, args, expr.dtype, node)
        return self._step(expr.op, args, expr.dtype, None, node)

    def _cast(self, arg: int, dtype: str, node: int) -> int:
        source = self.steps[arg]
        if source.dtype == dtype:
            return arg
        if source.op == "const":
            return self._folded("cast", (arg,), dtype, node)
        if source.op == "cast" and dtype == "float32" and arg not in self._explicit and not self.exact:
            widest = source.args[0]
            if source.dtype in ("float16", "bfloat16") and self.steps[widest].dtype == dtype:
                return widest
        return self._step("cast", (arg,), dtype, None, node)

    def _folded(self, op: str, args: tuple[int, ...], dtype: str, node: int) -> int:
        operands = tuple(_constant(self.steps[arg]) for arg in args)
        value = evaluate(Expr(op, operands, dtype), [])
        return self._step("const", (), dtype, constant_bits(value.item(), dtype), node)

    def _step(self, op: str, args: tuple[int, ...], dtype: str, value: int | None, node: int) -> int:
        key = (op, tuple(sorted(args)) if op in COMMUTATIVE else args, dtype, value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.steps)
            self.steps.append(Instruction(op, args, dtype, value, node))
        return found


def to_expressions(steps: Sequence[Instruction]) -> list[Expr]:
    """Convert each instruction of a pointwise kernel back to an expression; operands keep their positions."""
    made: list[Expr] = []
    for step in steps:
        if step.op == "const":
            made.append(_constant(step))
        else:
            made.append(Expr(step.op, tuple(made[arg] for arg in step.args), step.dtype, step.value))
    return made


def _constant(step: Instruction) -> Expr:
    assert step.value is not None
    return const(constant_value(step.value, step.dtype), step.dtype)
