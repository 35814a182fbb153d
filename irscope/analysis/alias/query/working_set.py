"""A growing set of nodes that checks whether the next node can cross it.

Two accesses to one memory through tensors that have no byte in common do not conflict. So for each place the set records the
values through which it was accessed, up to a few; beyond that, an access to the place may have been to any of its bytes.
"""

from __future__ import annotations

from typing import Final

from irscope.analysis.alias.build import EVERYTHING, Access, Kind, ModRef, OrderConflict
from irscope.analysis.alias.points_to import Reachability
from irscope.analysis.alias.query.answers import Answers
from irscope.ir import Node, Value

__all__ = ["WorkingSet"]

_FEW: Final = 8
"""The number of values distinguished for each place."""
_Table = dict[int, dict[tuple[int, bool], dict[Value | None, tuple[Node, Access]]]]
"""Accesses by region, by place and whether only the shape is accessed, and by value; None means any bytes of the place."""


def _collide(reach: Reachability, read: Access, write: Access) -> bool:
    """Whether a write may change what a read observes. Few writes change shapes."""
    if read.shape and not write.shape:
        return False
    return EVERYTHING in (read.place, write.place) or reach.meet(read.place, write.place)


class WorkingSet:
    """A set of nodes that move together towards one end of their block."""

    def __init__(self, db: Answers, *, towards_end: bool) -> None:
        self._db = db
        self._towards_end = towards_end
        self.members: list[Node] = []
        self._values: dict[Value, Node] = {}
        """Moving to the end: the members' results. Moving to the start: the values that members use."""
        self._reads: _Table = {}
        self._writes: _Table = {}
        self._effect: Node | None = None
        self._random: Node | None = None

    def add(self, node: Node) -> None:
        """Add a node to the set."""
        accesses = self._db.accesses(node)
        self.members.append(node)
        for value in node.outputs if self._towards_end else accesses.uses:
            self._values.setdefault(value, node)
        for table, found in ((self._reads, accesses.reads), (self._writes, accesses.writes)):
            for access in found:
                kept = table.setdefault(self._db.region(access.place), {})
                parts = kept.setdefault((access.place, access.shape), {})
                parts.setdefault(access.value if len(parts) < _FEW else None, (node, access))
        self._effect = self._effect or (node if accesses.side_effect else None)
        self._random = self._random or (node if accesses.random else None)

    def obstacle(self, node: Node) -> OrderConflict | None:
        """The reason why the members cannot cross a node, or None."""
        accesses = self._db.accesses(node)
        for value in accesses.uses if self._towards_end else node.outputs:
            member = self._values.get(value)
            if member is not None:
                return self._between("data", member, node, value)
        found = self._memory(node, accesses)
        if found is not None:
            return found
        if self._effect is not None and accesses.side_effect is not None:
            return self._between("effect", self._effect, node)
        if self._random is not None and accesses.random is not None:
            return self._between("random", self._random, node)
        return None

    def _memory(self, node: Node, accesses: ModRef) -> OrderConflict | None:
        for table, found in ((self._reads, accesses.writes), (self._writes, accesses.reads)):
            for access in found:
                for region in (
                    (self._db.region(access.place), EVERYTHING) if access.place != EVERYTHING else tuple(table)
                ):
                    for parts in table.get(region, {}).values():
                        for part, (member, other) in parts.items():
                            read, write = (other, access) if table is self._reads else (access, other)
                            if _collide(self._db.reach, read, write) and not self._is_apart(part, access):
                                return self._between("memory", member, node, accesses=(other, access))
        return None

    def _is_apart(self, part: Value | None, access: Access) -> bool:
        """Whether an access and a value share no byte of a memory."""
        if part is None or access.value is None or access.place == EVERYTHING:
            return False
        return self._db.lie_apart(part, access.value)

    def _between(
        self,
        kind: Kind,
        member: Node,
        node: Node,
        value: Value | None = None,
        accesses: tuple[Access, Access] | None = None,
    ) -> OrderConflict:
        if self._towards_end:
            return OrderConflict(kind, member, node, value, accesses)
        return OrderConflict(kind, node, member, value, accesses and (accesses[1], accesses[0]))
