"""Calls of NumPy's references, with the decisions that depend on types and layouts taken once for each kind of operands.

A reference finds out at each call in which type it computes, which operands it converts, or what a view's strides are: 5 to 30
microseconds where NumPy takes one. Here a function is generated for operands like those of a call: it compares what was
decided upon and does the rest. Other operands get a function of their own, tried before the earlier ones, up to a limit: where
tensors grow, each call has new ones, and the reference answers.
"""

import keyword
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from types import CodeType
from typing import Any, Final

import numpy as np

from irscope.ops.numpy_layout import address_of
from irscope.ops.op import Op

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]

_MOST: Final = 8
"""Functions of one node."""
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_VIEWS: Final = frozenset(
    f"aten::{name}"
    for name in """
    reshape view _unsafe_view flatten unflatten squeeze unsqueeze permute transpose t movedim select slice narrow diagonal expand
    broadcast_to contiguous""".split()
)
"""Ops whose result depends on the layout of the operand alone."""


def by_position(reference: Function, names: Sequence[str], rest: Mapping[str, Any], *, makes_array: bool) -> Function:
    """Returns the reference as a function of its operands in order. `rest`: the arguments that are left out; `makes_array`: whether
    a number of NumPy's becomes an array.

    >>> by_position(lambda self, dim, keepdim: (self, dim, keepdim), ["self", "dim"], {"keepdim": False}, makes_array=False)(1, 2)
    (1, 2, False)
    """
    if any(map(keyword.iskeyword, names)):

        def call(*given: Any) -> Any:
            return reference(**dict(zip(names, given, strict=True)), **rest)

        inner: Function = call
        text = f"inner({_xs(len(names))})"
    else:
        inner = reference
        text = f"inner({', '.join([f'{name}=x{place}' for place, name in enumerate(names)])}{', **rest' if rest else ''})"
    lines = [f"y = {text}", "return asarray(y) if isinstance(y, generic) else y"] if makes_array else [f"return {text}"]
    return _written(len(names), lines, {"inner": inner, "rest": rest, "asarray": np.asarray, "generic": np.generic})


def decided(op: Op, names: Sequence[str], rest: Mapping[str, Any], otherwise: Function) -> Function:
    """Returns a function of operands in order that decides once for operands of one kind; `otherwise` answers where nothing is to
    be decided."""
    if op.rule is not None:
        decide: Callable[[Sequence[Any], Function], Function | None] = partial(_pointwise, op.rule, names, rest)
    elif op.name in _VIEWS:
        decide = partial(_view, op.name.partition("::")[2], names, otherwise)
    else:
        return otherwise
    left = _MOST
    latest = otherwise

    def new(*given: Any) -> Any:
        nonlocal latest, left
        if left:
            left -= 1
            with suppress(Exception):  # the reference raises it
                latest = decide(given, latest) or latest
        return otherwise(*given)

    latest = new
    return lambda *given: latest(*given)


def _pointwise(rule: Any, names: Sequence[str], rest: Mapping[str, Any], given: Sequence[Any], otherwise: Function) -> Function | None:
    """Returns the function of a pointwise op for operands like these; None where the reference must look at each. The element type of
    the computation is known, and numbers are converted already."""
    if not all(x.__class__ is np.ndarray or x.__class__ in _PLAIN for x in given):
        return None
    found = rule.decided({**dict(zip(names, given, strict=True)), **rest})
    if found is None or (rule.in_place and names[0] != rule.operands[0]):
        return None
    targets, dtype = found
    made: dict[str, Any] = {
        "array": np.ndarray, "asarray": np.asarray, "errstate": np.errstate, "f": rule.numpy, "dtype": dtype,
        "otherwise": otherwise, **{f"r{name}": value for name, value in rest.items()},
    }  # fmt: skip
    tests: list[str] = []
    before: list[str] = []
    passed: list[str] = []
    places = {name: place for place, name in enumerate(names)}
    for name, target in targets.items():
        place = places.get(name)
        if place is None:  # left out
            if rest.get(name) is not None:
                return None
            passed.append("None")
            continue
        x, made[f"t{place}"] = f"x{place}", target
        tests.append(_same(x, given[place], made))
        passed.append(_converted(x, given[place], target, before, made))
    for name, place in places.items():
        if name not in targets:
            tests.append(f"x{place} is c{place}")
            made[f"c{place}"] = given[place]
            passed.append(f"{name}=x{place}")
    passed += [f"{name}=r{name}" for name in rest if name not in targets]
    lines = [
        f"if not ({' and '.join(tests)}):",
        f"    return otherwise({_xs(len(given))})",
        *before,
        "with errstate(all='ignore'):",
        f"    y = f({', '.join(passed)})",
        "    if y.__class__ is not array or y.dtype != dtype:",
        "        y = asarray(y).astype(dtype, copy=False)",
        *(["x0[...] = y", "return x0"] if rule.in_place else ["return y"]),
    ]
    return _written(len(given), lines, made)


def _converted(x: str, value: Any, target: Any, before: list[str], made: dict[str, Any]) -> str:
    """Returns the operand in the type of the computation, a number as an array that is made once if it stays the same."""
    if value is None or (isinstance(value, np.ndarray) and value.dtype == target):
        return x
    place = x[1:]
    if isinstance(value, np.ndarray):
        before.append(f"a{place} = {x}.astype(t{place})")
    else:
        made[f"c{place}"], made[f"k{place}"] = value, np.asarray(value).astype(target)
        before.append(f"a{place} = k{place} if {x} is c{place} else asarray({x}).astype(t{place})")
    return f"a{place}"


def _same(x: str, value: Any, made: dict[str, Any]) -> str:
    """Returns the test of whether a variable is of the same type, for promotion, as an operand."""
    if value is None:
        return f"{x} is None"
    if not isinstance(value, np.ndarray):
        made[f"n{x}"] = type(value)
        return f"{x}.__class__ is n{x}"
    made[f"d{x}"] = value.dtype
    return f"{x}.__class__ is array and {x}.dtype == d{x} and {'' if value.ndim else 'not '}{x}.ndim"


def _view(short: str, names: Sequence[str], reference: Function, given: Sequence[Any], otherwise: Function) -> Function | None:
    """Returns the function of a view op for operands like these, of this layout: the method of NumPy's that gives the reference's result;
    None if no method gives the same memory, extents and strides."""
    x, *others = given
    if x.__class__ is not np.ndarray or not all(map(_is_constant, others)):
        return None
    wanted = reference(*given)
    if wanted.__class__ is not np.ndarray:
        return None
    made = {"array": np.ndarray, "otherwise": otherwise, "shape": x.shape, "strides": x.strides, "dtype": x.dtype}
    text = _view_text(short, x, wanted, dict(zip(names, given, strict=True)), made)
    if text is None:
        return None
    tests = ["x0.__class__ is array and x0.shape == shape and x0.strides == strides and x0.dtype == dtype"]
    for place, value in enumerate(others, 1):
        made[f"c{place}"] = list(value) if isinstance(value, list) else value
        made[f"n{place}"] = type(value)
        tests.append(f"x{place}.__class__ is n{place} and x{place} == c{place}")
    return _written(len(given), [f"if {' and '.join(tests)}:", f"    return {text}", f"return otherwise({_xs(len(given))})"], made)


def _view_text(short: str, x: Array, wanted: Array, named: Mapping[str, Any], made: dict[str, Any]) -> str | None:
    if wanted is x:
        return "x0"
    if short == "contiguous" or not x.size or not wanted.size:
        return None
    if short in ("select", "slice"):
        part = named["index"] if short == "select" else slice(named.get("start"), named.get("end"), named.get("step", 1))
        made["index"] = index = (*(slice(None),) * (named.get("dim", 0) % x.ndim), part, ...)
        if _are_same(x[index], wanted):
            return "x0[index]"
    made["to"] = wanted.shape
    if x.size == wanted.size:
        found = x.reshape(wanted.shape)
        is_copied = not np.may_share_memory(found, x) and not np.may_share_memory(wanted, x) and found.strides == wanted.strides
        if is_copied or _are_same(found, wanted):
            return "x0.reshape(to)"
    own = list(zip(x.shape, x.strides, strict=True))
    axes = [own.index(pair) for pair in zip(wanted.shape, wanted.strides, strict=True) if pair in own]
    if sorted(axes) == list(range(x.ndim)) and _are_same(x.transpose(axes), wanted):
        made["to"] = axes
        return "x0.transpose(to)"
    if not x.flags.c_contiguous or not np.may_share_memory(wanted, x):
        return None
    made["start"] = start = address_of(wanted) - address_of(x)
    made["steps"] = wanted.strides
    found = np.ndarray(wanted.shape, x.dtype, x, start, wanted.strides)
    return "array(to, dtype, x0, start, steps)" if _are_same(found, wanted) else None


def _is_constant(value: Any) -> bool:
    items = value if isinstance(value, list) else (value,)
    return all(item.__class__ in _PLAIN for item in items)


def _are_same(a: Array, b: Array) -> bool:
    """Checks whether two arrays are the same elements of one memory."""
    return (a.__array_interface__["data"], a.shape, a.strides, a.dtype) == (b.__array_interface__["data"], b.shape, b.strides, b.dtype)


def _xs(count: int) -> str:
    return ", ".join([f"x{place}" for place in range(count)])


def _written(count: int, lines: Sequence[str], names: dict[str, Any]) -> Function:
    """Returns the function of `count` operands with this body."""
    exec(compiled_text("\n".join([f"def call({_xs(count)}):", *[f"    {line}" for line in lines]])), names)  # only names of arguments
    made: Function = names["call"]
    return made


@lru_cache(maxsize=4096)
def compiled_text(text: str) -> CodeType:
    """Returns the code of a generated text, which calls of the same form share."""
    return compile(text, "<a generated call>", "exec")
