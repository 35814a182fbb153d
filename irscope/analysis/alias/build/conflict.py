"""What keeps two nodes in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from irscope.analysis.alias.build.mod_ref import Access
from irscope.ir import Node, Value

__all__ = ["Kind", "OrderConflict"]

Kind = Literal["data", "memory", "effect", "random"]
"""Data: one uses what the other makes. Memory: both get at it, and one writes. Effect: both do something to the
world. Random: both draw."""


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """Why a later node has to stay behind an earlier one."""

    kind: Kind
    earlier: Node
    later: Node
    value: Value | None = None
    """Data: what the earlier node makes and the later one uses."""
    accesses: tuple[Access, Access] | None = None
    """Memory: the earlier access and the later one."""
