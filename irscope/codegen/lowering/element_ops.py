"""How an element of a value in a group follows from others: five kinds of steps.

A node is understood as an expression of elements (`Compute`), other places of the same elements (`Seen`), several
tensors one behind the other (`Joined`), a tensor with a range of it taken from another (`Patched`), or the largest elements of
windows (`Pooled`).
"""

from __future__ import annotations

from dataclasses import dataclass

from irscope._base.concurrency.cached import cached_property
from irscope.ir import Value
from irscope.ops.expr import REDUCTIONS, Expr

__all__ = ["Compute", "Joined", "Patched", "Pooled", "Seen", "Step", "Window", "leaves_of", "reductions_of"]


@dataclass(frozen=True, eq=False)
class Compute:
    """One element is an expression of elements."""

    position: int
    """The node's place in the block."""
    expr: Expr
    operands: tuple[tuple[int, Value, int | None], ...]
    """What each leaf of the expression stands for: its index, its value, and the axis of the result along which it lies
    if not the last ones. Arguments that the expression does not look at (`other` of a `type_as`) are missing."""
    axes: tuple[int, ...] = ()
    """The axes of `shape` along which it gathers."""
    shape: tuple[int, ...] = ()
    """Of an expression that gathers: the extents of the op's first operand."""
    positions: bool = False
    """Whether it asks where an element stands."""

    @cached_property
    def reads(self) -> tuple[tuple[int, Value, int | None, bool], ...]:
        """The operands once more, with whether they are read inside a reduction; some are read outside as well."""
        found: set[tuple[int, bool]] = set()
        stack, seen = [(self.expr, False)], {(id(self.expr), False)}
        while stack:
            here, inside = stack.pop()
            if here.op in ("input", "scalar"):
                found.add((here.value, inside))
            for arg in () if here.op == "count" else here.args:
                key = (arg, inside or here.op in REDUCTIONS)
                if (id(arg), key[1]) not in seen:
                    seen.add((id(arg), key[1]))
                    stack.append(key)
        return tuple(
            (*operand, inside) for operand in self.operands for inside in (False, True) if (operand[0], inside) in found
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """Elements of another value, seen as if that lay row by row: from an offset on, with a stride per dimension."""

    position: int
    operand: Value
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """Tensors one behind the other along an axis; for `stack` along a new one, each with extent 1."""

    position: int
    parts: tuple[Value, ...]
    axis: int
    new_axis: bool


@dataclass(frozen=True, eq=False)
class Patched:
    """A tensor of which the elements from `start` to before `stop` along an axis are another's."""

    position: int
    whole: Value
    part: Value
    axis: int
    start: int
    stop: int
    without_axis: bool
    """Whether the part lacks the axis: that of `select_scatter`, one element along it."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which indices of an axis the elements of one window have: `index * step - margin + n * gap` for each n below `size`."""

    size: int
    step: int
    margin: int
    gap: int


@dataclass(frozen=True, eq=False)
class Pooled:
    """The largest element of a window, of which what lies behind the borders of the tensor is no part."""

    position: int
    operand: Value
    windows: tuple[Window, ...]
    """Of the last axes."""


Step = Compute | Seen | Joined | Patched | Pooled


def _parts_of(expr: Expr) -> list[Expr]:
    """Every part of an expression once."""
    found, seen = [expr], {id(expr)}
    for here in found:
        for arg in here.args:
            if id(arg) not in seen:
                seen.add(id(arg))
                found.append(arg)
    return found


def leaves_of(expr: Expr) -> set[int]:
    """The indexes of the operands that an expression reads."""
    return {part.value for part in _parts_of(expr) if part.op in ("input", "scalar")}


def reductions_of(expr: Expr) -> set[str]:
    return {part.op for part in _parts_of(expr) if part.op in REDUCTIONS}
