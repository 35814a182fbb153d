"""Each view op as steps: what `aten::flatten` or `aten::movedim` come to for a tensor of given extents.

Extents and numbers among the arguments may be `Extent`s; tensors among them stand for themselves by their `shape`, `dtype`
and `device`. What follows from no argument at hand gets a name of its own, the same for the same question. The table is torch's of
2.13, op by op: `tests/analysis/views/test_storages.py` runs each against storages.
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
"""The steps to each result; `FRESH` for memory of their own; None if that depends on what is not known."""

_RULES: Final[Rules] = {**axes.RULES, **regrouping.RULES, **parts.RULES, **formats.RULES}


def lower(
    op: str, shape: tuple[Num, ...], dtype: str | None, device: str | None, arguments: Mapping[str, Any]
) -> Lowered:
    """The steps of a view op on a tensor of this shape and type; None also for an op that is not in the table.

    `arguments` has what the op takes beside the tensor, by name, defaults included.

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
    """Whether the table has an op."""
    return op in _RULES


def could_be_steps(op: str, shape: tuple[Num, ...], arguments: Mapping[str, Any]) -> Steps | None:
    """The steps of a view that would do where torch makes a copy: a padding by nothing and by less.

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
