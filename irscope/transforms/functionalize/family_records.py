"""Records of a fresh tensor, its names, writes and captures: the facts that `alias_families` finds and `rewrite` uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from irscope.ir import Block, Node, Value
from irscope.ops.traits import INVERSES
from irscope.transforms.functionalize.pure_ops import Twin

__all__ = ["Escape", "Family", "Member", "Write", "viewed"]


@dataclass(eq=False, slots=True)
class Member:
    """One tensor in the memory of a family; several names may be the same tensor."""

    family: Family
    value: Value
    parent: Member | None = None
    view: Node | None = None
    """The op that takes it as a view of the parent."""
    depth: int = 0
    is_dense: bool = False
    """Whether its elements certainly have no gaps and no overlaps in memory."""
    is_part: bool = False
    """Whether it is only a part of the base, that is, whether a view on the way took fewer than all elements."""


@dataclass(eq=False, slots=True)
class Write:
    """An in-place op on a member, with its functional variant."""

    node: Node
    member: Member
    twin: Twin
    block: Block
    time: int

    @property
    def is_exact(self) -> bool:
        """Whether the functional variant's result has the shape and the strides of the written tensor without a copy."""
        if self.member.family.base_is_copy:
            return False
        return self.twin.keeps_strides or (self.member.is_dense and self.twin.keeps_dense_strides)


@dataclass(eq=False, slots=True)
class Escape:
    """A use of a member after which its family may have unknown names."""

    member: Member
    node: Node | None
    """The user; None for the result of a block."""
    block: Block
    time: int


@dataclass(eq=False, slots=True)
class Family:
    """A fresh tensor, with its writes and captures."""

    base: Value
    block: Block
    base_is_copy: bool = False
    """Whether the base is a copy, which may have a storage offset, as its source may."""
    writes: list[Write] = field(default_factory=list)
    """The writes that become functional."""
    captures: list[Escape] = field(default_factory=list)
    late: list[tuple[Escape, Write]] = field(default_factory=list)
    """The writes that may run after a capture, each with that capture."""
    frozen_by: Escape | None = None
    """The capture that precedes the present place of the walk."""


def viewed(parent: Member, node: Node) -> Member:
    """Returns the member for a view of a member."""
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
