"""Cost model of expressions: the number of operations, and the arithmetic that a kernel does for them per point."""

from __future__ import annotations

from collections.abc import Sequence

from irscope.ops.expr.expression import REDUCTIONS, Expr
from irscope.ops.expr.primitives import NO_OPERATION, PRIMITIVES

__all__ = ["count_operations", "flops_at_a_point"]


def count_operations(results: Sequence[Expr]) -> int:
    """Return how many distinct operations the expressions of one element have together; leaves and casts do not count.

    >>> from irscope.ops.expr.expression import input_element
    >>> square = input_element(0, "float32") * input_element(0, "float32")
    >>> count_operations([square + square])
    2
    """
    return sum(expr.op not in NO_OPERATION for expr in _parts(results))


def flops_at_a_point(results: Sequence[Expr]) -> int:
    """Return the additions and multiplications per point that is computed or reduced; values shared by a whole row are not
    counted.

    >>> from irscope.ops.expr.expression import call, input_element, reduce
    >>> x = input_element(0, "float32")
    >>> flops_at_a_point([call("exp", x) * 2.0]), flops_at_a_point([call("exp", reduce("reduce_sum", x, (0,)))])
    (22, 1)
    """
    moves: dict[int, bool] = {}
    total = 0
    for expr in reversed(_parts(results)):  # operands come before their users
        has_points = expr.op == "input" or any(moves[id(arg)] for arg in expr.args)
        moves[id(expr)] = has_points and expr.op not in REDUCTIONS and expr.op != "count"
        if has_points and expr.op not in NO_OPERATION:
            total += PRIMITIVES[expr.op].flops if expr.op in PRIMITIVES else 1
    return total


def _parts(results: Sequence[Expr]) -> list[Expr]:
    """Return every subexpression once, each before its operands."""
    order: list[Expr] = []
    seen: set[int] = set()
    todo = [(expr, False) for expr in results]
    while todo:
        here, is_done = todo.pop()
        if is_done:
            order.append(here)
        elif id(here) not in seen:
            seen.add(id(here))
            todo.append((here, True))
            todo.extend((arg, False) for arg in here.args)
    return order[::-1]
