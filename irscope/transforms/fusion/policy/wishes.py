"""A user's wishes about the groups of a program, whatever the policy: ops apart, ops together, ops left to the library.

Wishes choose among legal merges, and never make one legal. A node is identified by more than its id, because a pass may replace
it, and because the passes before a plan run again when the assumptions about the inputs change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from irscope.ir import Graph, Node

__all__ = ["NOWHERE", "NO_WISHES", "PlacedWishes", "Sides", "Subject", "Wishes", "subject_of"]


class Subject(NamedTuple):
    """A node that a wish is about, with its name in the graph of the wish."""

    node: Node
    name: str
    """The name of its first result."""

    def __str__(self) -> str:
        return f"%{self.name}" if self.name else self.node.op


def subject_of(graph: Graph, node: Node) -> Subject:
    """Returns the subject for a node of a graph."""
    return Subject(node, graph.names[node.outputs[0]] if node.outputs else "")


Sides: TypeAlias = tuple[tuple[Subject, ...], ...]
"""Sets of nodes, each to be kept apart from the others; two large groups are two sides, but very many pairs."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """All wishes about one program."""

    forbid: tuple[Sides, ...] = ()
    """In each entry, no node of one side may be in a kernel with a node of another."""
    force: tuple[tuple[Subject, ...], ...] = ()
    """The nodes of each entry are put into one kernel before the policy decides the rest."""
    opaque: tuple[Subject, ...] = ()
    """The nodes that stay with the library."""
    kept: tuple[tuple[Subject, Subject], ...] = ()
    """The merges that are done first, as another fusion did them."""

    def __bool__(self) -> bool:
        return bool(self.forbid or self.force or self.opaque or self.kept)

    def subjects(self) -> Iterator[Subject]:
        """All nodes that the wishes name."""
        for several in (*chain.from_iterable(self.forbid), *self.force, *self.kept, self.opaque):
            yield from several


NO_WISHES = Wishes()


@dataclass(frozen=True, slots=True)
class PlacedWishes:
    """Wishes resolved to nodes of the graph that is planned."""

    apart: Mapping[Node, Mapping[int, int]] = field(default_factory=dict)
    """For each node, its side of each mark: nodes on different sides of one mark may not be in one kernel."""
    together: tuple[tuple[Node, ...], ...] = ()
    opaque: frozenset[Node] = frozenset()
    kept: tuple[tuple[Node, Node], ...] = ()
    gone: tuple[Subject, ...] = ()
    """The nodes to force into one kernel that are not in the planned graph."""

    @staticmethod
    def of(wishes: Wishes, where: dict[Subject, Node]) -> PlacedWishes:
        """Returns the wishes with the current nodes of their subjects."""

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
