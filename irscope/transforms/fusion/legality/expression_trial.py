"""Builds an op's expression once, with placeholder elements for the tensors, to find its properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from irscope.ops.exactness import why_inexact
from irscope.ops.expr import NoExpression, count_operations, input_element, number, reduced_axes
from irscope.ops.schema import Op

__all__ = ["Trial", "try_expression"]

_GUESSES: Final = ("float32", "int64", "bool")  # element types to try where a tensor's is unknown


@dataclass(frozen=True, slots=True)
class Trial:
    """The properties of an op's expression for certain arguments."""

    complaint: str
    """Why there is no expression; empty when there is one."""
    results: int = 1
    axes: tuple[int, ...] = ()
    """The axes along which it reduces."""
    operations: int = 0
    """The number of operations at each point."""
    inexact: str = ""
    """Why a kernel's result may not have torch's bits; empty if it has them."""


def try_expression(op: Op, arguments: dict[str, Any], types: dict[str, tuple[str | None, int | None]]) -> Trial:
    """Try the expression with each guess for unknown element types; return the first complaint when all fail."""
    assert op.expression is not None
    complaint = ""
    for guess in _GUESSES if any(dtype is None for dtype, _ in types.values()) else _GUESSES[:1]:
        given = dict(arguments)
        for index, (name, (dtype, rank)) in enumerate(types.items()):
            element = dtype or guess
            given[name] = number(index, element) if rank == -1 else input_element(index, element, rank=rank)
        try:
            made = op.expression(**given)
        except NoExpression as error:
            complaint = complaint or error.what
        else:
            results = made if isinstance(made, tuple) else (made,)
            axes = {axis for expr in results for axis in reduced_axes(expr)}
            inexact = why_inexact(op.name, results)
            return Trial("", len(results), tuple(sorted(axes)), count_operations(results), inexact)
    return Trial(complaint)
