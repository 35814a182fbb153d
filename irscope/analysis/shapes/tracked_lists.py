"""Tracks the lists that a program creates as objects, and whether their contents are still known.

A write through a name that is known to be a certain list writes its one `KnownList`. A write through any other name may reach
every list of its type, so all of them are forgotten: each type has an epoch, and a list of an older epoch is not
current. Forgetting takes constant time, however many lists there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from irscope.analysis.shapes.lattice import Fact, KnownList
from irscope.ir import ListType, Node, OptionalType, Type, erase_refinements
from irscope.ops.typing import Unknown

__all__ = ["KnownLists"]


class KnownLists:
    """Creates lists, and knows which are current."""

    def __init__(self) -> None:
        self._epochs: dict[Type, int] = {}
        self._epoch = 0
        self._constants: dict[Node, KnownList] = {}

    def is_current(self, known: KnownList) -> bool:
        """Whether no untracked write can have reached the list."""
        return not known.is_lost and known.epoch == self._epoch_of(known.type)

    def _epoch_of(self, type: Type) -> int:
        return self._epoch + self._epochs.get(type, 0)

    def forget(self, types: frozenset[Type] | None) -> None:
        """Invalidate all lists of these types; None: all lists."""
        if types is None:
            self._epoch += 1
            return
        for type in types:
            self._epochs[type] = self._epochs.get(type, 0) + 1

    def make(self, items: Sequence[Fact], declared: Type) -> KnownList:
        """Create a list; tuples inside that represent lists become new lists."""
        inner = declared.element if isinstance(declared, OptionalType) else declared
        type = erase_refinements(inner)
        element = inner.element if isinstance(inner, ListType) else None
        if isinstance(element, ListType):
            items = [self.make(item, element) if isinstance(item, tuple) else item for item in items]
        return KnownList(items, type, self._epoch_of(type))

    def constant(self, node: Node, items: Sequence[Fact], declared: Type) -> KnownList:
        """The list of a constant: the same object at every read."""
        if node not in self._constants:
            self._constants[node] = self.make(items, declared)
        return self._constants[node]

    def trusted(self, fact: Fact, declared: Type) -> Fact:
        """A container in which lists that are not current are unknown; a current list stays the same object."""
        return self._trusted(fact, declared, {})

    def _trusted(self, fact: Fact, declared: Type, known: dict[int, Fact]) -> Fact:
        """`trusted` that visits each object once, however often it is held; unchanged objects stay the same objects."""
        if id(fact) not in known:
            known[id(fact)] = fact  # during its visit: a list may hold itself
            known[id(fact)] = self._without_lost(fact, declared, known)
        return known[id(fact)]

    def _without_lost(self, fact: Fact, declared: Type, known: dict[int, Fact]) -> Fact:
        if isinstance(fact, KnownList):
            if not self.is_current(fact):
                return Unknown(declared, "the list may have been written since it was made")
            for index, item in enumerate(() if fact.is_flat else fact):
                if isinstance(item, list | tuple):
                    fact[index] = self._trusted(item, _element(fact.type), known)
        elif isinstance(fact, tuple) and any(isinstance(item, list | tuple) for item in fact):
            parts = [
                self._trusted(item, item.type if isinstance(item, KnownList) else declared, known)
                if isinstance(item, list | tuple) else item
                for item in fact
            ]  # fmt: skip
            return fact if all(map(is_, parts, fact)) else tuple(parts)
        return fact

    def written(self, target: Fact, types: frozenset[Type] | None, *, applied: bool) -> None:
        """Record that a node wrote `target`, or any list of these types; `applied` if the list already has the change."""
        if types is not None and isinstance(target, KnownList):
            target.is_written = True
            target.is_lost = target.is_lost or not applied
        else:
            self.forget(types)


def _element(type: Type) -> Type:
    return type.element if isinstance(type, ListType) else type
