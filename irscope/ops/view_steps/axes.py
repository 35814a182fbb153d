"""View ops that return the same tensor with other axes: permuted, dropped, inserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from irscope.ops.typing import wrap_dim
from irscope.ops.view_steps.extents import Num, is_at_least
from irscope.ops.view_steps.operand import NotKnown, Operand, Rules, Steps, aten
from irscope.ops.view_steps.steps import Drop, Insert, Permute

__all__ = ["RULES", "same_if_real"]


def _same(self: Operand) -> Steps:
    return ()


def same_if_real(self: Operand) -> Steps:
    """Return no steps (the tensor itself), unless it may be marked as a conjugate."""
    if self.dtype is None or self.dtype.startswith("complex"):
        raise NotKnown
    return ()


def _permute(self: Operand) -> Steps:
    axes = self.axes("permutation" if "permutation" in self.given else "dims")
    if sorted(axes) != list(range(self.rank)):
        raise NotKnown
    return (Permute(axes),)


def _exchanged(self: Operand, a: int, b: int) -> Steps:
    if not self.rank:
        return ()
    axes = list(range(self.rank))
    axes[a], axes[b] = axes[b], axes[a]
    return (Permute(tuple(axes)),)


def _transpose(self: Operand) -> Steps:
    return _exchanged(self, self.axis("dim0"), self.axis("dim1"))


def _swapaxes(self: Operand) -> Steps:
    return _exchanged(self, self.axis("axis0"), self.axis("axis1"))


def _reversed(self: Operand) -> Steps:
    return (Permute(tuple(range(self.rank))[::-1]),)


def _matrix(self: Operand) -> Steps:
    return _exchanged(self, wrap_dim(-2, self.rank), wrap_dim(-1, self.rank)) if self.rank else ()


def _movedim(self: Operand) -> Steps:
    if not self.rank:  # a 0-d tensor has one nominal axis, and stays as it is
        return (Permute(()),)
    sources, targets = self.axes("source"), self.axes("destination")
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise NotKnown
    axes = [axis for axis in range(self.rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        axes.insert(target, source)
    return (Permute(tuple(axes)),)


def _is_one(extent: Num) -> bool:
    if isinstance(extent, int):
        return extent == 1
    if is_at_least(extent, 2):
        return False
    raise NotKnown


def _squeeze(self: Operand) -> Steps:
    given = self.given.get("dim", self.given.get("dimensions"))
    if given is None:
        axes = tuple(range(self.rank))
    else:
        axes = self.axes("dim" if "dim" in self.given else "dimensions") if self.rank else ()
    return (Drop(tuple(sorted({axis for axis in axes if _is_one(self.shape[axis])}))),)


def _unsqueeze(self: Operand) -> Steps:
    return (Insert(self.axis("dim", self.rank + 1)),)


def _atleast(rank: int) -> Callable[[Operand], Steps]:
    places = {(1, 0): (0,), (2, 0): (0, 1), (2, 1): (0,), (3, 0): (0, 1, 2), (3, 1): (0, 2), (3, 2): (2,)}
    return lambda self: tuple(Insert(axis) for axis in places.get((rank, self.rank), ()))


RULES: Final[Rules] = {
    **aten({
        "alias data detach lift lift_fresh positive _conj conj _neg_view": _same,
        "detach_": _same,
        "resolve_conj resolve_neg conj_physical": same_if_real,
        "permute": _permute,
        "transpose swapdims": _transpose,
        "swapaxes": _swapaxes,
        "t numpy_T matrix_H": _reversed,
        "mT mH adjoint": _matrix,
        "movedim moveaxis": _movedim,
        "squeeze": _squeeze,
        "unsqueeze": _unsqueeze,
        "atleast_1d": _atleast(1), "atleast_2d": _atleast(2), "atleast_3d": _atleast(3),
    }),
    "prim::data": _same,
    "prims::view_of": _same,
    "prims::conj": _same,
    "prims::transpose": _permute,
    "prims::squeeze": _squeeze,
}  # fmt: skip
