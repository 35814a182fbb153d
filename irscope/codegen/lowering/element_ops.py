"""The steps that define an element of a value in a group by elements of other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.errors import CodegenError
from irscope.ir import Node, TensorType, Value, make_value, new_id
from irscope.ops.expr import REDUCTIONS, Expr, NoExpression, affine, cast, input_element
from irscope.ops.nn.convolution import spread
from irscope.ops.numpy_layout import Unbounded
from irscope.ops.op import Op
from irscope.ops.traits import JOINS, LOGICAL, MAX_POOLS, PATCHES, SAME_PLACE
from irscope.ops.type_rules import contiguous_strides, like_strides, opmath, wrap_dim

# The five kinds of steps that define an element of a value in a group by elements of other values.
#
# A node becomes an expression of elements (`Compute`), a view of the same elements (`Seen`), several
# tensors concatenated (`Joined`), a tensor with a range replaced by another (`Patched`), or the largest elements of
# windows (`Pooled`).


@dataclass(frozen=True, eq=False)
class Compute:
    """A step whose every element is an expression of elements of its operands."""

    position: int
    """The node's place in the block."""
    expr: Expr
    operands: tuple[tuple[int, Value, int | None], ...]
    """For each leaf of the expression: its index, its value, and the axis of the result that it is aligned with,
    or None for the last axes. Arguments that the expression does not read (`other` of a `type_as`) are missing."""
    axes: tuple[int, ...] = ()
    """The axes of `shape` that it reduces."""
    shape: tuple[int, ...] = ()
    """For an expression with reductions: the extents of the op's first operand."""
    positions: bool = False
    """Whether it uses the positions of elements, as argmax does."""

    @cached_property
    def reads(self) -> tuple[tuple[int, Value, int | None, bool], ...]:
        """The operands, each with whether it is read inside a reduction; an operand read both inside and outside occurs twice."""
        found: set[tuple[int, bool]] = set()
        stack, seen = [(self.expr, False)], {(id(self.expr), False)}
        while stack:
            here, inside = stack.pop()
            if here.op in ("input", "scalar"):
                found.add((here.value, inside))
            for arg in () if here.op == "count" else here.args:
                key = (arg, inside or here.op in REDUCTIONS)
                if (id(arg), key[1]) not in seen:
                    seen.add((id(arg), key[1]))
                    stack.append(key)
        return tuple((*operand, inside) for operand in self.operands for inside in (False, True) if (operand[0], inside) in found)


@dataclass(frozen=True, eq=False)
class Seen:
    """A view of another value: an offset and a stride per dimension into its row-major order."""

    position: int
    operand: Value
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """Tensors concatenated along an axis; for `stack` along a new one, each with extent 1."""

    position: int
    parts: tuple[Value, ...]
    axis: int
    new_axis: bool


@dataclass(frozen=True, eq=False)
class Patched:
    """A tensor whose elements from `start` to before `stop` along an axis come from another tensor."""

    position: int
    whole: Value
    part: Value
    axis: int
    start: int
    stop: int
    without_axis: bool
    """Whether the part lacks the axis, as that of `select_scatter` does, which covers one index."""


@dataclass(frozen=True, slots=True)
class Window:
    """The indices along an axis of the elements of a window: `index * step - margin + n * gap` for each n below `size`."""

    size: int
    step: int
    margin: int
    gap: int


@dataclass(frozen=True, eq=False)
class Pooled:
    """The largest element of each window; indices outside the tensor are not part of the window."""

    position: int
    operand: Value
    windows: tuple[Window, ...]
    """One for each of the last axes."""


Step = Compute | Seen | Joined | Patched | Pooled


def _parts_of(expr: Expr) -> list[Expr]:
    """Return every subexpression once."""
    found, seen = [expr], {id(expr)}
    for here in found:
        for arg in here.args:
            if id(arg) not in seen:
                seen.add(id(arg))
                found.append(arg)
    return found


def leaves_of(expr: Expr) -> set[int]:
    """Return the indexes of the operands that an expression reads."""
    return {part.value for part in _parts_of(expr) if part.op in ("input", "scalar")}


def reductions_of(expr: Expr) -> set[str]:
    return {part.op for part in _parts_of(expr) if part.op in REDUCTIONS}


# Nodes of a group that compute nothing: their results are elements of their operands, in other places.
#
# A view is an offset and strides into its base. A join (`cat`, `stack`) concatenates tensors. `slice_scatter` and
# `select_scatter` replace a range of a tensor: with step 1, each element is read from one tensor or the other. The maximum of a
# window is one of its elements.


_Placed = tuple[Step, TensorType]


class KnownValues(Protocol):
    """What is known so far about the values of a group's block: `GroupValues`, while it walks the block."""

    known: dict[Value, Any]
    """Constants."""
    types: dict[Value, Any]
    lists: dict[Value, list[Any]]
    """Lists of tensors: values, or (step, type) for views without a value of their own."""

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the extents of a tensor; empty for a number."""

    def dtype(self, value: Value) -> str:
        """Return the element type. Raises CodegenError for one that kernels do not compute with."""

    def ruled(self, op: Op, node: Node, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the types of a node's results by the op's type rule; empty without one."""


def no_kernel(node: Node) -> CodegenError:
    """Return the error for a node that no kernel can compute."""
    return CodegenError(f"no kernel computes {node.op}", where=repr(node), rule="codegen-op")


def placed(values: KnownValues, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[_Placed]:
    """Return the step that locates the elements of each result, and its type; a view that returns a list has several results."""
    if node.op in JOINS:
        return [_joined(values, position, node, op, arguments)]
    if node.op in PATCHES:
        return [_patched(values, position, node, op, arguments)]
    if node.op in MAX_POOLS:
        return [_pooled(values, position, node, op, arguments)]
    if node.op in LOGICAL and op.type_rule is not None:
        return _viewed(values, position, node, op, arguments)
    raise no_kernel(node)


def _viewed(values: KnownValues, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[_Placed]:
    operand = node.inputs[0]
    if operand in values.known or not isinstance(values.types.get(operand), TensorType):
        raise no_kernel(node)
    types = values.ruled(op, node, arguments)
    if any(isinstance(type, TensorType) and type.dtype != values.types[operand].dtype for type in types):
        raise no_kernel(node)  # the same bytes as elements of another type; fusion forms no such group, but a text may have one
    if not all(isinstance(type, TensorType) and type.is_static for type in types):
        raise CodegenError(f"no kernel for {node.op}: the shape of its result is not known", where=repr(node), rule="codegen-view")
    made: list[_Placed] = []
    for (offset, strides), type in zip(_offsets_and_strides(values, node, op, arguments), types, strict=True):
        shape = tuple(int(size) for size in type.shape)
        laid = like_strides(shape, type.strides) if type.strides is not None else contiguous_strides(shape)
        made.append((Seen(position, operand, offset, strides), type.with_(strides=laid)))
    return made


def _offsets_and_strides(values: KnownValues, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[tuple[int, tuple[int, ...]]]:
    """Return offset and strides of each result as if the operand were row-major. Runs the op's reference on an array that
    has the shape and strides but only one byte of memory."""
    shape = values.shape(node.inputs[0])
    if node.op in SAME_PLACE:
        return [(0, contiguous_strides(shape))]
    probe = as_strided(_one_byte(), shape, contiguous_strides(shape), subok=True)
    given = {name: _probe_argument(values, node, argument, probe) for name, argument in arguments.items()}
    assert op.reference is not None
    found = op.reference(**given)
    start = probe.__array_interface__["data"][0]
    views = found if isinstance(found, list | tuple) else [found]
    return [(view.__array_interface__["data"][0] - start, view.strides) for view in views]


def _one_byte() -> np.ndarray[Any, Any]:
    """Return the one byte of memory behind the probes, which is never read."""
    return np.empty(1, np.int8).view(Unbounded)


def _probe_argument(values: KnownValues, node: Node, argument: Any, probe: np.ndarray[Any, Any]) -> Any:
    if not isinstance(argument, Value):
        return argument
    if argument in values.known:
        return values.known[argument]
    if argument is node.inputs[0]:
        return probe
    if isinstance(values.types.get(argument), TensorType):
        shape = values.shape(argument)
        return as_strided(_one_byte(), shape, contiguous_strides(shape), subok=True)
    raise CodegenError(f"the value of {argument!r}, which {node.op} depends on, is not known", where=repr(node), rule="codegen-view")


def _joined(values: KnownValues, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
    parts, dim = values.lists.get(node.inputs[0]), arguments["dim"]
    dim = values.known.get(dim) if isinstance(dim, Value) else dim
    if not parts or not isinstance(dim, int) or not all(isinstance(part, Value) for part in parts):
        raise CodegenError(f"the tensors that {node.op} joins, or the axis, are not known", where=repr(node))
    (type,) = values.ruled(op, node, {"tensors": node.inputs[0], "dim": dim})
    if not isinstance(type, TensorType) or not type.is_static or type.strides is None or type.shape is None:
        raise CodegenError(f"the type of {node.op} is not known", where=repr(node), rule="codegen-join")
    new_axis = node.op == "aten::stack"
    kept = tuple(part for part in parts if new_axis or len(values.shape(part)) == len(type.shape))
    return Joined(position, kept, wrap_dim(dim, len(type.shape), op=node.op), new_axis), type


def _patched(values: KnownValues, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
    whole, part = arguments["self"], arguments["src"]
    given: list[Any] = [
        values.known.get(argument) if isinstance(argument, Value) else argument
        for argument in map(arguments.get, ("dim", "index", "start", "end", "step"))
    ]
    dim, index, start, stop, step = given
    (type,) = values.ruled(op, node, arguments)
    shape = values.shape(whole)
    if not isinstance(type, TensorType) or type.strides is None or type.dtype != values.dtype(part):
        raise CodegenError(
            f"no kernel for {node.op}: its result's layout is not known, or its element type differs from that of `src`",
            where=repr(node),
            rule="codegen-patch",
        )
    axis = wrap_dim(dim, len(shape), op=node.op)
    one = node.op == "aten::select_scatter"
    if one:
        start = index + shape[axis] if index < 0 else index
        stop = start + 1
    else:
        start, stop, _ = slice(start, stop).indices(shape[axis])
    own = (*shape[:axis], *(() if one else (max(stop - start, 0),)), *shape[axis + 1 :])
    if step not in (None, 1) or (one and not 0 <= start < shape[axis]) or own != values.shape(part) or part in values.known:
        raise CodegenError(f"{node.op} does not replace one contiguous range", where=repr(node), rule="codegen-patch")
    return Patched(position, whole, part, axis, start, stop, one), type.with_(shape=shape)


def _pooled(values: KnownValues, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
    given = {name: values.known.get(value) if isinstance(value, Value) else value for name, value in arguments.items() if name != "self"}
    if None in given.values():
        raise CodegenError(f"the windows of {node.op} are not known", where=repr(node), rule="codegen-view")
    (type,) = values.ruled(op, node, arguments)
    if not isinstance(type, TensorType) or not type.is_static or type.strides is None:
        raise CodegenError(f"the layout of the result of {node.op} is not known", where=repr(node), rule="codegen-layout")
    axes = int(node.op[-2])
    sizes, margins, gaps = (spread(given[name], axes) for name in ("kernel_size", "padding", "dilation"))
    steps = spread(given["stride"], axes) if given["stride"] not in ((), []) else sizes
    windows = tuple(map(Window, sizes, steps, margins, gaps))
    return Pooled(position, arguments["self"], windows), type


# Normalizations that reduce each group of channels separately (`Op.channel_parts`): group norm, instance norm.
#
# One kernel in five steps: cast the input to the compute type, view it as (batch, part, rest), normalise along the last
# axis by the op's expression, view the result with the input's shape, and scale channel by channel. The views cost nothing.


class _Values(Protocol):
    """The part of `GroupValues` that this module uses."""

    known: dict[Value, Any]
    types: dict[Value, Any]
    steps: dict[Value, Step]

    def shape(self, value: Value) -> tuple[int, ...]: ...
    def dtype(self, value: Value) -> str: ...


Operands = list[tuple[int, Value, int | None]]


def normalized_in_parts(values: _Values, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> tuple[Expr, Operands]:
    """Return the expression of the node's result and its operands; the steps before it are added to `values.steps`."""
    assert op.channel_parts is not None
    assert op.expression is not None
    known = _known(values, arguments)
    operand = arguments["input"]
    shape, dtype = values.shape(operand), values.dtype(operand)
    if len(shape) < 2 or 0 in shape:
        raise no_kernel(node)
    compute = opmath(dtype)
    try:
        parts = op.channel_parts(channels=shape[1], **known)
        rows = (shape[0], parts, prod(shape[1:]) // parts)
        expr = op.expression(**{**known, "input": input_element(0, compute, rank=3)})
    except NoExpression:
        raise no_kernel(node) from None

    def step(extents: tuple[int, ...], made: Callable[[], Step]) -> Value:
        value = make_value(new_id(), node.output.type, node.output.name)
        values.types[value] = TensorType(compute, extents, contiguous_strides(extents))
        values.steps[value] = made()
        return value

    whole = cast(input_element(0, dtype, rank=len(shape)), compute)
    wide = step(shape, lambda: Compute(position, whole, ((0, operand, None),)))
    seen = step(rows, lambda: Seen(position, wide, 0, contiguous_strides(rows)))
    normal = step(rows, lambda: Compute(position, expr, ((0, seen, None),), (2,), rows))
    back = step(shape, lambda: Seen(position, normal, 0, contiguous_strides(shape)))
    operands: Operands = [(0, back, None)]
    scales: list[Expr | None] = []
    for name in ("weight", "bias"):
        vector = arguments.get(name)
        if known.get(name) is not None:  # a constant
            raise no_kernel(node)
        if name in known or not isinstance(vector, Value):
            scales.append(None)
            continue
        scales.append(input_element(len(operands), values.dtype(vector), rank=1))
        operands.append((len(operands), vector, op.operand_axes[name]))
    return cast(affine(input_element(0, compute, rank=len(shape)), *scales), dtype), operands


def _known(values: _Values, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are known, by name."""
    found = {name: values.known.get(a, a) if isinstance(a, Value) else a for name, a in arguments.items()}
    return {name: a for name, a in found.items() if not isinstance(a, Value)}
