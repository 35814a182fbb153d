"""Lists, tuples and dictionaries: constructing, unpacking, reading and writing them.

The reference works on Python's own containers, by identity, so that a write through one name is visible through all. The
type rules are the same functions over lists of what is known about the elements; they apply where length and positions
are known.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

from irscope.ir import ANY
from irscope.ops.op import Effect, Op, define_positional, without_tensors
from irscope.ops.python.scalars import MOST_AHEAD, RESULT_SIZES, evaluated
from irscope.ops.type_rules import Abstract, Unknown, is_known


def tracked(function: Callable[..., Any], *positions: int) -> Callable[..., Abstract]:
    """Return the type rule that applies the op's function to what is known about the elements.

    The first operand must be a list or tuple of known length, and the operands at `positions` known.
    """

    def rule(*given: Abstract, **named: Abstract) -> Abstract:
        operands = (*given, *named.values())
        if not isinstance(operands[0], list | tuple) or not all(is_known(operands[p]) for p in positions if p < len(operands)):
            return Unknown(ANY)
        try:
            return function(*operands)
        except (IndexError, TypeError, ValueError):
            return Unknown(ANY)

    return rule


def _growing(function: Callable[..., Any]) -> Callable[..., Abstract]:
    """Return the rule of an op that appends a list, tracked up to some length: a list that is appended to itself doubles each time."""

    def rule(*given: Abstract, **named: Abstract) -> Abstract:
        a, b = (*given, *named.values())
        is_tracked = isinstance(a, list) and isinstance(b, list | tuple) and len(a) + len(b) <= MOST_AHEAD
        return function(a, b) if is_tracked else Unknown(ANY)

    return rule


def _grown(self: list[Any], other: Any) -> list[Any]:
    self.extend(other)
    return self


def _append(self: list[Any], element: Any) -> list[Any]:
    self.append(element)
    return self


def _set_item(self: Any, index: Any, element: Any) -> Any:
    self[index] = element
    return self


def _dict(*pairs: Any) -> dict[Any, Any]:
    if len(pairs) == 1:
        return dict(pairs[0])
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _unknown(*given: Abstract, **named: Abstract) -> Abstract:
    return Unknown(ANY)


_TRACKED: Final[dict[str, tuple[Callable[..., Any], tuple[int, ...]]]] = {
    "aten::append": (_append, ()),
    "aten::__getitem__": (operator.getitem, (1,)),
    "aten::_set_item": (_set_item, (1,)),
    "aten::pop": (lambda self, index=-1, *default: self.pop(index, *default), (1,)),
    "aten::insert": (list.insert, (1,)),
    "aten::slice": (lambda self, start=None, end=None, step=1: self[slice(start, end, step)], (1, 2, 3)),
    "aten::Delete": (operator.delitem, (1,)),
    "aten::clear": (lambda self: self.clear(), ()),
    "aten::reverse": (list.reverse, ()),
    "aten::copy": (lambda self: self.copy(), ()),
    "aten::list": (list, ()),
    "aten::len": (len, ()),
}
"""What is done to a container, and the operands that must be known to do the same to what is known of its elements."""

_EVALUATED: Final[dict[str, Callable[..., Any]]] = {
    "aten::sorted": sorted,
    "aten::__contains__": operator.contains,
    "aten::index": lambda self, element, *rest: self.index(element),
    "aten::count": lambda self, element, *rest: self.count(element),
    "prim::rangelist": lambda n: list(range(n)),
    "aten::sum": sum,
    "aten::any": any,
    "aten::all": all,
}
"""What is computed from a container whose elements are all known."""

_AT_RUN_TIME: Final[dict[str, Callable[..., Any]]] = {
    "aten::sort": lambda self, reverse=False: self.sort(reverse=reverse),
    "aten::remove": lambda self, element: self.remove(element),
    "aten::keys": list,
    "aten::values": lambda self: list(self.values()),
    "aten::items": lambda self: list(self.items()),
    "aten::get": lambda self, key, *default: self.get(key, *default),
    "aten::setdefault": lambda self, key, default: self.setdefault(key, default),
    "aten::update": lambda self, other: self.update(other),
    "aten::popitem": lambda self: self.popitem(),
    "aten::dict": _dict,
}
"""What nothing is known of before the run."""

_LIST_OPS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Abstract]]]] = {
    "aten::extend": (list.extend, _growing(list.extend)),
    "aten::add_": (_grown, _growing(_grown)),
    **{name: (function, tracked(function, *positions)) for name, (function, positions) in _TRACKED.items()},
    **{name: (function, evaluated(function, RESULT_SIZES.get(name))) for name, function in _EVALUATED.items()},
    **{name: (function, _unknown) for name, function in _AT_RUN_TIME.items()},
}


_VARIADIC: Final[tuple[tuple[str, Effect, Callable[..., Abstract], Callable[..., Any]], ...]] = (
    ("ListConstruct", "pure", lambda *items: list(items), lambda *items: list(items)),
    ("TupleConstruct", "pure", lambda *items: tuple(items), lambda *items: tuple(items)),
    ("DictConstruct", "pure", _unknown, _dict),
    ("ListUnpack", "view", tracked(tuple), tuple),
)

OPS = (
    *(
        define_positional(
            name, function, category="container", type_rule=rule, keep=lambda schema: bool(schema.arguments) and without_tensors(schema)
        )
        for name, (function, rule) in _LIST_OPS.items()
    ),
    *(
        Op(f"prim::{name}", (), "container", effect, rule, reference)  # of any operands in order, without a schema
        for name, effect, rule, reference in _VARIADIC
    ),
    *(
        define_positional(name, function, category="container", type_rule=tracked(function, *positions), keep=lambda schema: True)
        for name, function, *positions in (("prim::TupleIndex", operator.getitem, 1), ("prim::TupleUnpack", tuple))
    ),
)
