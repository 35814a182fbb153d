"""Recognises the small region of a reduction, sort or scatter as an expression.

Nothing is guessed: the region is written out as one text over its parameters (`add(a0,a1)`), and only texts that are
known to correspond to an op of torch are accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from irscope.frontends.mlir.read.attributes import attribute_of

__all__ = ["expressions", "has_one_zero_and_nan", "is_lexicographic", "keeps_new", "reducer", "selects_largest"]

_MAX_OPS: Final = 64
_MAX_TEXT: Final = 4096

_KINDS: Final = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "and", "or": "or",
}  # fmt: skip


def expressions(region: Any) -> list[str] | None:
    """Returns the results of a region of one block as texts; None if it is too large or has nested regions.

    Constants are written with their elements, so that nothing is omitted; conversions and types of scalars are implied
    by the operands' types, which the ops determine.
    """
    blocks = list(region.blocks)
    if len(blocks) != 1 or len(blocks[0].operations) > _MAX_OPS:
        return None
    text: dict[Any, str] = {argument: f"a{i}" for i, argument in enumerate(blocks[0].arguments)}
    operations = [op.operation for op in blocks[0].operations]
    for op in operations[:-1]:
        if len(op.regions) or any(operand not in text for operand in op.operands):
            return None
        inside = ",".join(text[operand] for operand in op.operands)
        words = [_word(name, attribute_of(op, name)) for name in sorted(getattr(a, "name", a) for a in op.attributes)]
        head = f"{op.name.removeprefix('stablehlo.')}{''.join(words)}"
        for number, result in enumerate(op.results):
            text[result] = f"{head}({inside})" + (f"#{number}" if number else "")
            if len(text[result]) > _MAX_TEXT:
                return None
    end = operations[-1]
    if any(operand not in text for operand in end.operands):
        return None
    return [text[operand] for operand in end.operands]


def _word(name: str, attribute: Any) -> str:
    if name == "comparison_direction":
        return "." + str(attribute).rpartition(" ")[2].rstrip(">")
    if name == "compare_type":
        kind = str(attribute).rpartition(" ")[2].rstrip(">")
        return ".TOTALORDER" if kind == "TOTALORDER" else ""
    return f"[{name}={attribute}]"


def reducer(region: Any) -> str | None:
    """Returns `add`, `mul`, `max`, `min`, `and` or `or` if the region combines its two parameters this way, else
    None."""
    texts = expressions(region)
    if texts is None or len(texts) != 1:
        return None
    name, _, operands = texts[0].partition("(")
    return _KINDS.get(name) if operands in ("a0,a1)", "a1,a0)") else None


def keeps_new(region: Any) -> bool:
    """Checks whether the region of a scatter returns the update, whatever the old element is."""
    return expressions(region) == ["a1"]


def selects_largest(region: Any) -> str | None:
    """Returns `argmax` or `argmin` if the region selects one of two (value, index) pairs that way, else None. NaN must
    come before all other values, and of equal values the one with the smaller index."""
    texts = expressions(region)
    if texts is None or len(texts) != 2:
        return None
    for name, sign in (("argmax", "GT"), ("argmin", "LT")):
        wins = f"or(compare.{sign}(a0,a2),compare.NE(a0,a0))"
        pick = f"or({wins},and(compare.EQ(a0,a2),compare.LT(a1,a3)))"
        if texts == [f"select({wins},a0,a2)", f"select({pick},a1,a3)"]:
            return name
    return None


def is_lexicographic(region: Any) -> tuple[int, bool] | None:
    """Returns by how many keys a sort compares, and whether the largest comes first; None if it is not certain.

    Floats must be compared as JAX does, with one zero and one NaN, which is the largest: that is torch's order, too.
    """
    texts = expressions(region)
    if texts is None or len(texts) != 1:
        return None
    arguments = list(region.blocks[0].arguments)
    for keys in range(1, len(arguments) // 2 + 1):
        types = [str(argument.type) for argument in arguments[: 2 * keys : 2]]
        for sign, largest_first in (("LT", False), ("GT", True)):
            if texts[0] == _order(types, sign):
                return keys, largest_first
    return None


def _order(types: list[str], sign: str) -> str:
    """Returns the text of a lexicographic comparison of keys of these types."""
    less, equal = [], []
    for key, type in enumerate(types):
        a, b = f"a{2 * key}", f"a{2 * key + 1}"
        if _is_float(type):
            a, b = _one_zero_and_nan(a, type), _one_zero_and_nan(b, type)
            less.append(f"compare.TOTALORDER.{sign}({a},{b})")
            equal.append(f"compare.TOTALORDER.EQ({a},{b})")
        else:
            less.append(f"compare.{sign}({a},{b})")
            equal.append(f"compare.EQ({a},{b})")
    made = less[-1]
    for one, same in zip(reversed(less[:-1]), reversed(equal[:-1]), strict=True):
        made = f"or({one},and({same},{made}))"
    return made


def _is_float(type: str) -> bool:
    return "f" in type.rpartition("<")[2]


def _one_zero_and_nan(argument: str, type: str) -> str:
    element = type.removeprefix("tensor<").removesuffix(">")
    zero = f"constant[value=dense<0.000000e+00> : tensor<{element}>]()"
    nan = f"constant[value=dense<{_NANS.get(element, '?')}> : tensor<{element}>]()"
    plain = f"select(compare.EQ({argument},{zero}),{zero},{argument})"
    return f"select(compare.NE({argument},{argument}),{nan},{plain})"


def has_one_zero_and_nan(value: Any) -> bool:
    """Checks whether a value is produced by JAX's selects that leave one zero and one NaN of a float."""
    outer = _producer(value, "stablehlo.select")
    if outer is None:
        return False
    is_nan, nan, rest = outer.operands
    inner = _producer(rest, "stablehlo.select")
    if inner is None or not _is_constant(nan, tuple(_NANS.values())):
        return False
    is_zero, zero, x = inner.operands
    return (
        _is_constant(zero, ("0.000000e+00",))
        and _compares(is_nan, "NE", x, lambda other: other == x)
        and _compares(is_zero, "EQ", x, lambda other: _is_constant(other, ("0.000000e+00",)))
    )


def _producer(value: Any, name: str) -> Any:
    """Returns the op that produces a value, if it has this name."""
    owner = getattr(value, "owner", None)
    operation = getattr(owner, "operation", owner)
    return operation if getattr(operation, "name", "") == name else None


def _is_constant(value: Any, words: tuple[str, ...]) -> bool:
    spread = _producer(value, "stablehlo.broadcast_in_dim")
    made = _producer(spread.operands[0] if spread is not None else value, "stablehlo.constant")
    return made is not None and str(made.attributes["value"]).startswith(tuple(f"dense<{word}>" for word in words))


def _compares(value: Any, sign: str, x: Any, is_other: Callable[[Any], bool]) -> bool:
    made = _producer(value, "stablehlo.compare")
    if made is None or sign not in str(made.attributes["comparison_direction"]):
        return False
    left, right = made.operands
    return bool(left == x) and is_other(right)


_NANS: Final = {"f32": "0x7FC00000", "f64": "0x7FF8000000000000", "f16": "0x7E00", "bf16": "0x7FC0"}
