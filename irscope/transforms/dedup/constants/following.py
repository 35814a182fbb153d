"""Computes one constant from another that contains its elements: as a view of it, or as a copy made at each run.

The result has the bits and the layout of the constant, so that its users cannot distinguish it:

* A *part* of a contiguous constant is a view (a slice, a row, or a range of the elements in another shape). Only its address
  differs, and matrix-multiplication libraries may sum in another order where an operand has another offset from a multiple of
  64 bytes; so where an op that is not elementwise reads it, and its offset is not a multiple of 64 bytes, it is copied.
* A *transpose* is a view only where the constant is laid out column by column. Otherwise it is copied row by row: an operand with
  another layout gives results with another layout, and products that are summed in another order.
* A *cast* is a copy, and exact: every element of the other is a number of the type, or the type is the next narrower float, to
  which all libraries round alike (IEEE 754, to the nearest, ties to even). Float64 to half is excluded (torch rounds twice),
  and so are floats out of an integer type's range (undefined in C), and NaNs (their payload is not specified).

A view costs nothing. A copy costs its bytes at each run, which pays only where it saves at least `LEAST` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir import BOOL, INT, NONE, Graph, ListType, Node, Type, Value, make_node, make_value, new_id
from irscope.ops.registry import category_of
from irscope.ops.typing import DTYPE_CODES, contiguous_strides, is_contiguous
from irscope.transforms.dedup.constants.casts import converted
from irscope.transforms.dedup.constants.sharing import Sharing
from irscope.transforms.dedup.constants.stored import Stored

__all__ = ["LEAST", "Following", "following"]

LEAST: Final = 4096
"""The bytes that a copy at each run must save at least: one page."""
_ALIGNED: Final = 64
"""The alignment in bytes of torch's allocations, which libraries expect."""
_NARROWER: Final = frozenset({("float64", "float32"), ("float32", "float16"), ("float32", "bfloat16")})
_CODES: Final = {name: code for code, name in DTYPE_CODES.items()}

_Call = tuple[str, tuple[Any, ...], tuple[int, ...], str]
"""An op, its arguments after the first, and the shape and element type of its result."""


class Following(NamedTuple):
    """The ops that compute a constant from another, or why there are none."""

    calls: tuple[_Call, ...] = ()
    copied: int = 0
    """The bytes that each run writes."""
    rule: str = ""
    obstacle: str = ""

    def nodes(self, start: Value, type: Type, like: Node | None) -> Iterator[Node]:
        """Yields the nodes, the last of which has a result of `type`, with the location and scope of `like`."""
        place = (None, "") if like is None else (like.location, like.scope)

        def made(op: str, inputs: tuple[Value, ...], kind: Type, attrs: Any = EMPTY) -> Node:
            return make_node(new_id(), op, inputs, (make_value(new_id(), kind, ""),), attrs, (), *place)

        last = start
        for number, (op, arguments, shape, dtype) in enumerate(self.calls):
            operands = []
            for argument in arguments:
                attrs = EMPTY if argument is None else FrozenDict(value=int(argument) if isinstance(argument, bool) else argument)
                constant = made("prim::Constant", (), _type_of(argument), attrs)
                operands.append(constant.output)
                yield constant
            kind = type
            if number + 1 < len(self.calls):
                strides = (1, shape[1]) if op == "aten::t" else contiguous_strides(shape)
                kind = type.with_(dtype=dtype, shape=shape, strides=strides)  # type: ignore[attr-defined]  # a TensorType
            node = made(op, (last, *operands), kind)
            last = node.output
            yield node


def following(found: Sharing, graph: Graph) -> Following:
    """Returns how a constant of a graph is computed from the other; `found` is a `part`, `transposed` or a `cast`."""
    one, other = found.constant, found.other
    if one.is_trained or other.is_trained:
        return Following(rule="trained", obstacle="a training step may change one of them")
    if one.data.device != other.data.device:
        return Following(rule="another-type", obstacle="they are on different devices")
    if not _in_rows(one) and found.how != "transposed":
        return Following(rule="layout", obstacle="it is not contiguous, as the computed constant would be")
    how = {"cast": _cast, "transposed": _transposed}.get(found.how)
    made = _part(found, graph) if how is None else how(one, other)
    if made.copied and found.bytes_saved < LEAST:
        saved = f"{found.bytes_saved:,} bytes are less than a copy at each run is worth"
        return Following(rule="not-worth", obstacle=saved)
    return made


def _cast(one: Stored, other: Stored) -> Following:
    dtype, shape = one.data.dtype, one.data.shape
    if not _in_rows(other):
        return Following(rule="layout", obstacle="the other is not contiguous, as the computed constant would be")
    if not _is_exact(one, other):
        what = f"not every conversion of {other.data.dtype} to {dtype} gives these elements"
        return Following(rule="inexact-cast", obstacle=what)
    return Following((("aten::to", (_CODES[dtype], False, False, None), shape, dtype),), one.nbytes)


def _is_exact(one: Stored, other: Stored) -> bool:
    """Whether every library's conversion of the other gives these bits."""
    if _has_nans(other):
        return False
    if (other.data.dtype, one.data.dtype) in _NARROWER:
        return True
    return np.array_equal(converted(one, other.data.dtype), other.rows)


def _has_nans(one: Stored) -> bool:
    array = one.data.array
    assert array is not None
    if one.data.dtype == "bfloat16":
        return bool(((one.rows & np.uint16(0x7FFF)) > np.uint16(0x7F80)).any())
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _transposed(one: Stored, other: Stored) -> Following:
    dtype, shape = one.data.dtype, one.data.shape
    turn: _Call = ("aten::t", (), shape, dtype)
    if one.strides == other.strides[::-1]:
        return Following((turn,))
    if not _in_rows(one):
        return Following(rule="layout", obstacle="it is laid out neither row by row nor column by column")
    return Following((turn, ("aten::contiguous", (0,), shape, dtype)), one.nbytes)


def _part(found: Sharing, graph: Graph) -> Following:
    one, other, start = found.constant, found.other, found.offset
    if not _in_rows(other):
        return Following(rule="layout", obstacle="the other is not contiguous, so that no view has these elements")
    dtype, shape, whole = one.data.dtype, one.data.shape, other.data.shape
    row = prod(whole[1:])
    calls: tuple[_Call, ...]
    if shape == whole[1:] and start % row == 0:
        calls = (("aten::select", (0, start // row), shape, dtype),)
    elif shape[1:] == whole[1:] and len(shape) == len(whole) and start % row == 0:
        calls = (("aten::slice", (0, start // row, start // row + shape[0], 1), shape, dtype),)
    else:
        flat, count, end = prod(whole), prod(shape), start + prod(shape)
        calls = (("aten::slice", (0, start, end, 1), (count,), dtype),)
        if len(whole) != 1:
            calls = (("aten::reshape", ((flat,),), (flat,), dtype), *calls)
        if len(shape) != 1:
            calls = (*calls, ("aten::reshape", (shape,), shape, dtype))
    users = graph.users.get(one.where, ()) if isinstance(one.where, Value) else ()
    elementwise = all(isinstance(use.user, Node) and category_of(use.user) == "pointwise" for use in users)
    if elementwise or start * one.rows.itemsize % _ALIGNED == 0:
        return Following(calls)
    return Following((*calls, ("aten::clone", (None,), shape, dtype)), one.nbytes)


def _in_rows(one: Stored) -> bool:
    array = one.data.array
    assert array is not None
    return is_contiguous(array.shape, tuple(step // array.itemsize for step in array.strides))


def _type_of(argument: Any) -> Type:
    if argument is None:
        return NONE
    if isinstance(argument, tuple):
        return ListType(INT)
    return BOOL if isinstance(argument, bool) else INT
