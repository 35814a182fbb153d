"""`arith` and `math` on tensors and plain numbers, and the reshaping ops of `tensor`.

MLIR's integers have no sign, the ops do: what reads them as unsigned has no counterpart and stays as it is, as do
vectors, fast-math flags, and `math.fma`, which rounds once. An `index` is an `int` here; numbers of a fixed width are
tensors without dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.frontends.mlir.emit import dtype_of
from irscope.frontends.mlir.meaning.pointwise import FLOATS, INTEGERS, divided, simple
from irscope.frontends.mlir.meaning.pointwise import RULES as STABLEHLO
from irscope.frontends.mlir.meaning.shaping import reshaped, sliced, tensor_constant
from irscope.frontends.mlir.operation import Operation
from irscope.frontends.mlir.read.dense import dense_data
from irscope.ir import BOOL, INT, TensorData, TensorType, Value

__all__ = ["RULES"]

Rule = Callable[[Operation], Value | Sequence[Value] | None]

_TO_EVEN: Final = ("0 :", "to_nearest_even", "#arith.roundingmode<to_nearest_even>")
_SIGNED: Final = frozenset(dtype for dtype in INTEGERS if dtype[0] != "u")


def is_plain(op: Operation) -> bool:
    """Whether an op has no flags that allow other results (fast math, integers that never overflow) and rounds to even."""
    attributes = op.handle.attributes
    if not len(attributes):
        return True
    flags = [op.payload(flag) for flag in ("fastmath", "overflowFlags", "isExact", "nonNeg") if flag in attributes]
    rounding = op.text("roundingmode")
    return all("<none>" in str(flag) for flag in flags) and (not rounding or rounding.startswith(_TO_EVEN))


def _on_tensors(rule: Rule) -> Rule:
    """The rule, for ops on our tensors without flags that allow other results."""

    def guarded(op: Operation) -> Any:
        for type in op.types:
            if type.__class__ is not TensorType:
                return None
        for value in op.operands:
            if value.type.__class__ is not TensorType:
                return None
        return rule(op) if is_plain(op) else None

    guarded.becomes = getattr(rule, "becomes", "")  # type: ignore[attr-defined]  # for the table of what is covered
    return guarded


def _constant(op: Operation) -> Value | None:
    (type,) = op.types
    attribute = op.attr("value")
    if type == INT:
        return op.e.constant(int(attribute.value))
    if not isinstance(type, TensorType) or type.dtype is None:
        return None
    payload = op.payload("value")
    if isinstance(payload, TensorData) or not hasattr(attribute, "value"):
        return tensor_constant(op)
    if isinstance(payload, bool) or type.dtype in INTEGERS:
        number = payload if isinstance(payload, bool) else int(attribute.value)
        return op.e.constant(TensorData.of(np.array(number).astype(type.dtype)), type)
    if type.dtype in FLOATS:
        word, _, element = op.text("value").partition(" : ")
        data = dense_data(None, f"dense<{word}> : tensor<{element}>")
        return None if data is None else op.e.constant(data, type)
    return None


def _integer(aten: str, rule: Rule) -> Rule:
    """A rule for tensors that is an op of ints where the operands are of type `index`."""
    tensors = _on_tensors(rule)

    def either(op: Operation) -> Any:
        if all(value.type == INT for value in op.operands) and aten:
            return op.e.aten(aten, *op.operands, type=INT)
        return tensors(op)

    return either


_COMPARISONS: Final = {
    "eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge",
    "oeq": "eq", "une": "ne", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge",
}  # fmt: skip
_INTEGER_ORDER: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_ORDER: Final = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def _compare(words: Sequence[str]) -> Rule:
    def rule(op: Operation) -> Value | None:
        aten = _COMPARISONS.get(words[op.number("predicate")])
        if aten is None or not is_plain(op):
            return None
        if all(value.type == INT for value in op.operands) and isinstance(op.types[0], TensorType):
            told = op.e.aten(aten, *op.operands, type=BOOL)
            return op.e.tensor("prim::NumToTensor", told, dtype="bool", shape=())
        ordered = dtype_of(op.operands[0]) != "bool" or aten in ("eq", "ne")
        is_tensor = all(isinstance(value.type, TensorType) for value in op.operands) and isinstance(op.types[0], TensorType)
        return op.e.aten(aten, *op.operands, type=op.type) if is_tensor and ordered and dtype_of(op.operands[0]) else None

    return rule


def _cast(sources: frozenset[str], targets: frozenset[str]) -> Rule:
    def rule(op: Operation) -> Value | None:
        known = dtype_of(op.operands[0]) in sources and op.dtype in targets
        return op.e.cast(op.operands[0], op.dtype) if known else None

    return _on_tensors(rule)


def _index_cast(op: Operation) -> Value | None:
    (x,), (type,) = op.operands, op.types
    if x.type == INT and isinstance(type, TensorType) and type.dtype in _SIGNED:
        return op.e.cast(op.e.tensor("prim::NumToTensor", x, dtype="int64", shape=()), type.dtype)
    if type == INT and dtype_of(x) in _SIGNED and isinstance(x.type, TensorType) and x.type.shape == ():
        return op.e.aten("Int", x, type=INT)
    return None


def _division(aten: str, *rest: Any) -> Rule:
    return _on_tensors(lambda op: divided(op, aten, *rest) if op.dtype in _SIGNED else None)


def _float(aten: str, *rest: Any) -> Rule:
    return _on_tensors(simple(aten, FLOATS, *rest))


def _bits(aten: str, accepted: frozenset[str] = INTEGERS | {"bool"}) -> Rule:
    return _on_tensors(simple(aten, accepted))


def _sum(aten: str) -> Rule:
    return _integer(aten, lambda op: op.e.aten(aten, *op.operands, 1, type=op.type) if op.dtype in INTEGERS else None)


def _reshape(op: Operation) -> Value | None:
    return reshaped(op.e, op.operands[0], op.shape) if len(op.operands) == 1 and op.is_static else None


def _extract_slice(op: Operation) -> Value | None:
    offsets, sizes, steps = (op.ints(name) for name in ("static_offsets", "static_sizes", "static_strides"))
    if len(op.operands) != 1 or not op.is_static or offsets is None or sizes is None or steps is None:
        return None
    x = op.operands[0]
    for axis, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
        x = sliced(op.e, x, axis, offset, offset + (size - 1) * step + 1 if size else offset, step)
    return reshaped(op.e, x, op.shape)


def _empty(op: Operation) -> Value | None:
    """A tensor without contents yet."""
    if len(op.operands) or not op.is_static:
        return None
    rest = (op.e.code(op.dtype), None, op.e.device, None, None)
    return op.e.aten("empty", list(op.shape), *rest, type=op.type) if op.dtype in FLOATS | INTEGERS | {"bool"} else None


def _composite(op: Operation) -> Sequence[Value] | None:
    """A composite means what its decomposition does."""
    name = op.text("decomposition")
    return op.e.node("func::call", op.operands, op.types, FrozenDict(callee=name)) if name else None


_MATH: Final = (
    "absf=abs acos acosh asin asinh atan atanh atan2 ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 "
    "powf=pow roundeven=round rsqrt sin sinh sqrt tan tanh trunc copysign isfinite isinf isnan"
)

RULES: Final[Mapping[str, Rule]] = {
    "arith.constant": _constant,
    "arith.addf": _float("add", 1),
    "arith.subf": _float("sub", 1),
    "arith.mulf": _float("mul"),
    "arith.divf": _float("div"),
    "arith.remf": _float("fmod"),
    "arith.negf": _float("neg"),
    "arith.maximumf": _float("maximum"),
    "arith.minimumf": _float("minimum"),
    "arith.maxnumf": _float("fmax"),
    "arith.minnumf": _float("fmin"),
    "arith.addi": _sum("add"),
    "arith.subi": _sum("sub"),
    "arith.muli": _integer("mul", simple("mul", INTEGERS)),
    "arith.divsi": _division("div", "trunc"),
    "arith.remsi": _division("fmod"),
    "arith.maxsi": _integer("", simple("maximum", _SIGNED)),
    "arith.minsi": _integer("", simple("minimum", _SIGNED)),
    "arith.andi": _bits("bitwise_and"),
    "arith.ori": _bits("bitwise_or"),
    "arith.xori": _bits("bitwise_xor"),
    "arith.cmpf": _compare(_FLOAT_ORDER),
    "arith.cmpi": _compare(_INTEGER_ORDER),
    "arith.select": _on_tensors(simple("where", FLOATS | INTEGERS | {"bool"})),
    "arith.extf": _cast(FLOATS, FLOATS),
    "arith.truncf": _cast(FLOATS, FLOATS),
    "arith.extsi": _cast(_SIGNED, _SIGNED),
    "arith.trunci": _cast(_SIGNED, _SIGNED),
    "arith.extui": _cast(frozenset({"bool"}), _SIGNED),
    "arith.sitofp": _cast(_SIGNED, FLOATS),
    "arith.uitofp": _cast(frozenset({"bool"}), FLOATS),
    "arith.fptosi": _cast(FLOATS, _SIGNED),
    "arith.index_cast": _index_cast,
    "math.absi": _on_tensors(simple("abs", _SIGNED)),
    "math.round": _on_tensors(STABLEHLO["stablehlo.round_nearest_afz"]),
    "math.cbrt": _on_tensors(STABLEHLO["stablehlo.cbrt"]),
    **{
        f"math.{name}": _float(aten or name)
        for name, _, aten in (word.partition("=") for word in _MATH.split())
    },
    "tensor.empty": _empty,
    "tensor.collapse_shape": _reshape,
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "stablehlo.composite": _composite,
}  # fmt: skip
"""What each op becomes."""
