"""Frozen records that are cheap to create by the hundred thousand.

Construction of a frozen dataclass is slow: every field goes through `object.__setattr__`
(0.30 µs for three fields, 0.10 µs without `frozen`, CPython 3.11). `fast_constructor` creates the same record in
about 0.15 µs: it fills an instance of a private mutable class with the same slots, then changes its class.
"""

import dataclasses
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")


def fast_constructor(record: Callable[..., R]) -> Callable[..., R]:
    """A positional constructor of a frozen slotted dataclass, two to three times as fast as calling the class.

    All arguments must be given, in order; defaults are applied only to fields that are not arguments (`init=False`), and
    `__post_init__` is not called.

    >>> @dataclasses.dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int
    >>> fast_constructor(Point)(1, 2)
    Point(x=1, y=2)
    """
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    twin = type(f"_Mutable{record.__name__}", (), {"__slots__": tuple(field.name for field in fields)})
    arguments = ", ".join(field.name for field in fields if field.init)
    stores = "\n    ".join(f"r.{field.name} = {field.name}" for field in fields)
    text = f"def make({arguments}):\n    r = new(twin)\n    {stores}\n    r.__class__ = record\n    return r\n"
    defaults = {field.name: field.default for field in fields if not field.init}
    scope: dict[str, Any] = {**defaults, "new": object.__new__, "twin": twin, "record": record}
    exec(text, scope)  # the field names come from the dataclass, never from a user
    make: Callable[..., R] = scope["make"]
    return make


class FrozenDict(Mapping[K, V]):
    """An immutable mapping, hashable if its values are."""

    __slots__ = ("_items",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._items: dict[K, V] = dict(*args, **kwargs)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def get(self, key: K, default: Any = None) -> Any:
        return self._items.get(key, default)

    def keys(self) -> KeysView[K]:  # the dict's views are faster than those of Mapping
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        return self._items.items()

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({self._items!r})"


EMPTY: FrozenDict[str, Any] = FrozenDict()
"""The shared empty mapping; most nodes have no attributes."""
