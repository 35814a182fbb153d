"""Lists, tuples and dictionaries: constructing, unpacking, reading and writing them.

The reference works on Python's own containers, by identity, so that a write through one name is visible through all. The
type rules are the same functions over lists of what is known about the elements; they apply where length and positions
are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.ir import ANY, OpSchema
from irscope.ops.op import Category, Effect, Op, define_positional, without_tensors
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
        except (IndexError, TypeError, ValueError) as error:
            return Unknown(ANY, f"it fails: {error}")

    return rule


def _extend(self: list[Any], other: Sequence[Any]) -> None:
    self.extend(other)


def _extend_rule(*given: Abstract, **named: Abstract) -> Abstract:
    a, b = (*given, *named.values())
    return a.extend(b) if _may_grow(a, b) else Unknown(ANY)


def _add_in_place(self: list[Any], other: Sequence[Any]) -> list[Any]:
    self.extend(other)
    return self


def _add_in_place_rule(*given: Abstract, **named: Abstract) -> Abstract:
    a, b = (*given, *named.values())
    return _add_in_place(a, b) if _may_grow(a, b) else Unknown(ANY)


def _may_grow(a: Abstract, b: Abstract) -> bool:
    """Whether a list is still tracked when another is appended to it: one that is appended to itself doubles each time."""
    return isinstance(a, list) and isinstance(b, list | tuple) and len(a) + len(b) <= MOST_AHEAD


def _append(self: list[Any], element: Any) -> list[Any]:
    self.append(element)
    return self


def _set_item(self: Any, index: Any, element: Any) -> Any:
    self[index] = element
    return self


def _get_item(self: Any, index: Any) -> Any:
    return self[index]


def _cut(self: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return self[slice(start, end, step)]


def _delete(self: Any, index: Any) -> None:
    del self[index]


def _pop(self: Any, index: Any = -1, *default: Any) -> Any:
    return self.pop(index, *default)


def _insert(self: list[Any], index: int, element: Any) -> None:
    self.insert(index, element)


def _copy(self: Any) -> Any:
    return self.copy()


def _contains(self: Any, item: Any) -> bool:
    return item in self


def _list(self: Any) -> list[Any]:
    return list(self)


def _reverse(self: list[Any]) -> None:
    self.reverse()


def _clear(self: Any) -> None:
    self.clear()


def _sort(self: list[Any], reverse: bool = False) -> None:
    self.sort(reverse=reverse)


def _dict(*pairs: Any) -> dict[Any, Any]:
    if len(pairs) == 1:
        return dict(pairs[0])
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _unknown(*given: Abstract, **named: Abstract) -> Abstract:
    return Unknown(ANY)


def _any(schema: OpSchema) -> bool:
    return True


def _first_list(schema: OpSchema) -> bool:
    """Whether an overload is one over containers; those over one tensor or string are defined elsewhere."""
    return bool(schema.arguments) and without_tensors(schema)


_LIST_OPS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Abstract]]]] = {
    "aten::append": (_append, tracked(_append)),
    "aten::__getitem__": (_get_item, tracked(_get_item, 1)),
    "aten::_set_item": (_set_item, tracked(_set_item, 1)),
    "aten::pop": (_pop, tracked(_pop, 1)),
    "aten::insert": (_insert, tracked(_insert, 1)),
    "aten::extend": (_extend, _extend_rule),
    "aten::add_": (_add_in_place, _add_in_place_rule),
    "aten::slice": (_cut, tracked(_cut, 1, 2, 3)),
    "aten::Delete": (_delete, tracked(_delete, 1)),
    "aten::clear": (_clear, tracked(_clear)),
    "aten::reverse": (_reverse, tracked(_reverse)),
    "aten::copy": (_copy, tracked(_copy)),
    "aten::list": (_list, tracked(_list)),
    "aten::len": (len, tracked(len)),
    "aten::sort": (_sort, _unknown),
    "aten::sorted": (sorted, evaluated(sorted)),
    "aten::__contains__": (_contains, evaluated(_contains)),
    "aten::remove": (lambda self, element: self.remove(element), _unknown),
    "aten::index": (lambda self, element, *rest: self.index(element), evaluated(lambda self, element, *rest: self.index(element))),
    "aten::count": (lambda self, element, *rest: self.count(element), evaluated(lambda self, element, *rest: self.count(element))),
    "aten::keys": (lambda self: list(self), _unknown),
    "aten::values": (lambda self: list(self.values()), _unknown),
    "aten::items": (lambda self: list(self.items()), _unknown),
    "aten::get": (lambda self, key, *default: self.get(key, *default), _unknown),
    "aten::setdefault": (lambda self, key, default: self.setdefault(key, default), _unknown),
    "aten::update": (lambda self, other: self.update(other), _unknown),
    "aten::popitem": (lambda self: self.popitem(), _unknown),
    "aten::dict": (_dict, _unknown),
    "prim::rangelist": (lambda n: list(range(n)), evaluated(lambda n: list(range(n)), RESULT_SIZES["prim::rangelist"])),
    "aten::sum": (sum, evaluated(sum)),
    "aten::any": (any, evaluated(any)),
    "aten::all": (all, evaluated(all)),
}


def _variadic(name: str, effect: Effect, reference: Callable[..., Any], rule: Callable[..., Abstract]) -> Op:
    """Return an op that takes any operands in order, without a schema."""
    category: Category = "container"
    return Op(name, (), category, effect, rule, reference)


OPS = (
    *(
        define_positional(name, function, category="container", type_rule=rule, keep=_first_list)
        for name, (function, rule) in _LIST_OPS.items()
    ),
    _variadic("prim::ListConstruct", "pure", lambda *items: list(items), lambda *items: list(items)),
    _variadic("prim::TupleConstruct", "pure", lambda *items: tuple(items), lambda *items: tuple(items)),
    _variadic("prim::DictConstruct", "pure", _dict, _unknown),
    define_positional("prim::TupleIndex", _get_item, category="container", type_rule=tracked(_get_item, 1), keep=_any),
    define_positional("prim::TupleUnpack", tuple, category="container", type_rule=tracked(tuple), keep=_any),
    _variadic("prim::ListUnpack", "view", tuple, tracked(tuple)),
)
