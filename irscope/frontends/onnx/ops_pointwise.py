"""Builders of ops on single elements and along axes: elementwise ops, casts, tensors of a given shape, reductions, sequences, and
quantised ops.

Of the elementwise ops those with an `aten::` op of the same meaning stand in a table, the rest are functions. ONNX's
operands have the same element type, so no promotion takes place.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np

from irscope.frontends.emit import CODES, Refused, refuse_if
from irscope.frontends.onnx.call import Call, Held, Item, Result, extents_of, last_axis_first, op
from irscope.frontends.onnx.types import COMPUTED, ELEMENT_TYPES, FLOATS
from irscope.ir import BOOL, INT, ITEM_SIZE, NONE, TENSOR, ListType, OptionalType, Value

_ONE_OPERAND: Final = {
    name: name.lower()
    for name in (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish IsNaN Log Mish Neg Reciprocal Relu Round Sigmoid Sin "
        "Sinh Sqrt Tan Tanh"
    ).split()
} | {"BitwiseNot": "bitwise_not", "Not": "logical_not"}
_TWO_OPERANDS: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "Equal": "eq", "Greater": "gt",
    "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le", "MatMul": "matmul",
}  # fmt: skip


for _count, _names in enumerate((_ONE_OPERAND, _TWO_OPERANDS, {"Where": "where"}), 1):
    for _name, _aten in _names.items():
        op(_name)(partial(lambda name, count, call: call.op(name, *map(call.x, range(count))), _aten, _count))
op("Mod")(lambda call: call.op("fmod" if call.integer("fmod", 0) else "remainder", call.x(0), call.x(1)))
op("Gelu")(lambda call: call.op("gelu", call.x(), call.text("approximate", "none")))


@op("Sign")
def _sign(call: Call) -> Value:
    """Returns the sign; that of NaN is NaN, whereas `aten::sign` returns 0."""
    x = call.x()
    return call.op("where", call.op("isnan", x), x, call.op("sign", x)) if call.dtype() in FLOATS else call.op("sign", x)


@op("Div")
def _div(call: Call) -> Value:
    """Divides; a quotient of integers is truncated towards zero."""
    return call.op("div", call.x(0), call.x(1), *(() if call.dtype() in FLOATS else ("trunc",)))


@op("Pow")
def _pow(call: Call) -> Value:
    """Raises to a power; the exponent may have another type, and the result has the base's."""
    base, dtype = call.x(0), call.dtype(0)
    exponent = call.held(1).known()
    if exponent is not None and exponent.ndim == 0 and dtype in FLOATS:
        made = call.op("pow", base, float(exponent))
    else:
        made = call.op("pow", base, call.x(1))
    return call.cast(made, str(dtype))


@op("BitShift")
def _bit_shift(call: Call) -> Value:
    return call.op("__lshift__" if call.text("direction", "") == "LEFT" else "__rshift__", call.x(0), call.x(1))


@op("IsInf")
def _is_inf(call: Call) -> Value:
    x = call.x()
    positive, negative = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    if bool(positive) != bool(negative):
        return call.op("eq", x, inf if positive else -inf)
    return call.op("isinf", x) if positive else call.op("logical_and", call.op("isinf", x), call.op("isnan", x))


op("Elu")(lambda call: call.op("elu", call.x(), call.attr("alpha", 1.0)))
op("Celu")(lambda call: call.op("celu", call.x(), call.attr("alpha", 1.0)))
op("LeakyRelu")(lambda call: call.op("leaky_relu", call.x(), call.attr("alpha", 0.01)))


@op("Selu")
def _selu(call: Call) -> Value:
    """Builds an `aten::elu` with ONNX's constants; their defaults are those of `aten::selu`, rounded to float32."""
    alpha, gamma = call.attr("alpha", 1.67326319217681884765625), call.attr("gamma", 1.05070102214813232421875)
    return call.op("elu", call.x(), alpha, gamma)


@op("PRelu")
def _prelu(call: Call) -> Value:
    """Builds a `where`: the slope broadcasts to the operand, while `aten::prelu` needs one per channel."""
    x, slope = call.x(0), call.x(1)
    return call.op("where", call.op("lt", x, 0), call.op("mul", x, slope), x)


@op("ThresholdedRelu")
def _thresholded_relu(call: Call) -> Value:
    x = call.x()
    return call.op("where", call.op("gt", x, call.attr("alpha", 1.0)), x, call.scalar(0, str(call.dtype())))


@op("HardSigmoid")
def _hard_sigmoid(call: Call) -> Value:
    line = call.op("add", call.op("mul", call.x(), call.attr("alpha", 0.2)), call.attr("beta", 0.5))
    return call.op("clamp", line, 0, 1)


@op("Softplus")
def _softplus(call: Call) -> Value:
    """Sets the threshold from which on `aten::softplus` returns its operand high enough that this is exact."""
    return call.op("softplus", call.x(), 1, 700 if call.dtype() == "float64" else 80)


@op("Softsign")
def _softsign(call: Call) -> Value:
    x = call.x()
    return call.op("div", x, call.op("add", call.op("abs", x), 1))


@op("Swish")
def _swish(call: Call) -> Value:
    x, alpha = call.x(), call.attr("alpha", 1.0)
    return call.op("silu", x) if alpha == 1 else call.op("mul", x, call.op("sigmoid", call.op("mul", x, alpha)))


@op("Shrink")
def _shrink(call: Call) -> Value:
    x, bias, bound = call.x(), call.attr("bias", 0.0), call.attr("lambd", 0.5)
    dtype = str(call.dtype())
    refuse_if(dtype not in FLOATS, "its result on integers is rounded, that of aten::sub is not")
    inside = call.op("where", call.op("gt", x, bound), call.op("sub", x, bias), call.scalar(0, dtype))
    return call.op("where", call.op("lt", x, -bound), call.op("add", x, bias), inside)


# In opset 10 and older the bounds are attributes.
op("Clip")(lambda call: _clamped(call, call.x(), call.attr("min", None), call.attr("max", None)))


@op("Clip", since=11)
def _clip_11(call: Call) -> Value:
    """Builds a clamp whose bounds are operands, used as numbers if they are known."""
    bounds = [call.held(index).known() if call.has(index) else None for index in (1, 2)]
    if all(bound is not None or not call.has(index) for index, bound in enumerate(bounds, 1)):
        low, high = (None if bound is None else bound.reshape(()).item() for bound in bounds)
        return _clamped(call, call.x(), low, high)
    low, high = (call.x(index) if call.has(index) else None for index in (1, 2))
    return _clamped(call, call.x(), low, high)


def _clamped(call: Call, x: Value, low: Any, high: Any) -> Value:
    """Builds a clamp; an omitted bound is the type's own, so that infinities become the largest numbers."""
    dtype = str(call.dtype())
    if dtype in FLOATS:
        low, high = (_LARGEST[dtype] * sign if bound is None else bound for bound, sign in ((low, -1), (high, 1)))
        if isinstance(low, Value) != isinstance(high, Value):
            low, high = (bound if isinstance(bound, Value) else call.scalar(bound, dtype) for bound in (low, high))
    return x if low is None and high is None else call.op("clamp", x, low, high)


_LARGEST: Final = {
    **{name: float(np.finfo(name).max) for name in ("float16", "float32", "float64")}, "bfloat16": float.fromhex("0x1.fep127"),
}  # fmt: skip
"""The largest finite number of each type."""


def _folded(name: str, call: Call) -> Value:
    first, *rest = call.xs()
    for other in rest:
        first = call.op(name, first, other)
    return first


for _name, _aten in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    op(_name)(partial(_folded, _aten))


@op("Mean")
def _mean(call: Call) -> Value:
    total = _folded("add", call)
    return call.op("div", total, len(call.inputs)) if len(call.inputs) > 1 else total


# Builders of casts (Cast, CastLike, BitCast), Identity and Constant.

op("Identity")(lambda call: call.held(0))
op("Cast")(lambda call: _converted(call, ELEMENT_TYPES.get(call.integer("to"), "unknown")))
op("CastLike")(lambda call: _converted(call, call.dtype(1) or "unknown"))


def _converted(call: Call, dtype: str) -> Result:
    held = call.held(0)
    if held.items is not None and dtype in ("int64", "int32"):
        return Held(items=held.items, is_scalar=held.is_scalar, dtype=dtype)
    x = call.x()
    refuse_if(dtype not in COMPUTED, f"it converts to {dtype}")
    if call.dtype() == "bool" or dtype != "bool":
        return call.cast(x, dtype)
    return call.op("ne", x, 0)


@op("BitCast")
def _bit_cast(call: Call) -> Value:
    dtype = ELEMENT_TYPES.get(call.integer("to"), "unknown")
    x = call.x()
    refuse_if(ITEM_SIZE.get(dtype) != ITEM_SIZE.get(str(call.dtype())) or dtype == "bool", f"it reinterprets {call.dtype()} as {dtype}")
    return call.op("view", x, CODES[dtype])


@op("Constant")
def _constant(call: Call) -> Result:
    """Returns its elements, under the name of its output."""
    title = str(call.node.output[0]) if call.node.output else ""
    for name, kind in (("value_float", np.float32), ("value_int", np.int64), ("value_string", object)):
        if name in call.attributes:
            return Held(array=np.array(call.attr(name), kind), name="" if kind is not object else title)
        if f"{name}s" in call.attributes:
            return Held(array=np.array(call.attr(f"{name}s"), kind), name=title)
    return Held(array=call.attr("sparse_value" if "sparse_value" in call.attributes else "value"), name=title)


# Builders of reductions and scans; in newer opsets the axes are an operand, which may be computed.

Axes = list[Item]
Reduce = Callable[[Call, Value, Axes, bool], Value]


def _reduce_sum(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    """Sums in the operand's own type, whereas `aten::sum` would widen integers."""
    dtype = str(call.dtype())
    return call.op("sum", x, axes, keep, None if dtype in FLOATS else CODES[dtype])


def _reduce_mean(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    refuse_if(call.dtype() not in FLOATS, "it truncates the mean of integers")
    return call.op("mean", x, axes, keep)


def _extreme(name: str, empty: float, call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    shape = extents_of(x) or ()
    reduced = [axis % len(shape) for axis in axes if isinstance(axis, int)] if shape else []
    refuse_if(0 in shape and len(reduced) != len(axes), "it may reduce no elements")
    if any(shape[axis] == 0 for axis in reduced):
        refuse_if(call.dtype() not in FLOATS or len(reduced) != len(axes), "it reduces no elements")
        sizes = [1 if i in reduced else call.size(x, i) for i in range(len(shape)) if keep or i not in reduced]
        return call.op("full", sizes, empty, CODES[str(call.dtype())], None, None, None)
    return call.op(name, x, axes, keep)


def _prod(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    dtype = CODES[str(call.dtype())]
    if len(axes) == 1:
        return call.op("prod", x, axes[0], keep, dtype)
    if not all(isinstance(axis, int) for axis in axes):
        raise Refused("its axes are known only at run time")
    rank = call.rank_of(x)
    for axis in sorted((call.wrap(int(axis), rank) for axis in axes), reverse=True):  # type: ignore[arg-type]
        x = call.op("prod", x, axis, keep, dtype)
    return x


def _sum_of(name: str, call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    """Sums what an op makes of the elements; for `mul`, their squares."""
    return _reduce_sum(call, call.op(name, *[x] * (2 if name == "mul" else 1)), axes, keep)


def _of_sum(name: str, reduce: Reduce, call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    return call.cast(call.op(name, reduce(call, x, axes, keep)), str(call.dtype()))


def _log_sum_exp(call: Call, x: Value, axes: Axes, keep: bool) -> Value:
    refuse_if(call.dtype() not in FLOATS, "it truncates the logarithm of integers")
    shape = extents_of(x) or ()
    if 0 in shape:
        return call.op("log", call.op("sum", call.op("exp", x), axes, keep, None))
    return call.op("logsumexp", x, axes, keep)


_REDUCTIONS: Final[dict[str, tuple[int, Reduce]]] = {
    "ReduceSum": (13, _reduce_sum), "ReduceMean": (18, _reduce_mean), "ReduceMax": (18, partial(_extreme, "amax", -inf)),
    "ReduceMin": (18, partial(_extreme, "amin", inf)), "ReduceProd": (18, _prod),
    "ReduceL1": (18, partial(_sum_of, "abs")), "ReduceSumSquare": (18, partial(_sum_of, "mul")),
    "ReduceL2": (18, partial(_of_sum, "sqrt", partial(_sum_of, "mul"))), "ReduceLogSum": (18, partial(_of_sum, "log", _reduce_sum)),
    "ReduceLogSumExp": (18, _log_sum_exp),
}  # fmt: skip
"""For each op, the opset from which on the axes are an operand, and the reduction."""
_UNCHANGED: Final = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
"""Over no axes these return their operand."""


def _reduced(reduce: Reduce, as_operand: int, call: Call) -> Result:
    axes = call.listed("axes", 1, since=as_operand) or []
    x, keep = call.x(), bool(call.integer("keepdims", 1))
    is_unchanged = call.node.op_type in _UNCHANGED
    if not axes and call.integer("noop_with_empty_axes", 0):  # each element by itself, along a new axis
        return x if is_unchanged else reduce(call, call.op("unsqueeze", x, -1), [-1], False)
    axes = axes or list(range(call.rank()))
    return x if not axes and is_unchanged else reduce(call, x, axes, keep)


for _name, (_since, _reduce) in _REDUCTIONS.items():
    op(_name)(partial(_reduced, _reduce, _since))


def _position(name: str, call: Call) -> Any:
    """Returns the first index of the extreme; the last one is the first in the flipped operand."""
    axis, keep = call.axis("axis", 0), bool(call.integer("keepdims", 1))
    x = call.x()
    if not call.integer("select_last_index", 0):
        return call.op(name, x, axis, keep)
    found = call.op(name, call.op("flip", x, [axis]), axis, keep)
    last = call.size(x, axis)
    end = last - 1 if isinstance(last, int) else call.op("sub", last, 1)
    return call.op("add", call.op("neg", found), end)


op("ArgMax")(partial(_position, "argmax"))
op("ArgMin")(partial(_position, "argmin"))


def _cumulated(name: str, start: int, call: Call) -> Value:
    """Accumulates along an axis; backwards means forwards on the flipped operand, exclusive means shifted by one."""
    x, axis = call.x(), call.items(1)[0]
    dtype = None if call.dtype() in FLOATS else CODES[str(call.dtype())]
    backwards, exclusive = call.integer("reverse", 0), call.integer("exclusive", 0)
    if backwards:
        x = call.op("flip", x, [axis])
    if exclusive:
        first = call.op("full_like", call.op("slice", x, axis, 0, 1, 1), start, None, None, None, None, None)
        x = call.op("cat", [first, call.op("slice", x, axis, 0, -1, 1)], axis)
    x = call.op(name, x, axis, dtype)
    return call.op("flip", x, [axis]) if backwards else x


op("CumSum")(partial(_cumulated, "cumsum", 0))
op("CumProd")(partial(_cumulated, "cumprod", 1))


# Builders of ops on sequences, which are lists of tensors, and optionals. An op that changes a sequence returns a new list.

op("SequenceEmpty")(lambda call: call.emit.op("prim::ListConstruct", type=ListType(TENSOR)))
op("SequenceConstruct")(lambda call: call.emit.list([call.any(index) for index in range(len(call.inputs))], TENSOR))
op("SequenceLength")(lambda call: Held(items=(call.op("len", _list(call, 0), type=INT),), is_scalar=True))
op("ConcatFromSequence")(lambda call: call.op("stack" if call.integer("new_axis", 0) else "cat", _list(call, 0), call.integer("axis")))


@op("SequenceAt")
def _at(call: Call) -> Value:
    sequence = _list(call, 0)
    assert isinstance(sequence.type, ListType)
    return call.op("__getitem__", sequence, call.items(1)[0], type=sequence.type.element)


@op("SequenceInsert")
def _insert(call: Call) -> Value:
    sequence, item = _list(call, 0), call.any(1)
    place = call.items(2)[0] if call.has(2) else None
    copy = call.op("list", sequence, type=ListType(TENSOR))
    if place is None:
        call.emit.ops("append", 1, copy, item, types=(ListType(TENSOR),))
    else:
        call.emit.ops("insert", 0, copy, place, item, types=())
    return copy


@op("SequenceErase")
def _erase(call: Call) -> Value:
    place = call.items(1)[0] if call.has(1) else -1
    copy = call.op("list", _list(call, 0), type=ListType(TENSOR))
    call.emit.ops("pop", 1, copy, place, types=(TENSOR,))
    return copy


@op("SplitToSequence")
def _split(call: Call) -> Value:
    x, axis = call.any(0), call.axis("axis", 0)
    if not call.has(1) and not call.integer("keepdims", 1):
        return call.op("unbind", x, axis, type=ListType(TENSOR))
    if not call.has(1) or call.rank(1) == 0:
        return call.op("split", x, call.items(1)[0] if call.has(1) else 1, axis, type=ListType(TENSOR))
    return call.op("split_with_sizes", x, call.items(1), axis, type=ListType(TENSOR))


def _list(call: Call, index: int) -> Value:
    found = call.any(index)
    if not isinstance(found.type, ListType):
        raise Refused(f"its input {index} is not a sequence")
    return found


@op("Optional")
def _optional(call: Call) -> Result:
    refuse_if(not call.has(0), "it creates an optional value without an element")
    return call.held(0)


@op("OptionalHasElement")
def _has_element(call: Call) -> Result:
    if not call.has(0):
        return Held(array=np.array(False))
    if not isinstance(call.type(), OptionalType):
        return Held(array=np.array(True))
    there = call.op("__isnot__", call.any(0), call.emit.constant(None, NONE), type=BOOL)
    return call.op("tensor", there, 11, None, False)


@op("OptionalGetElement")
def _get_element(call: Call) -> Result:
    type = call.type()
    if not isinstance(type, OptionalType):
        return call.held(0)
    return call.op("prim::unchecked_unwrap_optional", call.any(0), type=type.element)


# Builders of quantised ops, expressed exactly in `aten::` ops on plain integers.
#
# Torch's own quantised tensors have scale and zero point in their type, so `aten::quantize_per_tensor` has another meaning.

_RANGES: Final = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767)}


@op("DequantizeLinear")
def _dequantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    dtype = str(call.dtype(1)) if not call.integer("output_dtype", 0) else ELEMENT_TYPES.get(call.integer("output_dtype", 0), "")
    if dtype not in FLOATS or dtype != call.dtype(1):
        types = f"its result has elements of type {dtype}, its scale of type {call.dtype(1)}"
        raise Refused(f"{types}, not one floating-point type that aten:: ops compute with")
    scale = _spread(call, scale, 1)
    if call.has(2):
        zero = _spread(call, call.x(2), 2)
        x = call.op("sub", call.cast(x, "int32"), call.cast(zero, "int32"))
    return call.op("mul", call.cast(x, dtype), scale)


@op("QuantizeLinear")
def _quantize(call: Call) -> Value:
    x, scale = call.x(0), call.x(1)
    declared = ELEMENT_TYPES.get(call.integer("output_dtype", 0), "uint8")
    dtype = str(call.dtype(2)) if call.has(2) else declared
    if dtype not in _RANGES or call.dtype(0) != call.dtype(1) or call.integer("precision", 0):
        raise Refused(f"its result has elements of type {dtype}, which aten:: ops do not quantize to")
    steps = call.op("round", call.op("div", x, _spread(call, scale, 1)))
    if call.has(2):
        steps = call.op("add", steps, call.cast(_spread(call, call.x(2), 2), str(call.dtype(0))))
    return _saturated(call, steps, dtype)


def _saturated(call: Call, x: Value, dtype: str) -> Value:
    low, high = _RANGES[dtype]
    return call.cast(call.op("clamp", x, low, high), dtype)


def _spread(call: Call, parameter: Value, index: int) -> Value:
    """Reshapes a scale or zero point so that it broadcasts: per tensor, per index of an axis, or per block of an axis."""
    rank, own = call.rank(0), call.rank(index)
    if own == 0 or (own == 1 and call.shape(index) == (1,)):
        return parameter if own == 0 else call.op("reshape", parameter, [])
    axis, block = call.axis("axis", 1), call.integer("block_size", 0)
    if own == 1 and not block:
        return call.op("reshape", parameter, [-1 if i == axis else 1 for i in range(rank)])
    refuse_if(own != rank or not block, "its scale is neither per tensor, per axis nor per block")
    repeated = call.op("repeat_interleave", parameter, block, axis, None)
    return call.op("slice", repeated, axis, 0, call.size(call.x(0), axis), 1)


def _centred(call: Call, index: int, zero: int, dtype: str, *, along: int | None = None) -> Value:
    """Subtracts the zero point from an integer tensor; there may be one for each index along an axis."""
    x = call.cast(call.x(index), dtype)
    if not call.has(zero):
        return x
    point = call.cast(call.x(zero), dtype)
    if along is not None and call.rank(zero) == 1 and call.shape(zero) != (1,):
        rank = call.rank(index)
        point = call.op("reshape", point, [-1 if i == along % rank else 1 for i in range(rank)])
    return call.op("sub", x, point)


@op("MatMulInteger")
def _matmul_integer(call: Call) -> Value:
    return call.op("matmul", _centred(call, 0, 2, "int32", along=-2), _centred(call, 1, 3, "int32", along=-1))


@op("QLinearMatMul")
def _qlinear_matmul(call: Call) -> Value:
    """Multiplies matrices; the inputs are a, b, each with its scale and zero point, and those of the result."""
    a, b = _centred(call, 0, 2, "int32", along=-2), _centred(call, 3, 5, "int32", along=-1)
    product = call.cast(call.op("matmul", a, b), "float32")
    return _requantized(call, product)


def _requantized(call: Call, product: Value, channel: int | None = None) -> Value:
    """Requantises an exact product to the result's scale; the second scale may vary along the axis `channel`."""
    scales = [call.cast(call.x(index), "float32") for index in (1, 4, 6)]
    rank = call.rank_of(product)
    if channel is not None and call.rank(4) == 1:
        scales[1] = call.op("reshape", scales[1], [-1 if i == channel else 1 for i in range(rank)])
    elif call.shape(4) not in ((), (1,)):
        raise Refused("its scales are not per tensor")
    refuse_if(any(call.shape(index) not in ((), (1,)) for index in (1, 6)), "its scales are not per tensor")
    factor = call.op("div", call.op("mul", scales[0], scales[1]), scales[2])
    steps = call.op("round", call.op("mul", product, factor))
    dtype = str(call.dtype(7))
    refuse_if(dtype not in _RANGES, f"its result has elements of type {dtype}, which aten:: ops do not quantize to")
    return _saturated(call, call.op("add", steps, call.cast(call.x(7), "float32")), dtype)


@op("ConvInteger")
def _conv_integer(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 1, 3, "float64", along=0)
    return call.cast(_exact_conv(call, x, w, 1, None), "int32")


@op("QLinearConv")
def _qlinear_conv(call: Call) -> Value:
    x, w = _centred(call, 0, 2, "float64"), _centred(call, 3, 5, "float64", along=0)
    bias = call.cast(call.x(8), "float64") if call.has(8) else None
    return _requantized(call, call.cast(_exact_conv(call, x, w, 3, bias), "float32"), channel=1)


def _exact_conv(call: Call, x: Value, w: Value, weight: int, bias: Value | None) -> Value:
    """Computes an integer convolution in float64, which represents every int32 sum exactly."""
    spatial = call.rank(weight) - 2
    refuse_if(call.text("auto_pad", "NOTSET") != "NOTSET" or not 1 <= spatial <= 3, "its padding is not given")
    x = call.op("constant_pad_nd", x, last_axis_first(call.integers("pads", [0] * 2 * spatial)), 0)
    strides, dilations = call.integers("strides", [1] * spatial), call.integers("dilations", [1] * spatial)
    return call.op(f"conv{spatial}d", x, w, bias, strides, [0] * spatial, dilations, call.integer("group", 1))
