"""Detects assertions of torch.export that contradict what torch does.

If the extent of a result depends on elements, torch.export asserts the bounds that it assumed. For `masked_select` it
assumes at most as many elements as the first operand has; but the operand and the mask are broadcast first, so that a
mask with more elements can select more. torch itself runs the call; only the exported program stops.
"""

from __future__ import annotations

import math
import operator
from typing import Any

__all__ = ["is_wrong_bound"]


def is_wrong_bound(node: Any) -> bool:
    """Checks whether an FX node limits a `masked_select` to the number of elements that its operand has before
    broadcasting."""
    if _op(node) != "aten::_assert_scalar" or getattr(node.args[0], "target", None) is not operator.le:
        return False
    extent, bound = node.args[0].args
    if _op(extent) != "aten::sym_size" or _op(extent.args[0]) != "aten::masked_select":
        return False
    shapes = [tuple(operand.meta["val"].shape) for operand in extent.args[0].args[:2]]
    if not all(type(size) is int for shape in (*shapes, (bound,)) for size in shape):
        return False
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return bool(bound == math.prod(shapes[0]) < math.prod(b if a == 1 else a for a, b in columns))


def _op(node: Any) -> str:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return schema.name if schema is not None else ""
