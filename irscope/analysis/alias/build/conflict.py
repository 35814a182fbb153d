"""The kinds of conflict that keep two nodes in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from irscope.analysis.alias.build.mod_ref import Access
from irscope.ir import Node, Value

__all__ = ["Kind", "OrderConflict"]

Kind = Literal["data", "memory", "effect", "random"]
"""Data: one uses a result of the other. Memory: both access it, and one writes. Effect: both affect the world.
Random: both draw random numbers."""


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """The reason why a later node has to stay after an earlier one."""

    kind: Kind
    earlier: Node
    later: Node
    value: Value | None = None
    """Data: the result of the earlier node that the later one uses."""
    accesses: tuple[Access, Access] | None = None
    """Memory: the earlier access and the later one."""
