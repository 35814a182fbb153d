"""What somebody wants of the groups of a program, whatever the policy: ops apart, ops together, ops that no kernel looks into.

Wishes choose among legal merges, and never make one legal. A node goes by more than its id, because a pass may put another in
its place, and because the passes in front of a plan are run again when what is assumed of the inputs changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from irscope.ir import Graph, Node

__all__ = ["NOWHERE", "NO_WISHES", "PlacedWishes", "Sides", "Subject", "Wishes", "subject_of"]


class Subject(NamedTuple):
    """A node that a wish is about, as it was called where the wish was made."""

    node: Node
    name: str
    """What its first result was called."""

    def __str__(self) -> str:
        return f"%{self.name}" if self.name else self.node.op


def subject_of(graph: Graph, node: Node) -> Subject:
    """A node of a graph."""
    return Subject(node, graph.names[node.outputs[0]] if node.outputs else "")


Sides: TypeAlias = tuple[tuple[Subject, ...], ...]
"""Nodes that are to be apart from those of the other sides. Two large groups have few sides and very many pairs."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that is wanted of one program."""

    forbid: tuple[Sides, ...] = ()
    """Of each of these no node of one side may be in one kernel with a node of another."""
    force: tuple[tuple[Subject, ...], ...] = ()
    """Each of these is to be one kernel, before the policy decides the rest."""
    opaque: tuple[Subject, ...] = ()
    """What stays with the library."""
    kept: tuple[tuple[Subject, Subject], ...] = ()
    """Merges that are done first, as another fusion did them."""

    def __bool__(self) -> bool:
        return bool(self.forbid or self.force or self.opaque or self.kept)

    def subjects(self) -> Iterator[Subject]:
        """All nodes that are meant."""
        for several in (*chain.from_iterable(self.forbid), *self.force, *self.kept, self.opaque):
            yield from several


NO_WISHES = Wishes()


@dataclass(frozen=True, slots=True)
class PlacedWishes:
    """The same for the graph that is planned."""

    apart: Mapping[Node, Mapping[int, int]] = field(default_factory=dict)
    """Marks with sides: no two nodes of other sides of one mark may be in one kernel."""
    together: tuple[tuple[Node, ...], ...] = ()
    opaque: frozenset[Node] = frozenset()
    kept: tuple[tuple[Node, Node], ...] = ()
    gone: tuple[Subject, ...] = ()
    """What was to be in one kernel and is no node of the planned graph."""

    @staticmethod
    def of(wishes: Wishes, where: dict[Subject, Node]) -> PlacedWishes:
        """The wishes with the nodes that their subjects are now."""

        def there(several: Iterable[Subject]) -> tuple[Node, ...]:
            return tuple(dict.fromkeys(where[each] for each in several if each in where))

        apart: dict[Node, dict[int, int]] = {}
        for mark, sides in enumerate(wishes.forbid):
            for side, several in enumerate(sides):
                for node in there(several):
                    apart.setdefault(node, {})[mark] = side
        return PlacedWishes(
            apart=apart,
            together=tuple(found for several in wishes.force if len(found := there(several)) > 1),
            opaque=frozenset(there(wishes.opaque)),
            kept=tuple((where[a], where[b]) for a, b in wishes.kept if a in where and b in where),
            gone=tuple(each for several in wishes.force for each in several if each not in where),
        )


NOWHERE = PlacedWishes()
"""No wishes."""
