"""The placement of one tensor: its buffer and its layout in it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from irscope.ir import Value
from irscope.ops.view_steps import Layout, Outcome, Step

__all__ = ["Failure", "Kind", "Origin", "Placement"]

Kind = Literal["view", "copy", "input"]

Origin = Literal["made", "given", "open"]
"""made: a node of the graph allocates the buffer. given: it existed before the run. open: it may be any buffer, even a
different one each time."""


class Failure(NamedTuple):
    """The step of a view op that is not a view, or need not be one."""

    step: Step
    before: Layout
    outcome: Outcome


class Placement(NamedTuple):
    """The buffer and layout of a tensor: a value, or an item of a list, which has no name yet."""

    kind: Kind
    """`view` includes tensors in an unknown buffer; `copy` includes tensors that may be a view."""
    root: Value | None
    """The value that its offset counts from: an input, the result of the node that allocates the buffer, or else the first
    value whose buffer is not known. None for an item that would be its own root."""
    origin: Origin
    """The origin of the root's buffer."""
    layout: Layout | None
    """The layout; None if not even the number of axes is known."""
    source: Value | None = None
    """The operand that it is a view or a copy of; None if its elements are computed."""
    in_place: bool = False
    """Whether it is the operand itself, after a write."""
    is_decided: bool = True
    """Whether every run makes the same choice between view and copy."""
    failure: Failure | None = None
