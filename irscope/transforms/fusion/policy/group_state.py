"""The state of the groups of one block while they grow, as needed to decide about merges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from irscope.ir import Block, Node, Value
from irscope.transforms.fusion.legality import Domain, NodeProfiles
from irscope.transforms.grouping import Partition

__all__ = ["MAX_ARGUMENTS", "MAX_NODES", "Group", "GrowingGroups", "Limits", "Marks"]

MAX_ARGUMENTS: Final = 128
"""The most inputs and outputs of one kernel, as in PyTorch's fuser."""
MAX_NODES: Final = 512
"""The most nodes of one kernel: a chain of 2,000 took 2.5 s to compile as one kernel, and a tenth of that for each of four."""

Marks: TypeAlias = Mapping[int, tuple[int, Node]]
"""The side of a group for each mark, and a node that put it there: groups on different sides of one mark stay apart."""


@dataclass(slots=True, eq=False)
class Group:
    """The state of a group that decides about merging it."""

    domain: Domain
    inputs: dict[Value, int]
    """The values from outside that are not known numbers, and how often the group reads each."""
    values: list[Value]
    """The values that its nodes produce."""
    outputs: int
    """The number of its values that are read outside."""
    size: int = 1
    """The number of its nodes."""
    views: int = 0
    """The number of views among them, which alone do not make a kernel."""
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest size of one kernel."""

    arguments: int = MAX_ARGUMENTS
    """The most inputs and outputs together."""
    nodes: int = MAX_NODES
    """The most nodes; compile time grows faster than the kernel, so beyond some hundred nodes another kernel costs less."""


class GrowingGroups(Protocol):
    """The groups of a block as a candidate sees them: `BlockPlan`."""

    block: Block
    profiles: NodeProfiles
    limits: Limits
    partition: Partition

    @property
    def outside(self) -> Mapping[Value, int]:
        """For each value that fusible nodes produce, the number of its uses outside its group."""

    @property
    def groups(self) -> Sequence[Group]:
        """The group of a fusible node, at the position that `partition.find` returns for it."""

    def members(self, index: int) -> Iterable[Node]:
        """The nodes of the group of a node."""

    def shared(self, producer: int, consumer: int) -> list[Value]:
        """The values that the second node's group reads from the first's."""
