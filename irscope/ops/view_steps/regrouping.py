"""View ops that return all elements with other extents: regrouped, repeated, or reinterpreted as another type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.ops.typing import dtype_name
from irscope.ops.view_steps.extents import Extent, Num, product, quotient
from irscope.ops.view_steps.operand import NotKnown, Operand, Rules, Steps, aten
from irscope.ops.view_steps.steps import Dense, Expand, Insert, Regroup, Retyped, Step

__all__ = ["RULES"]


def _target(self: Operand, sizes: Sequence[Num], count: Num | None = None) -> tuple[Num, ...]:
    """Return the extents with -1 resolved."""
    if -1 not in sizes:
        return tuple(sizes)
    count = product(self.shape) if count is None else count
    given = product(size for size in sizes if size != -1)
    if isinstance(given, int) and isinstance(count, int):
        if not given or count % given:
            raise NotKnown
        rest: Num = count // given
    else:
        rest = _divided(count, given)
    return tuple(rest if size == -1 else size for size in sizes)


def _divided(count: Num, by: Num) -> Num:
    exact = quotient(count, by)
    return Extent.of(f"({count})/({by})") if exact is None else exact


def _view(self: Operand) -> Steps:
    if "dtype" in self.given:
        return _view_of_dtype(self)
    return (Regroup(_target(self, self.nums("size")), False),)


def _view_of_dtype(self: Operand) -> Steps:
    dtype = dtype_name(self.given["dtype"], None)
    if dtype is None or self.dtype is None:
        raise NotKnown
    return (Retyped(dtype),)


def _reshape(self: Operand) -> Steps:
    return (Regroup(_target(self, self.nums("shape")), True),)


def _like(name: str, may_copy: bool) -> Callable[[Operand], Steps]:
    return lambda self: (Regroup(_shape_of(self.given[name]), may_copy),)


def _shape_of(other: Any) -> tuple[Num, ...]:
    shape = getattr(other, "shape", None)
    if shape is None or not all(isinstance(dim, int | Extent) for dim in shape):
        raise NotKnown
    return tuple(shape)


def _flatten(self: Operand) -> Steps:
    if not self.rank:
        return (Regroup((1,), True),)
    first, last = self.axis("start_dim"), self.axis("end_dim")
    if first == last:
        return ()
    return (Regroup((*self.shape[:first], product(self.shape[first : last + 1]), *self.shape[last + 1 :]), True),)


def _collapsed(self: Operand) -> Steps:
    first, last = self.axis("start"), self.axis("end")
    return (Regroup((*self.shape[:first], product(self.shape[first : last + 1]), *self.shape[last + 1 :]), False),)


def _ravel(self: Operand) -> Steps:
    return (Dense(0), Regroup((product(self.shape),), False))


def _unflatten(self: Operand) -> Steps:
    axis = self.own_axis("dim")
    parts = _target(self, self.nums("sizes"), self.shape[axis])
    return (Regroup((*self.shape[:axis], *parts, *self.shape[axis + 1 :]), False),)


def _split_axis(self: Operand) -> Steps:
    axis, outer = self.own_axis("dim"), self.nums("outer_length")[0]
    parts = outer, _divided(self.shape[axis], outer)
    return (Regroup((*self.shape[:axis], *parts, *self.shape[axis + 1 :]), False),)


def _expand(self: Operand) -> Steps:
    return _expanded(self, self.nums("size"))


def _expanded(self: Operand, sizes: Sequence[Num]) -> Steps:
    new = len(sizes) - self.rank
    if new < 0:
        raise NotKnown
    old = (1,) * new + self.shape
    return (Expand(tuple(here if size == -1 else size for here, size in zip(old, sizes, strict=True))),)


def _expand_as(self: Operand) -> Steps:
    return _expanded(self, _shape_of(self.given["other"]))


def _broadcast_in_dim(self: Operand) -> Steps:
    shape, kept = self.nums("shape"), self.nums("broadcast_dimensions")
    inserted: list[Step] = [Insert(axis) for axis in range(len(shape)) if axis not in kept]
    return (*inserted, Expand(shape))


RULES: Final[Rules] = {
    **aten({
        "view _unsafe_view": _view,
        "reshape": _reshape,
        "view_as": _like("other", False),
        "reshape_as": _like("other", True),
        "flatten": _flatten,
        "ravel": _ravel,
        "unflatten": _unflatten,
        "expand broadcast_to": _expand,
        "expand_as": _expand_as,
    }),
    "prims::split_dim": _split_axis,
    "prims::collapse_view": _collapsed,
    "prims::broadcast_in_dim": _broadcast_in_dim,
    "prims::view_of_dtype": _view_of_dtype,
}
