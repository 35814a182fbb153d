"""Rules of `arith`, `math` and `complex` on tensors and plain numbers.

MLIR's integers have no sign, its ops do. Vectors, fast-math flags, and `math.fma`, which rounds once, are kept. An `index` becomes an
`int`; numbers of a fixed width become tensors of rank 0.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.frontends.mlir.importer import Emitter, Operation, Rule, dtype_of, shape_of
from irscope.frontends.mlir.ops_pointwise import _ELEMENTWISE as STABLEHLO
from irscope.frontends.mlir.ops_pointwise import COMPLEX, FLOATS, INTEGERS, SIGNED, divided, shift_right_logical, simple
from irscope.frontends.mlir.ops_pointwise import RULES as BITS
from irscope.frontends.mlir.ops_shaping import tensor_constant
from irscope.frontends.mlir.types import dense_data
from irscope.ir import BOOL, INT, TensorData, TensorType, Value

# Rules of `arith` ops that read an integer's bits as an unsigned number, shift them, or reinterpret them as a float.
#
# Torch's integers are signed. With the sign bit of both sides flipped, a signed comparison orders as an unsigned one;
# quotients and conversions are computed in a wider type, so those of 64 bits are kept. Shifts by the width or more and
# divisions by zero have no defined value in MLIR, so any result is correct.

_WORDS: Final = {"ult": "lt", "ule": "le", "ugt": "gt", "uge": "ge"}


def compared(op: Operation, word: str) -> Value | None:
    """Emits `ult`, `ule`, `ugt` or `uge` of two operands; None if their type is not supported."""
    dtype = dtype_of(op.operands[0])
    if dtype == "bool":
        sides = [op.e.cast(value, "int8") for value in op.operands]
    elif dtype in SIGNED:
        sides = [sign_flipped(op.e, value) for value in op.operands]
    else:
        return None
    return op.e.op(_WORDS[word], *sides, type=op.type)


def sign_flipped(e: Emitter, value: Value) -> Value:
    """Flips the sign bit."""
    return e.op("bitwise_xor", value, int(np.iinfo(dtype_of(value)).min))


def _unsigned_extreme(aten: str, of_bools: str, op: Operation) -> Value | None:
    if op.types[0] == INT and all(value.type == INT for value in op.operands):  # of type `index`
        wide = Operation(op.name, op.handle, [op.e.op("prim::NumToTensor", x) for x in op.operands], [_INT64], op.e, None)
        return op.e.op("Int", _unsigned_extreme(aten, of_bools, wide), type=INT)
    if op.dtype == "bool":
        return op.e.op(of_bools, *op.operands, type=op.type)
    if op.dtype not in SIGNED:
        return None
    return sign_flipped(op.e, op.e.op(aten, *(sign_flipped(op.e, value) for value in op.operands)))


_INT64: Final = TensorType("int64", (), ())


def _widened(e: Emitter, value: Value) -> Value | None:
    """Returns the unsigned number of an integer's bits as int64; None for 64 bits."""
    dtype = dtype_of(value)
    if dtype == "bool":
        return e.cast(value, "int64")
    if dtype not in SIGNED or dtype == "int64":
        return None
    return e.op("bitwise_and", e.cast(value, "int64"), (1 << np.iinfo(dtype).bits) - 1)


def _converted(targets: frozenset[str], op: Operation) -> Value | None:
    """An unsigned number in a wider type, or as a float."""
    wide = _widened(op.e, op.operands[0]) if op.dtype in targets else None
    return None if wide is None else op.e.cast(wide, op.dtype)


def index_of(op: Operation) -> Value | None:
    """An unsigned integer as an index."""
    wide = _widened(op.e, op.operands[0])
    if wide is None or (op.types[0] != INT and op.dtype != "int64"):
        return None
    return op.e.op("Int", wide, type=INT) if op.types[0] == INT and shape_of(wide) == () else wide


def _to_unsigned(op: Operation) -> Value | None:
    """A float as an unsigned number of up to 32 bits; out of range the result is undefined in MLIR."""
    if dtype_of(op.operands[0]) not in FLOATS or op.dtype not in SIGNED - {"int64"}:
        return None
    return op.e.cast(op.e.cast(op.operands[0], "int64"), op.dtype)


def _quotient(aten: str, rest: tuple[Any, ...], op: Operation) -> Value | None:
    sides = [_widened(op.e, value) for value in op.operands]
    if op.dtype not in SIGNED or None in sides:
        return None
    return op.e.cast(divided(op.of([side for side in sides if side is not None], "int64"), aten, *rest), op.dtype)


_UNSIGNED: Final[Mapping[str, Rule]] = {
    "arith.maxui": partial(_unsigned_extreme, "maximum", "bitwise_or"),
    "arith.minui": partial(_unsigned_extreme, "minimum", "bitwise_and"),
    "arith.extui": partial(_converted, SIGNED),
    "arith.uitofp": partial(_converted, FLOATS),
    "arith.fptoui": _to_unsigned,
    "arith.divui": partial(_quotient, "div", ("trunc",)),
    "arith.remui": partial(_quotient, "fmod", ()),
    "arith.shli": simple("__lshift__", SIGNED),
    "arith.shrsi": simple("__rshift__", SIGNED),
    "arith.shrui": shift_right_logical,
    "arith.bitcast": BITS["stablehlo.bitcast_convert"],
}
"""The rule of each op, if all operands are tensors and it has no flags."""


# Rules of torch-mlir's dialect, whose ops are torch's: `torch.aten.add.Tensor` is `aten::add`.
#
# Its operands are those of torch's schema, in order, so an op needs no translation; overloads follow from the types.

_PRIMS: Final = frozenset({
    "ListConstruct", "ListUnpack", "NumToTensor", "TupleConstruct", "TupleIndex", "TupleUnpack", "device", "dtype", "max", "min",
})  # fmt: skip
_COPIES: Final = ("torch.copy.to_tensor", "torch.copy.to_vtensor", "torch.tensor_static_info_cast")


def _torchs(op: Operation) -> Value | Sequence[Value] | None:
    """Torch-mlir's ops: `torch.aten.X` is `aten::X`, with constants, lists, tuples and literals; those with regions are kept."""
    _, space, *rest = op.name.split(".")
    if op.regions:
        return None
    if space == "constant":
        return _python_constant(op, rest[0])
    if op.name.endswith("tensor.literal"):
        return tensor_constant(op) if isinstance(op.types[0], TensorType) and op.types[0].is_static else None
    if op.name in _COPIES:
        return op.e.node("aten::alias" if op.name.endswith("cast") else "aten::clone", op.operands, op.types)
    if rest and (space in ("aten", "prims") or (space == "prim" and rest[0] in _PRIMS)):
        return op.e.node(f"{space}::{rest[0]}", op.operands, op.types)
    return None


def _python_constant(op: Operation, kind: str) -> Value | None:
    if kind == "none":
        return op.e.constant(None)
    attribute = op.attr("value")
    known = {"int": int, "float": float, "bool": bool, "str": str, "device": str}
    return op.e.constant(known[kind](attribute.value), op.types[0]) if attribute is not None and kind in known else None


# Rules of ops on numbers with a sign and on floats, and the conversions between them.

_TO_EVEN: Final = ("0 :", "to_nearest_even", "#arith.roundingmode<to_nearest_even>")


def is_plain(op: Operation) -> bool:
    """Checks that an op has no flags that allow other results (fast math, no-overflow integers) and rounds to even. That an index does
    not overflow is no such flag: those of a tensor do not."""
    attributes = op.handle.attributes
    if not len(attributes):
        return True
    flags = [op.payload(flag) for flag in ("fastmath", "overflowFlags", "isExact", "nonNeg") if flag in attributes]
    if len(flags) == 1 and "overflowFlags" in attributes and str(op.handle.results[0].type) == "index":
        return True
    rounding = op.text("roundingmode")
    return all("<none>" in str(flag) for flag in flags) and (not rounding or rounding.startswith(_TO_EVEN))


def _on_tensors(rule: Rule) -> Rule:
    return partial(_guarded, rule)


def _guarded(rule: Rule, op: Operation) -> Any:
    """Restricts a rule to ops on tensors without flags that allow other results."""
    for type in op.types:
        if type.__class__ is not TensorType:
            return None
    for value in op.operands:
        if value.type.__class__ is not TensorType:
            return None
    return rule(op) if is_plain(op) else None


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
        data = dense_data(f"dense<{word}> : tensor<{element}>")
        return None if data is None else op.e.constant(data, type)
    return None


def _integer(aten: str, rule: Rule, op: Operation) -> Any:
    """An op on ints if the operands have type `index`; otherwise what the rule for tensors makes."""
    if all(value.type == INT for value in op.operands):
        return op.e.op(aten, *op.operands, type=INT)
    return _guarded(rule, op)


_COMPARISONS: Final = {
    "eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge",
    "oeq": "eq", "une": "ne", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge",
}  # fmt: skip
_INTEGER_ORDER: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_ORDER: Final = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")


_NOT: Final = {"ult": "ge", "ule": "gt", "ugt": "le", "uge": "lt"}
"""Float comparisons that hold if an operand is NaN, each the negation of one that does not."""


def _compare(words: Sequence[str], op: Operation) -> Value | None:
    word, dtype = words[op.number("predicate")], dtype_of(op.operands[0])
    aten = _COMPARISONS.get(word)
    are_tensors = all(isinstance(value.type, TensorType) for value in op.operands)
    if not is_plain(op):
        return None
    if aten is None:
        return None if not are_tensors else _compare_floats(op, word) if words is _FLOAT_ORDER else compared(op, word)
    if all(value.type == INT for value in op.operands) and isinstance(op.types[0], TensorType):
        return op.e.op("prim::NumToTensor", op.e.op(aten, *op.operands, type=BOOL))
    is_known = are_tensors and isinstance(op.types[0], TensorType) and dtype and (dtype != "bool" or aten in ("eq", "ne"))
    return op.e.op(aten, *op.operands, type=op.type) if is_known else None


def _compare_floats(op: Operation, word: str) -> Value | None:
    e, (a, b) = op.e, op.operands
    if dtype_of(a) not in FLOATS or word in ("true", "false"):
        return None
    if word in _NOT:
        return e.op("bitwise_not", e.op(_NOT[word], a, b, type=op.type))
    pair = {"ord": ("eq", a, a, "eq", b, b), "uno": ("ne", a, a, "ne", b, b)}.get(word, ("lt", a, b, "gt", a, b))
    sides = (e.op(*pair[:3], type=op.type), e.op(*pair[3:], type=op.type))
    made = e.op("bitwise_and" if word == "ord" else "bitwise_or", *sides, type=op.type)
    return e.op("bitwise_not", made) if word == "ueq" else made


def _cast(sources: frozenset[str], targets: frozenset[str]) -> Rule:
    return _on_tensors(
        lambda op: op.e.cast(op.operands[0], op.dtype) if dtype_of(op.operands[0]) in sources and op.dtype in targets else None
    )


def _truncated(op: Operation) -> Value | None:
    """The low bits of an integer."""
    (x,) = op.operands
    if dtype_of(x) not in SIGNED or op.dtype not in SIGNED | {"bool"}:
        return None
    return op.e.cast(op.e.op("bitwise_and", x, 1) if op.dtype == "bool" else x, op.dtype)


def _index_cast(op: Operation) -> Value | None:
    (x,), (type,) = op.operands, op.types
    if isinstance(type, TensorType) and {dtype_of(x), type.dtype} <= SIGNED:  # in a loop nest on whole tensors
        return op.e.cast(x, str(type.dtype))
    if x.type == INT and isinstance(type, TensorType) and type.dtype in SIGNED:
        return op.e.cast(op.e.op("prim::NumToTensor", x), type.dtype)
    if type == INT and dtype_of(x) in SIGNED and isinstance(x.type, TensorType) and x.type.shape == ():
        return op.e.op("Int", x, type=INT)
    return None


def _complex_constant(op: Operation) -> Value | None:
    """A complex constant, whose two floats are read from their text, which keeps all bits."""
    parts = ", ".join(str(part).partition(" :")[0] for part in op.attr("value"))
    data = dense_data(f"dense<({parts})> : tensor<{op.handle.results[0].type}>")
    return None if data is None or op.dtype not in COMPLEX else op.e.constant(data, op.type)


def _division(aten: str, *rest: Any) -> Rule:
    return _on_tensors(lambda op: divided(op, aten, *rest) if op.dtype in SIGNED else None)


def _float(aten: str, *rest: Any) -> Rule:
    return _on_tensors(simple(aten, FLOATS, *rest))


def _bits(aten: str) -> Rule:
    return _on_tensors(simple(aten, INTEGERS | {"bool"}))


def _sum(aten: str) -> Rule:
    return partial(_integer, aten, lambda op: op.e.op(aten, *op.operands, 1, type=op.type) if op.dtype in INTEGERS else None)


def _composite(op: Operation) -> Sequence[Value] | None:
    """A call of the composite's decomposition."""
    name = op.text("decomposition")
    return op.e.node("func::call", op.operands, op.types, FrozenDict(callee=name)) if name else None


_MATH: Final = (
    "absf=abs acos acosh asin asinh atan atanh atan2 ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 "
    "powf=pow roundeven=round rsqrt sin sinh sqrt tan tanh trunc copysign isfinite isinf isnan"
)

_FLOAT_OPS: Final = "mulf=mul divf=div remf=fmod negf=neg maximumf=maximum minimumf=minimum maxnumf=fmax minnumf=fmin"

_COMPLEX_OPS: Final = (
    "re=real im=imag create=complex abs add sub=subtract mul=multiply div=divide neg=negate exp=exponential "
    "expm1=exponential_minus_one log log1p=log_plus_one sqrt rsqrt sin=sine cos=cosine tan tanh"
)

RULES: Final[Mapping[str, Rule]] = {
    "arith.constant": _constant,
    "arith.addf": _float("add", 1),
    "arith.subf": _float("sub", 1),
    "arith.addi": _sum("add"),
    "arith.subi": _sum("sub"),
    "arith.muli": partial(_integer, "mul", simple("mul", INTEGERS)),
    "arith.divsi": _division("div", "trunc"),
    "arith.floordivsi": _division("div", "floor"),
    "arith.remsi": _division("fmod"),
    "arith.maxsi": partial(_integer, "prim::max", simple("maximum", SIGNED)),
    "arith.minsi": partial(_integer, "prim::min", simple("minimum", SIGNED)),
    "arith.andi": _bits("bitwise_and"),
    "arith.ori": _bits("bitwise_or"),
    "arith.xori": _bits("bitwise_xor"),
    "arith.cmpf": partial(_compare, _FLOAT_ORDER),
    "arith.cmpi": partial(_compare, _INTEGER_ORDER),
    "arith.select": _on_tensors(simple("where", FLOATS | INTEGERS | {"bool"})),
    "arith.extf": _cast(FLOATS, FLOATS),
    "arith.truncf": _cast(FLOATS, FLOATS),
    "arith.extsi": _cast(SIGNED, SIGNED),
    "arith.trunci": _on_tensors(_truncated),
    "arith.sitofp": _cast(SIGNED, FLOATS),
    "arith.fptosi": _cast(FLOATS, SIGNED),
    "arith.index_cast": _index_cast,
    "arith.index_castui": index_of,
    "math.absi": _on_tensors(simple("abs", SIGNED)),
    "math.round": _on_tensors(STABLEHLO["stablehlo.round_nearest_afz"]),
    "math.cbrt": _on_tensors(STABLEHLO["stablehlo.cbrt"]),
    **{f"arith.{name}": _float(aten) for name, _, aten in (word.partition("=") for word in _FLOAT_OPS.split())},
    **{f"math.{name}": _float(aten or name) for name, _, aten in (word.partition("=") for word in _MATH.split())},
    **{name: rule if name.endswith(("maxui", "minui")) else _on_tensors(rule) for name, rule in _UNSIGNED.items()},
    **{
        f"complex.{name}": _on_tensors(STABLEHLO[f"stablehlo.{other or name}"])
        for name, _, other in (word.partition("=") for word in _COMPLEX_OPS.split())
    },
    "complex.constant": _complex_constant,
    "complex.conj": _on_tensors(simple("conj_physical", COMPLEX)),
    "stablehlo.composite": _composite,
    "torch.*": _torchs,
    "util.optimization_barrier": lambda op: op.operands,
}  # fmt: skip
"""The rule of each op."""
