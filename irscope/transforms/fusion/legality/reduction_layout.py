"""Checks whether the reduced values of a group broadcast to the right positions in their users.

A group iterates over a space S and reduces along axes A. A reduced value has S's shape with the axes A at extent 1
(*kept*) or without them (*dropped*). Broadcasting aligns shapes at their last axes, so a kept value is aligned with S. A
dropped one is not in general: the sums of the rows of a square matrix, added to that matrix, align with its columns. So
dropped values are followed through their users until they are kept, by a view that puts axes of extent 1 back, or have
left the group; a user with the shape of S before that reads the wrong positions, unless A are the first axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from irscope.ir import Dim, Node, Value
from irscope.ops.registry import bind, op_of, schema_of
from irscope.ops.traits import KEEPS_ORDER
from irscope.transforms.fusion.legality.eligibility import Eligibility
from irscope.transforms.fusion.legality.iteration_space import Space, same_space

__all__ = ["is_aligned", "gathered_shapes"]


def gathered_shapes(space: Space, axes: Sequence[int]) -> tuple[Space, Space]:
    """Returns the shapes of a value reduced along these axes of a space: with the axes kept, and without them.

    >>> gathered_shapes((2, 3, 4), (1,)), gathered_shapes(None, (0,))
    (((2, 1, 4), (2, 4)), (None, None))
    """
    if space is None:
        return None, None
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(space))
    return kept, tuple(size for axis, size in enumerate(space) if axis not in axes)


class _Touch(Protocol):
    @property
    def shared(self) -> Sequence[Value]: ...

    @property
    def second(self) -> Iterable[Node]: ...


def is_aligned(meeting: _Touch, space: Space, axes: Sequence[int], rules: Eligibility) -> tuple[Node, Value] | None:
    """Returns the first user in the second group that reads a shared value at the wrong positions, and the value; None when
    all values are aligned. Linear in the second group, whose size is limited."""
    inside = set(meeting.second)
    follow = _Follow(space, axes, rules)
    stack = list(meeting.shared)
    seen = set(stack)
    while stack:
        value = stack.pop()
        for use in rules.graph.users.get(value, ()):
            if not isinstance(use.user, Node) or use.user not in inside:
                continue
            onward = follow.step(value, use.user)
            if onward is None:
                return use.user, value
            fresh = [result for result in onward if result not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return None


class _Follow:
    """Follows reduced values one step at a time, from a value to its user."""

    def __init__(self, space: Space, axes: Sequence[int], rules: Eligibility) -> None:
        self.space = space
        self.axes = axes
        self.kept, self.dropped = gathered_shapes(space, axes)
        self.in_front = tuple(axes) == tuple(range(len(axes)))
        self.rules = rules

    def step(self, value: Value, reader: Node) -> Sequence[Value] | None:
        """Returns the results that have to be followed further; None when the user reads the wrong positions."""
        shape, result = self._shape(value), self._shape(reader.outputs[0])
        if shape is None or result is None or self.space is None:
            return None
        if self.rules.axes(reader):
            return () if self._is_full(shape) else None
        if _reads_other_axis(reader, value):
            return None
        if self.rules.is_view(reader):
            return self._through_view(shape, result, reader)
        if self._is_kept(result):
            return reader.outputs if self._is_kept(shape) or (self._is_dropped(shape) and self.in_front) else None
        if self._is_full(result):
            meets = self._is_full(shape) or self._is_kept(shape) or (self._is_dropped(shape) and self.in_front)
            return () if meets else None
        return reader.outputs if self._is_dropped(shape) and self._is_dropped(result) else None

    def _through_view(self, shape: tuple[Dim, ...], result: tuple[Dim, ...], reader: Node) -> Sequence[Value] | None:
        if reader.op not in KEEPS_ORDER:
            return None
        if self._is_kept(result) or self._is_dropped(result):
            same = [dim for dim in shape if dim != 1] == [dim for dim in result if dim != 1]
            return reader.outputs if same else None
        stretched = self._is_kept(shape) or (self._is_dropped(shape) and self.in_front) or shape == result
        return () if self._is_full(result) and stretched else None

    def _shape(self, value: Value) -> tuple[Dim, ...] | None:
        found = self.rules.tensor_type(value)
        return None if found is None else found.shape

    def _is_kept(self, shape: tuple[Dim, ...]) -> bool:
        assert self.space is not None
        return same_space(shape, self.kept) and all(shape[axis] == 1 for axis in self.axes)

    def _is_dropped(self, shape: tuple[Dim, ...]) -> bool:
        return same_space(shape, self.dropped)

    def _is_full(self, shape: tuple[Dim, ...]) -> bool:
        return same_space(shape, self.space)


def _reads_other_axis(reader: Node, value: Value) -> bool:
    """Whether the user reads a value along an axis other than its last ones, as a batch norm reads its weight."""
    op, schema = op_of(reader), schema_of(reader)
    if op is None or schema is None or not op.operand_axes:
        return False
    arguments = bind(reader, schema)
    return any(arguments.get(name) is value for name in op.operand_axes)
