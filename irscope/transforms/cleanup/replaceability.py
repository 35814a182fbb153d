"""Decides when one value may replace another: equal constants have one key, and fresh memory is shared only if unobservable."""

from __future__ import annotations

from typing import Any, Final, Literal

from irscope.analysis.alias.query import AliasDb
from irscope.ir import Node, Opaque, TensorData, Type, Value
from irscope.ir.text.constant_text import constant_text

__all__ = ["EscapeInfo", "attribute_key", "payload_key"]

_SMALL: Final = 1 << 20
"""Constant tensors of at most this many bytes are compared by content, larger ones by identity."""


class EscapeInfo:
    """Decides whether merging two values into one memory is observable: by writers, or by a caller who gets hold of both.

    The classes that can be reached from outputs, inputs and unseen code are found once; then each query is a look-up.
    A region (`AliasDb.region`) is larger than an alias set, so a value may be reported as seen although it is not.
    """

    def __init__(self, db: AliasDb) -> None:
        self._db = db
        points_to, reach = db.sealed, db.reach
        self._values = set(db.graph.outputs)
        """The outputs, and values merged with seen ones; some have no region, as they share memory with nothing."""
        element_of, class_of = points_to.element_of, points_to.class_of
        seen = {class_of[element_of[value]] for value in self._values if value in element_of} | set(points_to.outside)
        todo = list(seen)
        while todo:
            here = todo.pop()
            fresh = {*points_to.targets.get(here, ()), *reach.inside.get(here, ())} - seen
            seen |= fresh
            todo.extend(fresh)
        self._regions = {reach.region[place] for place in seen}

    def see(self, value: Value) -> bool:
        """Whether a caller, or code that is not in the graph, may get hold of the value."""
        return value in self._values or self._region(value) in self._regions

    def become_one(self, a: Value, b: Value) -> None:
        """Record that two values are one from now on: whoever sees one sees the other."""
        if self.see(a) or self.see(b):
            self._values.update((a, b))
            self._regions.update(region for region in (self._region(a), self._region(b)) if region is not None)

    def _region(self, value: Value) -> int | None:
        points_to = self._db.sealed
        element = points_to.element_of.get(value)
        return None if element is None else self._db.reach.region[points_to.class_of[element]]

    def obstacle(self, a: Value, b: Value, *, lasting: bool = False) -> Literal["", "written", "seen"]:
        """Returns what keeps two equal fresh values from becoming one; empty if nothing does. Of `lasting` values, the program's
        constants, neither may be seen: a caller who writes the one it got would change the other for the next call.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Tensor):
        ...   %a : Tensor = aten::neg(%x)
        ...   %b : Tensor = aten::neg(%x)
        ...   %c : Tensor = aten::neg(%x)
        ...   return (%a, %b)''')
        >>> onlookers = EscapeInfo(AliasDb(g))
        >>> onlookers.obstacle(g.value("a"), g.value("b")), onlookers.obstacle(g.value("a"), g.value("c"))
        ('seen', '')
        """
        if self._db.is_written(a) or self._db.is_written(b):
            return "written"
        seen = self.see(a), self.see(b)
        return "seen" if all(seen) or (lasting and any(seen)) else ""


def payload_key(payload: Any, type: Type) -> object:
    """A key that is equal for payloads of one constant; it distinguishes 1, 1.0 and True, and 0.0 and -0.0.

    >>> from irscope.ir.types import FLOAT, INT
    >>> payload_key(1, INT) == payload_key(1, FLOAT), payload_key(0.0, FLOAT) == payload_key(-0.0, FLOAT)
    (False, False)
    """
    if isinstance(payload, TensorData):
        small = payload.array is not None and payload.array.nbytes <= _SMALL
        return (type, payload if small else id(payload))
    if isinstance(payload, Opaque) or (isinstance(payload, tuple) and any(map(_is_deep, payload))):
        return (type, id(payload))
    return (type, constant_text(payload, type))


def _is_deep(payload: Any) -> bool:
    return isinstance(payload, TensorData | Opaque | tuple)


def attribute_key(node: Node) -> object:
    """A key that is equal for nodes with the same attributes."""
    if not node.attrs:
        return ()
    if node.op == "prim::Constant":
        return payload_key(node.attrs.get("value"), node.output.type)
    return tuple((name, _plain_key(value)) for name, value in sorted(node.attrs.items()))


def _plain_key(value: Any) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain_key, value))
    plain = value is None or isinstance(value, bool | int | float | complex | str)
    return (type(value), repr(value)) if plain else id(value)
