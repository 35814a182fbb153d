"""What decides about merging groups of one block, while they grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from irscope.ir import Block, Node, Value
from irscope.transforms.fusion.legality import Domain, NodeProfiles
from irscope.transforms.grouping import Partition

__all__ = ["Group", "GrowingGroups", "Limits", "Marks"]


Marks: TypeAlias = Mapping[int, tuple[int, Node]]
"""On which side of each mark a group is, and a node that put it there: groups of other sides of one mark stay apart."""


@dataclass(slots=True, eq=False)
class Group:
    """What decides about merging a group."""

    domain: Domain
    inputs: dict[Value, int]
    """Values from outside that are not known numbers, and how often the group reads each."""
    values: list[Value]
    """What its nodes make."""
    outputs: int
    """How many of its values are read outside."""
    size: int = 1
    """How many nodes it has."""
    views: int = 0
    """How many of them are views, which alone make no kernel."""
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one kernel may be."""

    arguments: int
    """Inputs and outputs together."""
    nodes: int
    """A compiler's time grows faster than its kernel; beyond some hundred nodes another kernel costs less than it saves."""


class GrowingGroups(Protocol):
    """The groups of a block as a candidate sees them: `BlockPlan`."""

    block: Block
    fitness: NodeProfiles
    limits: Limits
    partition: Partition

    @property
    def outside(self) -> Mapping[Value, int]:
        """For each value that fusible nodes make, how many of its uses lie outside its group."""

    @property
    def groups(self) -> Sequence[Group]:
        """At the position that `partition.find` gives for a fusible node, its group."""

    def members(self, index: int) -> Iterable[Node]:
        """The nodes of the group of a node."""

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's."""
