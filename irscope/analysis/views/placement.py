"""What is known of where one tensor lies."""

from __future__ import annotations

from typing import Literal, NamedTuple

from irscope.analysis.views.layout import Layout
from irscope.analysis.views.strided_steps import Outcome
from irscope.ir import Value
from irscope.ops.view_steps import Step

__all__ = ["Failure", "Kind", "Origin", "Placement"]

Kind = Literal["view", "copy", "input"]

Origin = Literal["made", "given", "open"]
"""made: a node of the graph allocates the buffer. given: it was there before the run. open: it may be any, also another
one each time."""


class Failure(NamedTuple):
    """The step of a view op that could not be one, or need not be."""

    step: Step
    before: Layout
    outcome: Outcome


class Placement(NamedTuple):
    """Where a tensor lies: a value, or an item of a list, which has no name yet."""

    kind: Kind
    """`view` also of what lies in a buffer of which nobody knows which it is; `copy` also of what may be a view."""
    root: Value | None
    """The value that its offset counts from: an input, the result of the node that allocates the buffer, or else the first
    value of which it is not known where it lies. None of an item that would be its own root."""
    origin: Origin
    """Of the root's buffer."""
    layout: Layout | None
    """None where not even the number of axes is known."""
    source: Value | None = None
    """The operand that it is a view of, or a copy, or either; None of what is computed."""
    in_place: bool = False
    """Whether it is the operand itself, after a write."""
    is_decided: bool = True
    """Whether every run makes the same choice between view and copy."""
    failure: Failure | None = None
