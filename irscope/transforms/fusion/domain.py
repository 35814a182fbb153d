"""Over which points a group iterates, and which groups may do so together.

The plan knows who reads what and what a merge would close; this file alone knows shapes. `Domains.join` answers for two
groups that are about to become one: the domain of the merged group, or why there is none. It looks at the two domains
and at how the groups meet, and keeps nothing.

Pointwise groups: all results of a launch have one shape. The domain of a group is the shape of what leaves it, so a group
of another shape may join its reader only if nothing of it leaves: its values are then computed, broadcast, at the
reader's points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from irscope.ir.core import Node, Value
from irscope.ir.types import Dim
from irscope.transforms.fusion.rules import Refusal, Rules

__all__ = ["Domain", "Domains", "Meeting", "Space", "same_space", "told_space"]

Space = tuple[Dim, ...] | None
"""The points over which a node iterates: its result's shape; None when the rank is unknown."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What every group has and joins: where it runs, and over which points."""

    space: Space
    device: str | None = None
    """Where it runs, if that is known."""
    kind: str = "pointwise"
    """What people call such a group."""

    @property
    def is_known(self) -> bool:
        """Whether the number of points is known, so that two domains can be proved the same."""
        return self.space is not None and None not in self.space

    def __str__(self) -> str:
        return told_space(self.space)


class Meeting(Protocol):
    """How two groups touch that might become one. The first makes something that the second reads, or they are siblings."""

    @property
    def nodes(self) -> tuple[Node, Node]:
        """The two nodes, one of each group, that the question is about."""

    @property
    def shared(self) -> Sequence[Value]:
        """What the second group reads of the first; empty for siblings."""

    @property
    def first(self) -> Iterable[Node]:
        """The nodes of the first group."""

    @property
    def second(self) -> Iterable[Node]:
        """The nodes of the second group."""

    def leaves(self) -> bool:
        """Whether something of the first group would still be read outside both."""

    def kept(self) -> Value | None:
        """One of the shared values that would still be read outside both."""


class Domains:
    """The domains of the nodes of one graph; equal ones are the same object."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._known: dict[Domain, Domain] = {}

    def of(self, node: Node) -> Domain:
        """The domain of a group of this one node, which must be fit for a group."""
        found = self._rules.tensor_type(node.outputs[0])
        domain = Domain(found.shape, found.device) if found is not None else Domain(None)
        return self._known.setdefault(domain, domain)

    def join(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """The domain of both groups together, or why they cannot be one kernel."""
        if first is second and (meeting.shared or first.is_known):
            return first
        if first.device is not None and second.device is not None and first.device != second.device:
            return Refusal("device", f"one is on {first.device} and the other on {second.device}", meeting.nodes)
        if not meeting.shared and not (first.is_known and first.space == second.space):
            return self._apart(first, second, meeting)
        if not same_space(first.space, second.space) and meeting.leaves():
            return self._apart(first, second, meeting)
        joined = Domain(second.space, second.device or first.device)
        return self._known.setdefault(joined, joined)

    def _apart(self, first: Domain, second: Domain, meeting: Meeting) -> Refusal:
        differ = "may differ" if same_space(first.space, second.space) else "differ"
        spaces = f"the iteration spaces {differ}, {first} and {second}"
        if not meeting.shared:
            return Refusal("iteration-space", f"{spaces}, and neither group reads from the other", meeting.nodes)
        kept, name = meeting.kept(), self._rules.name
        what = name(kept) if kept else f"another result of the group that makes {name(meeting.shared[0])}"
        because = f"{spaces}, and {what} is needed outside too"
        return Refusal("iteration-space", because, (kept or meeting.shared[0], *meeting.nodes))


def same_space(a: Space, b: Space) -> bool:
    """Whether two iteration spaces are, or as far as is known may be, the same.

    >>> same_space((2, 3), (2, 3)), same_space((2, None), (2, 3)), same_space(None, (2,)), same_space((2, 1), (2, 3))
    (True, True, True, False)
    """
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(a, b, strict=True)
    )


def told_space(space: Space) -> str:
    """An iteration space as text.

    >>> told_space((2, None)), told_space(None)
    ('(2, *)', 'of unknown rank')
    """
    return (
        "of unknown rank" if space is None else "(" + ", ".join("*" if dim is None else str(dim) for dim in space) + ")"
    )
