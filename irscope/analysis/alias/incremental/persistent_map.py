"""Persistent maps: a large table that never changes, under small layers of the changes since.

Each step of a history has its own tables, which share all but the newest changes with those of the step before; to go
back, keep the old ones. Changes are kept in layers of decreasing size, and small layers are merged as they accumulate, so
a table that went through n changes has fewer than log2(n) layers, and each change is copied a few times as often.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final[Any] = object()


class Layers(Mapping[K, V]):
    """A mapping under layers of changes.

    >>> old = Layers({"a": 1, "b": 2})
    >>> new = old.changed({"b": 3, "c": 4}, removed=["a"])
    >>> dict(old), dict(new), "a" in new
    ({'a': 1, 'b': 2}, {'b': 3, 'c': 4}, False)
    """

    __slots__ = ("_base", "_deltas")

    def __init__(self, base: Mapping[K, V], deltas: tuple[dict[K, V], ...] = ()) -> None:
        self._base = base
        self._deltas = deltas
        """Newest first."""

    def changed(self, changes: dict[K, V], removed: Sequence[K] = ()) -> Layers[K, V]:
        """The next table; this one stays as it is."""
        if not changes and not removed:
            return self
        newest = changes
        if removed:
            newest = {**changes, **dict.fromkeys(removed, _GONE)}
        older = self._deltas
        while older and len(older[0]) <= 4 * len(newest):
            newest = {**older[0], **newest}
            older = older[1:]
        return Layers(self._base, (newest, *older))

    def changes(self) -> dict[K, V]:
        """The entries that differ from the base table, without the removed ones."""
        return {key: value for key, value in self._joined().items() if value is not _GONE}

    def changed_keys(self) -> dict[K, V]:
        """All changed keys, including the removed ones."""
        return self._joined()

    def _joined(self) -> dict[K, V]:
        joined: dict[K, V] = {}
        for delta in reversed(self._deltas):
            joined.update(delta)
        return joined

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V, /) -> V: ...
    @overload
    def get(self, key: K, default: Any, /) -> Any: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        for delta in self._deltas:
            found = delta.get(key, self)
            if found is not self:
                return default if found is _GONE else found
        return self._base.get(key, default)

    def __getitem__(self, key: K) -> V:
        found = self.get(key, _GONE)
        if found is _GONE:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        for delta in self._deltas:
            found = delta.get(key, self)  # type: ignore[arg-type]
            if found is not self:
                return found is not _GONE
        return key in self._base

    def __iter__(self) -> Iterator[K]:
        joined = self._joined()
        yield from (key for key in self._base if key not in joined)
        yield from (key for key, value in joined.items() if value is not _GONE)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Members(Container[K]):
    """A set with additions."""

    __slots__ = ("_added", "_base")

    def __init__(self, base: Container[K], added: Layers[K, None]) -> None:
        self._base = base
        self._added = added

    def extended(self, added: dict[K, None]) -> Members[K]:
        """The next set; this one stays as it is."""
        return Members(self._base, self._added.changed(added)) if added else self

    def __contains__(self, key: object) -> bool:
        return key in self._added or key in self._base


class Draft(dict[K, V]):
    """Changes to a mapping during an update: reads see both, writes go to the changes, which are its own items."""

    __slots__ = ("_base",)

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base

    def get(self, key: K, default: Any = None, /) -> Any:
        found = dict.get(self, key, _GONE)
        return self._base.get(key, default) if found is _GONE else found

    def __missing__(self, key: K) -> V:
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self._base


class DraftList(list[V]):
    """Additions to a sequence during an update: indexes and the length are those of the whole."""

    __slots__ = ("_base", "_count")

    def __init__(self, base: Sequence[V]) -> None:
        self._base = base
        self._count = len(base)

    def __len__(self) -> int:
        return self._count + list.__len__(self)

    def __getitem__(self, index: Any) -> Any:
        return self._base[index] if index < self._count else list.__getitem__(self, index - self._count)

    def added(self) -> dict[int, V]:
        """The additions, by their index in the whole."""
        return dict(enumerate(iter(self), self._count))
