"""A fresh tensor, its names, and what is done to it: the facts that `alias_families` finds and `rewrite` uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from irscope.ir import Block, Node, Value
from irscope.ops.traits import INVERSES
from irscope.transforms.functionalize.pure_ops import Twin

__all__ = ["Escape", "Family", "Member", "Write", "viewed"]


@dataclass(eq=False, slots=True)
class Member:
    """One name of the memory, or several that are the same tensor."""

    family: Family
    value: Value
    parent: Member | None = None
    view: Node | None = None
    """The op that makes it of the parent."""
    depth: int = 0
    is_dense: bool = False
    """Whether its elements certainly lie without gaps and overlaps."""
    is_part: bool = False
    """Whether it is a part of the base, that is, whether some view on the way took less than all elements."""


@dataclass(eq=False, slots=True)
class Write:
    """An in-place op on a member that has a pure twin."""

    node: Node
    member: Member
    twin: Twin
    block: Block
    time: int

    @property
    def is_exact(self) -> bool:
        """Whether the twin by itself gives the shape and the strides of what is written."""
        if self.member.family.base_is_copy:
            return False
        return self.twin.keeps_strides or (self.member.is_dense and self.twin.keeps_dense_strides)


@dataclass(eq=False, slots=True)
class Escape:
    """A use after which there may be names that are not known."""

    member: Member
    node: Node | None
    """Who takes it; None for the result of a block."""
    block: Block
    time: int


@dataclass(eq=False, slots=True)
class Family:
    """A fresh tensor and what happens to it."""

    base: Value
    block: Block
    base_is_copy: bool = False
    """Whether the base may start later in its memory, as what it was copied of."""
    writes: list[Write] = field(default_factory=list)
    """Those that become pure."""
    captures: list[Escape] = field(default_factory=list)
    late: list[tuple[Escape, Write]] = field(default_factory=list)
    """Those that may run after a capture."""
    frozen_by: Escape | None = None
    """The capture before the place where the walk is."""


def viewed(parent: Member, node: Node) -> Member:
    """The member that a view of a member is."""
    takes_all = node.op in INVERSES
    return Member(
        parent.family,
        node.output,
        parent,
        node,
        parent.depth + 1,
        is_dense=parent.is_dense and takes_all,
        is_part=parent.is_part or not takes_all,
    )
