"""Lowers each view op to steps: what `aten::flatten` or `aten::movedim` do to a tensor of given extents.

Extents and numbers among the arguments may be `Extent`s; tensor arguments are represented by their `shape`, `dtype`
and `device`. A number that cannot be derived from the arguments gets a fresh name, the same for the same expression. The table
follows torch 2.13, op by op: `tests/analysis/views/test_storages.py` checks each against storages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.ops.view_steps import axes, formats, parts, regrouping
from irscope.ops.view_steps.extents import Num
from irscope.ops.view_steps.operand import FRESH, NotKnown, Operand, Rules, Steps
from irscope.ops.view_steps.steps import Cut, Step

__all__ = ["Lowered", "could_be_steps", "is_lowered", "lower"]

Lowered = tuple[Steps, ...] | str | None
"""The steps to each result; `FRESH` if the results have memory of their own; None if that depends on something unknown."""

_RULES: Final[Rules] = {**axes.RULES, **regrouping.RULES, **parts.RULES, **formats.RULES}


def lower(
    op: str, shape: tuple[Num, ...], dtype: str | None, device: str | None, arguments: Mapping[str, Any]
) -> Lowered:
    """Return the steps of a view op on a tensor of this shape and type; None also for an op that is not in the table.

    `arguments` has the op's other arguments by name, including defaults.

    >>> lower("aten::flatten", (2, 3, 4), "float32", None, {"start_dim": 1, "end_dim": -1})
    ((Regroup(shape=(2, 12), may_copy=True),),)
    >>> lower("aten::unbind", (2, 3), "float32", None, {"dim": 0})
    ((Pick(axis=0, place=0),), (Pick(axis=0, place=1),))
    """
    rule = _RULES.get(op)
    if rule is None:
        return None
    try:
        found = rule(Operand(shape, dtype, device, arguments))
    except (NotKnown, ArgumentError, KeyError):
        return None
    if found is FRESH or not isinstance(found, list):
        return found if found is FRESH else (found,)  # type: ignore[return-value]
    return tuple(found)


def is_lowered(op: str) -> bool:
    """Whether the table contains an op."""
    return op in _RULES


def could_be_steps(op: str, shape: tuple[Num, ...], arguments: Mapping[str, Any]) -> Steps | None:
    """Return the steps of a view that could replace a copy by torch: a padding whose margins are all zero or negative.

    >>> could_be_steps("aten::constant_pad_nd", (4, 6), {"pad": (-1, -2)})
    (Cut(axis=1, start=1, length=3, step=1),)
    """
    pad = arguments.get("pad")
    if op not in _PADS or arguments.get("mode", "constant") != "constant" or not isinstance(pad, list | tuple):
        return None
    if len(pad) % 2 or len(pad) > 2 * len(shape) or not all(isinstance(width, int) and width <= 0 for width in pad):
        return None
    steps: list[Step] = []
    for index in range(0, len(pad), 2):
        axis = len(shape) - 1 - index // 2
        if pad[index] or pad[index + 1]:
            steps.append(Cut(axis, -pad[index], shape[axis] + pad[index] + pad[index + 1]))
    return tuple(steps)


_PADS: Final = frozenset({"aten::constant_pad_nd", "aten::pad"})
