"""Symbolic integers: sizes of tensors that are not known before the run, and sums and products of these.

A number has a name if nothing better is known: `size(%x, 0)` for an extent, which is at least 0; `~%n` for others, of
unknown sign. The same computation gets the same name, so that a size computed twice is recognised as one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from irscope.ir import INT, NOT_CONSTANT, ListType, Node
from irscope.ops.view_steps import Extent, Num, is_at_least, product, quotient

__all__ = ["number_of"]

Known = Callable[[int], Any]
"""Maps the position of an operand to its known value: a number, a tuple, an object with `shape`, or NOT_CONSTANT."""


def number_of(node: Node, operand: Known, name: str) -> Any:
    """The number, or tuple of numbers, that a node computes; a new name if the op is not one of the few here, and
    NOT_CONSTANT for a list of which nothing is known.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%a : int, %b : int):\\n  %c : int = aten::mul(%a, %b)\\n  return (%c)")
    >>> number_of(g.node("c"), [Extent.of("n"), 4].__getitem__, "%c")
    4*n
    """
    rule = _RULES.get(node.op)
    found = None
    if rule is not None:
        try:
            found = rule(operand, len(node.inputs))
        except (_NotKnown, IndexError, TypeError):
            found = None
    if found is not None:
        return found
    return Extent.of(f"~{name}") if node.output.type == INT else NOT_CONSTANT


class _NotKnown(Exception):
    """Raised when an operand is not known well enough."""


def _num(given: Any) -> Num:
    if isinstance(given, int | Extent):
        return given
    raise _NotKnown


def _shape(given: Any) -> tuple[Num, ...]:
    shape = getattr(given, "shape", None)
    if shape is None:
        raise _NotKnown
    return tuple(shape)


def _size(operand: Known, count: int) -> Any:
    shape = _shape(operand(0))
    return shape if count == 1 else shape[_index(operand(1))]


def _index(given: Any) -> int:
    if not isinstance(given, int):
        raise _NotKnown
    return given


def _list(operand: Known, count: int) -> tuple[Num, ...]:
    return tuple(_num(operand(index)) for index in range(count))


def _item(operand: Known, count: int) -> Any:
    return _tuple(operand(0))[_index(operand(1))]


def _tuple(given: Any) -> tuple[Any, ...]:
    if not isinstance(given, tuple):
        raise _NotKnown
    return given


def _slice(operand: Known, count: int) -> Any:
    start, end, step = (operand(index) for index in (1, 2, 3))
    return _tuple(operand(0))[slice(start, end, step)]


def _plus(operand: Known, count: int) -> Any:
    a, b = operand(0), operand(1)
    return a + b if isinstance(a, tuple) and isinstance(b, tuple) else _num(a) + _num(b)


def _divided(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    exact = quotient(a, b)
    if exact is not None:
        return exact
    if isinstance(a, int) and isinstance(b, int) and b:
        return a // b
    return Extent.of(f"{'' if is_at_least(a, 0) and is_at_least(b, 0) else '~'}({a})//({b})")


def _rest(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    if quotient(a, b) is not None:
        return 0
    return Extent.of(f"{'' if is_at_least(a, 0) and is_at_least(b, 0) else '~'}({a})%({b})")


def _smaller(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    if is_at_least(a, b) or is_at_least(b, a):
        return b if is_at_least(a, b) else a
    return Extent.of(f"{'' if is_at_least(a, 0) and is_at_least(b, 0) else '~'}min({a}, {b})")


def _larger(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    if is_at_least(a, b) or is_at_least(b, a):
        return a if is_at_least(a, b) else b
    return Extent.of(f"{'' if is_at_least(a, 0) or is_at_least(b, 0) else '~'}max({a}, {b})")


_RULES: Final[Mapping[str, Callable[[Known, int], Any]]] = {
    "aten::size": _size,
    "aten::sym_size": _size,
    "prim::shape": lambda operand, count: _shape(operand(0)),
    "aten::numel": lambda operand, count: product(_shape(operand(0))),
    "aten::sym_numel": lambda operand, count: product(_shape(operand(0))),
    "aten::dim": lambda operand, count: len(_shape(operand(0))),
    "prim::ListConstruct": _list,
    "aten::__getitem__": _item,
    "aten::slice": _slice,
    "aten::list": lambda operand, count: _tuple(operand(0)),
    "aten::add": _plus,
    "aten::sub": lambda operand, count: _num(operand(0)) - _num(operand(1)),
    "aten::mul": lambda operand, count: _num(operand(0)) * _num(operand(1)),
    "aten::neg": lambda operand, count: _num(operand(0)) * -1,
    "aten::floordiv": _divided,
    "aten::floor_divide": _divided,
    "aten::remainder": _rest,
    "prim::min": _smaller,
    "prim::max": _larger,
    "aten::Int": lambda operand, count: _num(operand(0)),
    "prim::NumToTensor": lambda operand, count: _num(operand(0)),
    "aten::ScalarImplicit": lambda operand, count: _num(operand(0)),
    "aten::IntImplicit": lambda operand, count: _num(operand(0)),
}


def is_whole_list(type: object) -> bool:
    """Whether a type is a list of integers."""
    return isinstance(type, ListType) and type.element == INT
