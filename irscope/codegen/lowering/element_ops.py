"""The five kinds of steps that define an element of a value in a group by elements of other values.

A node becomes an expression of elements (`Compute`), a view of the same elements (`Seen`), several
tensors concatenated (`Joined`), a tensor with a range replaced by another (`Patched`), or the largest elements of
windows (`Pooled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from irscope.ir import Value
from irscope.ops.expr import REDUCTIONS, Expr

__all__ = ["Compute", "Joined", "Patched", "Pooled", "Seen", "Step", "Window", "leaves_of", "reductions_of"]


@dataclass(frozen=True, eq=False)
class Compute:
    """A step whose every element is an expression of elements of its operands."""

    position: int
    """The node's place in the block."""
    expr: Expr
    operands: tuple[tuple[int, Value, int | None], ...]
    """For each leaf of the expression: its index, its value, and the axis of the result that it is aligned with,
    or None for the last axes. Arguments that the expression does not read (`other` of a `type_as`) are missing."""
    axes: tuple[int, ...] = ()
    """The axes of `shape` that it reduces."""
    shape: tuple[int, ...] = ()
    """For an expression with reductions: the extents of the op's first operand."""
    positions: bool = False
    """Whether it uses the positions of elements, as argmax does."""

    @cached_property
    def reads(self) -> tuple[tuple[int, Value, int | None, bool], ...]:
        """The operands, each with whether it is read inside a reduction; an operand read both inside and outside occurs twice."""
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
    """A view of another value: an offset and a stride per dimension into its row-major order."""

    position: int
    operand: Value
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """Tensors concatenated along an axis; for `stack` along a new one, each with extent 1."""

    position: int
    parts: tuple[Value, ...]
    axis: int
    new_axis: bool


@dataclass(frozen=True, eq=False)
class Patched:
    """A tensor whose elements from `start` to before `stop` along an axis come from another tensor."""

    position: int
    whole: Value
    part: Value
    axis: int
    start: int
    stop: int
    without_axis: bool
    """Whether the part lacks the axis, as that of `select_scatter` does, which covers one index."""


@dataclass(frozen=True, slots=True)
class Window:
    """The indices along an axis of the elements of a window: `index * step - margin + n * gap` for each n below `size`."""

    size: int
    step: int
    margin: int
    gap: int


@dataclass(frozen=True, eq=False)
class Pooled:
    """The largest element of each window; indices outside the tensor are not part of the window."""

    position: int
    operand: Value
    windows: tuple[Window, ...]
    """One for each of the last axes."""


Step = Compute | Seen | Joined | Patched | Pooled


def _parts_of(expr: Expr) -> list[Expr]:
    """Return every subexpression once."""
    found, seen = [expr], {id(expr)}
    for here in found:
        for arg in here.args:
            if id(arg) not in seen:
                seen.add(id(arg))
                found.append(arg)
    return found


def leaves_of(expr: Expr) -> set[int]:
    """Return the indexes of the operands that an expression reads."""
    return {part.value for part in _parts_of(expr) if part.op in ("input", "scalar")}


def reductions_of(expr: Expr) -> set[str]:
    return {part.op for part in _parts_of(expr) if part.op in REDUCTIONS}
