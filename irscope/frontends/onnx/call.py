"""One ONNX node as its op's builder sees it: the meanings of its inputs, its attributes, and the means to append `aten::` nodes.

A request that cannot be met raises `Refused`, and the node stays an `onnx::` op.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.errors import LoadError
from irscope.frontends import emit
from irscope.frontends.emit import CODES, Refused, refuse_if
from irscope.frontends.onnx.types import COMPUTED, dense_of, elements_of, proto_of, schema_of_op
from irscope.ir import INT, TENSOR, Dim, TensorData, TensorType, Type, Value
from irscope.ir.payload import element_name

# The meaning of one name of a model: a value of the graph, known elements, or integers of the graph.
#
# ONNX computes shapes with int64 tensors (Shape, Gather, Concat, Reshape), where `aten::` has plain integers. `items`
# keeps such a tensor as its integers, so that `aten::reshape` gets `[%n, 3, -1]` and not a tensor that must be unpacked
# again. The tensor itself is built only if an op needs one, in the block that needs it.

Item = int | Value
"""An integer: known, or an `int` of the graph."""


@dataclass(eq=False, slots=True)
class Held:
    """The meaning of one name. At least one of `value`, `array`, `items` and `load` is set."""

    value: Value | None = None
    array: np.ndarray[Any, Any] | None = None
    """The elements, if they are in the model."""
    items: tuple[Item, ...] | None = None
    """The elements of an integer tensor of rank 0 or 1."""
    is_scalar: bool = False
    """Whether the rank of `items` is 0."""
    name: str = ""
    dtype: str = "int64"
    """The element type of `items`."""
    load: Callable[[], np.ndarray[Any, Any]] | None = None
    """Reads the elements of a large initialiser when they are first needed."""
    is_weight: bool = False
    """Whether it is an initialiser, and so a bound input even if small; of rank 0 it is a constant."""
    declared: Type = field(default=TENSOR)
    """The type of a tensor that is not a value yet."""

    @property
    def type(self) -> Type:
        """The type of the tensor as far as it is known."""
        if self.value is not None:
            return self.value.type
        if self.array is not None:
            return TensorType(element_name(self.array), self.array.shape)
        if self.items is not None:
            return TensorType(self.dtype, () if self.is_scalar else (len(self.items),))
        return self.declared

    def known(self) -> np.ndarray[Any, Any] | None:
        if self.array is None and self.load is not None:
            self.array, self.load = self.load(), None
        if self.array is None and self.items is not None and all(isinstance(item, int) for item in self.items):
            flat = np.array(self.items, self.dtype)
            self.array = flat.reshape(()) if self.is_scalar else flat
        return self.array


# Turns the meanings of a model's names into values of the graph, where an op needs them, and reads attributes.

_SMALL: Final = 16
"""The most elements of a constant node; a larger constant becomes a bound input."""


class Emitter(emit.Emitter):
    """The emitter of ONNX's builders, with the inputs bound so far, and the folder of files with external elements."""

    def __init__(self, name: str, folder: Path | None) -> None:
        super().__init__(name)
        self.folder = folder
        self.bound: dict[Value, Any] = {}

    def value_of(self, held: Held) -> Value:
        """Returns the tensor, created here if it does not exist yet."""
        if held.value is not None:
            return held.value
        array = held.known()
        if array is None:
            assert held.items is not None  # integers of the graph
            item = held.items[0] if held.is_scalar else self.list(held.items, INT)
            return self.op("tensor", item, CODES[held.dtype], None, False, type=held.type)
        if array.size > _SMALL or (held.is_weight and array.ndim):
            held.value = self.input(held.name, TensorType(element_name(array), array.shape))
            self.bound[held.value] = array
            while isinstance(array, np.ndarray):  # the reader's own: a program may keep what it makes of it
                array.flags.writeable = False
                array = array.base
            return held.value
        return self.small(array)

    def small(self, array: np.ndarray[Any, Any]) -> Value:
        """Returns a small constant tensor."""
        dtype = element_name(array)
        held = array.view(np.uint16) if dtype == "bfloat16" else array
        return self.constant(TensorData(dtype, array.shape, held), TensorType(dtype, array.shape))

    def items_of(self, held: Held, what: str) -> Sequence[Item]:
        """Returns the elements of an integer tensor of rank 0 or 1 and known length as integers of the graph."""
        if held.items is not None:
            return held.items
        known = held.known()
        if known is not None:
            refuse_if(known.ndim > 1 or known.dtype.kind not in "iu", f"{what} is not a list of whole numbers")
            return [int(item) for item in known.reshape(-1)]
        type = held.type
        if not isinstance(type, TensorType) or type.shape is None or len(type.shape) > 1:
            raise Refused(f"{what} is not known to have rank 0 or 1")
        value = self.value_of(held)
        if not type.shape:
            return [self.op("Int", value, type=INT)]
        (length,) = type.shape
        if not isinstance(length, int) or length > 64:
            raise Refused(f"the length of {what} is not known, or more than 64")
        taken = [self.op("select", value, 0, index) for index in range(length)]
        return [self.op("Int", item, type=INT) for item in taken]

    def attribute(self, proto: Any) -> Any:
        """Returns an attribute's value as a Python value; tensors as arrays."""
        import onnx

        kind = proto.type
        if kind == onnx.AttributeProto.TENSOR:
            return elements_of(proto.t, self.folder, f"the attribute {proto.name!r}")
        if kind == onnx.AttributeProto.TENSORS:
            return [elements_of(item, self.folder, f"the attribute {proto.name!r}") for item in proto.tensors]
        if kind == onnx.AttributeProto.SPARSE_TENSOR:
            return dense_of(proto.sparse_tensor, self.folder, f"the attribute {proto.name!r}")
        try:
            found = onnx.helper.get_attribute_value(proto)
        except (ValueError, NotImplementedError) as error:
            raise LoadError(f"the attribute {proto.name!r} cannot be read: {error}") from None
        if isinstance(found, bytes):
            return _text(found, proto.name)
        if kind in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
            return list(found)
        if kind == onnx.AttributeProto.STRINGS:
            return [_text(item, proto.name) for item in found]
        return found


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(f"the attribute {name!r} is not UTF-8 text: {error.reason} at byte {error.start}") from None


Result = Value | Held
"""What a builder returns for one output."""

_REQUIRED: Final = object()


class Call:
    """A node, with the meanings of its inputs."""

    def __init__(self, emit: Emitter, node: Any, inputs: Sequence[Held | None], opset: int) -> None:
        self.emit, self.op, self.ops = emit, emit.op, emit.ops
        self.node = node
        self.inputs = inputs
        self.opset = opset
        """The version of the op's domain that the model uses."""
        self.attributes = {attribute.name: attribute for attribute in node.attribute}
        self.outputs = len(node.output)

    # Inputs

    def has(self, index: int) -> bool:
        """Check whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def held(self, index: int) -> Held:
        """Return an input. Raises Refused if it is not given."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise Refused(f"its input {index} is not given")
        return found

    def x(self, index: int = 0) -> Value:
        """Return an input as a tensor. Raises Refused for an element type that `aten::` ops do not compute with."""
        made = self.any(index)
        dtype = self.dtype(index)
        refuse_if(dtype not in COMPUTED, f"its input {index} has element type {dtype or 'unknown'}, which aten:: ops do not compute with")
        return made

    def any(self, index: int = 0) -> Value:
        """Return an input of any type as a value."""
        return self.emit.value_of(self.held(index))

    def xs(self) -> list[Value]:
        """Return all inputs as tensors."""
        return [self.x(index) for index in range(len(self.inputs))]

    def type(self, index: int = 0) -> Type:
        return self.held(index).type

    def dtype(self, index: int = 0) -> str | None:
        """Return the element type of an input; None if it is not known."""
        type = self.type(index)
        return type.dtype if isinstance(type, TensorType) else None

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the extents of an input. Raises Refused if its rank is not known."""
        return shape_of(self.type(index), f"its input {index}")

    def rank(self, index: int = 0) -> int:
        return len(self.shape(index))

    def axis(self, name: str, default: int | None = None, index: int = 0, extra: int = 0) -> int:
        """Return an axis attribute of an input, counted from the front."""
        return self.wrap(self.integer(name, default), self.rank(index) + extra)

    def wrap(self, axis: int, rank: int) -> int:
        refuse_if(not -rank <= axis < max(rank, 1), f"there is no axis {axis} in rank {rank}")
        return axis % rank if rank else 0

    def known(self, index: int) -> np.ndarray[Any, Any]:
        """Return the elements of an input. Raises Refused if they are not in the model."""
        found = self.held(index).known()
        if found is None:
            raise Refused(f"the elements of its input {index} are known only at run time")
        return found

    def known_ints(self, index: int) -> list[int]:
        """Return the elements of an input of integers, as `known` does."""
        return [int(item) for item in self.known(index).reshape(-1)]

    def items(self, index: int) -> list[Item]:
        """Return the integers in an input of rank 0 or 1, read from the tensor at run time if they are not in the model."""
        return list(self.emit.items_of(self.held(index), f"its input {index}"))

    def number(self, index: int) -> Any:
        """Return the one element of an input, as a known number or a value of the graph."""
        held = self.held(index)
        known = held.known()
        if known is not None and known.size == 1:
            return known.reshape(()).item()
        if held.items is not None and len(held.items) == 1:
            return held.items[0]
        value = self.x(index)
        if self.type(index) == TensorType(self.dtype(index), (1,)):
            value = self.emit.op("select", value, 0, 0)
        dtype = self.dtype(index) or ""
        op = "Bool" if dtype == "bool" else "Float" if "float" in dtype else "Int"
        return self.emit.op(op, value)

    # Attributes

    def attr(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return an attribute as a Python value, with text decoded; the default if the node omits it."""
        found = self.attributes.get(name)
        if found is None:
            refuse_if(default is _REQUIRED, f"its attribute {name} is not given")
            return default
        return self.emit.attribute(found)

    def integer(self, name: str, default: int | None = None) -> int:
        found = self.attr(name, _REQUIRED if default is None else default)
        if not isinstance(found, int):
            raise Refused(f"its attribute {name} is not a whole number")
        return found

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        found = self.attr(name, _REQUIRED if default is None else default)
        if not isinstance(found, list | tuple) or not all(isinstance(item, int) for item in found):
            raise Refused(f"its attribute {name} is not a list of whole numbers")
        return list(found)

    def listed(self, name: str, index: int, since: int) -> list[Item] | None:
        """Return whole numbers that are an attribute before an opset and an operand from it on; None if they are not given."""
        if self.opset >= since:
            return self.items(index) if self.has(index) else None
        return list(self.integers(name)) if name in self.attributes else None

    def text(self, name: str, default: str) -> str:
        return str(self.attr(name, default))

    # Appending

    def cast(self, x: Value, dtype: str) -> Value:
        """Return a tensor cast to an element type; itself if it has that type."""
        if isinstance(x.type, TensorType) and x.type.dtype == dtype:
            return x
        return self.op("to", x, CODES[dtype], False, False, None)

    def scalar(self, number: float | int | bool, dtype: str) -> Value:
        """Return a constant tensor of rank 0."""
        if dtype == "bfloat16":
            import ml_dtypes  # which onnx installs

            return self.emit.small(np.array(number, ml_dtypes.bfloat16))
        return self.emit.small(np.array(number, dtype))

    def size(self, x: Value, axis: int) -> Item:
        """Return one extent: a number if it is known."""
        shape = extents_of(x)
        if shape is not None and isinstance(extent := shape[axis], int):
            return extent
        made = self.op("size", x, axis, type=INT)
        if shape is not None and isinstance(symbol := shape[axis], str):
            self.emit.symbols[made] = symbol
        return made

    def rank_of(self, x: Value) -> int:
        return len(shape_of(x.type, "an intermediate tensor"))


def extents_of(x: Value) -> tuple[Dim, ...] | None:
    """Return the extents of a tensor; None if its rank is not known."""
    return x.type.shape if isinstance(x.type, TensorType) else None


def shape_of(type: Type, what: str) -> tuple[Dim, ...]:
    """Return the extents of a tensor. Raises Refused if its rank is not known."""
    if not isinstance(type, TensorType) or type.shape is None:
        raise Refused(f"the rank of {what} is not known")
    return type.shape


def last_axis_first(pads: Sequence[int]) -> list[int]:
    """Orders pads as `aten::` ops do: the last axis first, with a start and an end each."""
    half = len(pads) // 2
    return [pad for axis in reversed(range(half)) for pad in (pads[axis], pads[axis + half])]


# Folds arithmetic on shapes while the model is read: known integers are computed, others stay integers of the graph.
#
# `Reshape(x, Concat(Gather(Shape(x), 0), [-1]))` is ONNX's form of `x.reshape(x.shape[0], -1)`. Only short vectors of
# integers and flags are considered. Entirely known operands are computed by ONNX's own reference implementation.

_MAX: Final = 64
_BOUNDED: Final = frozenset(
    """
    Abs Add And Cast CastLike Concat Div Equal Gather Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Neg Not Or
    ReduceMax ReduceMin ReduceProd ReduceSum Reshape Sign Slice Squeeze Sub Transpose Unsqueeze Where Xor""".split()
)
"""Ops whose results are not larger than their operands broadcast together."""
_ON_NUMBERS: Final[Mapping[str, str]] = {"Add": "add", "Sub": "sub", "Mul": "mul", "Min": "prim::min", "Max": "prim::max"}


def fold(call: Call) -> Held | None:
    """Returns the result of an op on integers, known or of the graph; None for anything else."""
    name = call.node.op_type
    if call.outputs != 1 or not all(_is_short(held) for held in call.inputs):
        return None
    if name in _BOUNDED and call.inputs:
        known = [None if held is None else held.known() for held in call.inputs]
        if all(array is not None or held is None for array, held in zip(known, call.inputs, strict=True)):
            return _computed(call, known)
    if name == "Range":
        return _range(call)
    return _on_numbers(call, _ON_NUMBERS[name]) if name in _ON_NUMBERS else None


def _is_short(held: Held | None) -> bool:
    """Checks whether an operand is a short vector of integers or flags that needs no tensor."""
    if held is None or held.items is not None:
        return True
    type = held.type
    if held.value is not None and held.array is None:
        return False
    if not isinstance(type, TensorType) or type.dtype not in ("int64", "int32", "bool"):
        return False
    return type.numel is not None and type.numel <= _MAX


def _computed(call: Call, known: list[np.ndarray[Any, Any] | None]) -> Held | None:
    from onnx.reference import ReferenceEvaluator

    try:
        made = ReferenceEvaluator(call.node, opsets={"": call.opset})
        names = dict(zip(call.node.input, known, strict=True))
        (found,) = made.run(None, {name: array for name, array in names.items() if name})
    except Exception:  # the op itself will fail on these operands when it runs
        return None
    array = np.asarray(found)
    if array.dtype.kind not in "ib" or array.size > _MAX * _MAX:
        return None
    return Held(array=array, name=str(call.node.output[0]))


def _range(call: Call) -> Held | None:
    known = [held.known() if held is not None else None for held in call.inputs]
    if len(known) != 3 or any(array is None or array.size != 1 or array.dtype.kind != "i" for array in known):
        return None
    start, end, step = (int(array.reshape(())) for array in known if array is not None)
    if not step or len(places := range(start, end, step)) > _MAX:
        return None
    return Held(array=np.array(places, call.dtype(0) or "int64"), name=str(call.node.output[0]))


def _on_numbers(call: Call, op: str) -> Held | None:
    """Applies an op elementwise to vectors whose lengths are equal or 1."""
    rows = [_numbers(held) for held in call.inputs]
    if len(rows) != 2 or rows[0] is None or rows[1] is None:
        return None
    length = max(len(rows[0]), len(rows[1]))
    if any(len(row) not in (1, length) for row in rows if row is not None) or not rows[0] or not rows[1]:
        return None
    pairs = [(rows[0][i % len(rows[0])], rows[1][i % len(rows[1])]) for i in range(length)]
    scalar = all(held is not None and isinstance(held.type, TensorType) and held.type.shape == () for held in call.inputs)
    items = tuple(_one(call, op, a, b) for a, b in pairs)
    return Held(items=items, is_scalar=scalar, dtype=call.dtype(0) or "int64")


def _one(call: Call, op: str, a: Item, b: Item) -> Item:
    if isinstance(a, Value) or isinstance(b, Value):
        return call.op(op, a, b, type=INT)
    return {"add": a + b, "sub": a - b, "mul": a * b}.get(op, min(a, b) if op == "prim::min" else max(a, b))


def _numbers(held: Held | None) -> list[Item] | None:
    if held is None:
        return None
    if held.items is not None:
        return list(held.items)
    known = held.known()
    return None if known is None or known.ndim > 1 or known.dtype.kind != "i" else [int(item) for item in known.reshape(-1)]


# The table of builders: which one handles an ONNX op from which opset on, over the files `ops_*`.
#
# A builder takes a `Call`, appends `aten::` nodes, and returns one result for each output that it produces. It raises
# `Refused` if the op, as it is used, has no faithful `aten::` meaning. An op whose meaning changed has several rows.

Builder = Callable[[Call], Result | Sequence[Result]]
_TABLE: Final[dict[str, list[tuple[int, Builder]]]] = {}
"""Maps an op's name to rows: the first opset of a builder, and the builder."""
_FAMILIES: Final = ("pointwise", "shape", "nn")
_OLDEST: Final = 7
"""In older opsets only ops that are unchanged in this one are supported: broadcasting was an attribute then."""


def op(*names: str, since: int = 1) -> Callable[[Builder], Builder]:
    """Registers a builder of these ops, from an opset on."""

    def enter(builder: Builder) -> Builder:
        for name in names:
            _TABLE.setdefault(name, []).append((since, builder))
        return builder

    return enter


@cache
def builders() -> Mapping[str, Sequence[tuple[int, Builder]]]:
    """Returns all rows by op name, the oldest first."""
    for family in _FAMILIES:
        importlib.import_module(f"irscope.frontends.onnx.ops_{family}")
    return {name: tuple(sorted(rows, key=lambda row: row[0])) for name, rows in _TABLE.items()}


def _version(name: str, opset: int) -> int:
    """Returns the opset that introduced the version of an op in a given opset."""
    schema = schema_of_op(name, "ai.onnx", opset)
    return 0 if schema is None else int(schema.since_version)


def rule_for(domain: str, name: str, opset: int) -> Builder | None:
    """Returns the builder of an op of ONNX's own domain in an opset; None if there is none."""
    if domain != "ai.onnx" or (opset < _OLDEST and _version(name, opset) != _version(name, _OLDEST)):
        return None
    rows = [builder for since, builder in builders().get(name, ()) if since <= opset]
    return rows[-1] if rows else None


def definition_of(call: Call, domain: str) -> Any:
    """Returns the FunctionProto by which ONNX defines an op; None for an op that it does not define by others."""
    import onnx

    schema = schema_of_op(call.node.op_type, domain, call.opset)
    depends = schema is not None and schema.has_context_dependent_function
    known = () if schema is None else schema.context_dependent_function_opset_versions if depends else schema.function_opset_versions
    version = max((each for each in known if each <= call.opset), default=None)
    if version is None:
        return None
    if not depends:
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
    protos = [onnx.TypeProto() if held is None else proto_of(held.type) for held in call.inputs]
    if None in protos:
        return None
    types = [bytes(proto.SerializeToString()) for proto in protos]
    try:
        content = schema.get_context_dependent_function_with_opset_version(version, call.node.SerializeToString(), types)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
        return None
    return onnx.FunctionProto.FromString(content) if content else None
