"""The operand and the arguments of one view op, with the accessors that the rules of this room use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from irscope.ops.typing import wrap_dim
from irscope.ops.view_steps.extents import Extent, Num
from irscope.ops.view_steps.steps import Step

__all__ = ["FRESH", "NotKnown", "Operand", "Rules", "Steps", "aten", "whole"]

Steps = tuple[Step, ...]
"""The steps from the operand to one result."""

FRESH: Final = "fresh"
"""Returned by a rule when the result has memory of its own."""

Rules = Mapping[str, Callable[["Operand"], Any]]
"""The rule of each op: returns the steps of its result, a list of steps for several results, or `FRESH`."""


class NotKnown(Exception):
    """Raised when the steps depend on something that is not known."""


class Operand:
    """The operand and the other arguments of one op."""

    __slots__ = ("device", "dtype", "given", "shape")

    def __init__(self, shape: tuple[Num, ...], dtype: str | None, device: str | None, given: Mapping[str, Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.given = given

    @property
    def rank(self) -> int:
        return len(self.shape)

    def axis(self, name: str, rank: int | None = None) -> int:
        return wrap_dim(self.whole(name), self.rank if rank is None else rank)

    def own_axis(self, name: str) -> int:
        """Return an axis that has an extent. Raises NotKnown for the nominal axis of a 0-d tensor, which a wrong type may have hidden."""
        found = self.axis(name)
        if found >= self.rank:
            raise NotKnown
        return found

    def whole(self, name: str) -> int:
        return whole(self.given[name])

    def positive(self, name: str) -> int:
        """Return a known positive number, as torch requires of divisors. Raises NotKnown otherwise."""
        found = self.whole(name)
        if found < 1:
            raise NotKnown
        return found

    def axes(self, name: str) -> tuple[int, ...]:
        given = self.given[name]
        return tuple(wrap_dim(whole(item), self.rank) for item in (given if isinstance(given, list | tuple) else [given]))

    def num(self, name: str) -> Num | None:
        """Return a number, or None if its value is not known."""
        given = self.given[name]
        return given if isinstance(given, int | Extent) else None

    def nums(self, name: str) -> tuple[Num, ...]:
        given = self.given[name]
        items = given if isinstance(given, list | tuple) else [given]
        if not all(isinstance(item, int | Extent) for item in items):
            raise NotKnown
        return tuple(items)

    def extent(self, axis: int) -> int:
        return whole(self.shape[axis])


def whole(given: Any) -> int:
    if not isinstance(given, int):
        raise NotKnown
    return int(given)


def aten(rules: Rules) -> Rules:
    """Return the rules under qualified `aten::` names; a key may list several names."""
    return {f"aten::{name}": rule for names, rule in rules.items() for name in names.split()}
