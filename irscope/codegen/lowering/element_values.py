"""The values of a fusion group's block: the type of each, and the step that defines its elements by elements of other values.

A node becomes an expression of elements (`Compute`), a view of the same elements (`Seen`), several
tensors concatenated (`Joined`), a tensor with a range replaced by another (`Patched`), or the largest elements of
windows (`Pooled`). Nodes that build lists of tensors only pass them on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.codegen.kernel import ITEM_SIZE
from irscope.errors import CodegenError, IrscopeError
from irscope.ir import BOOL, FLOAT, INT, NUMBER, Block, Node, TensorData, TensorType, Type, Value, constant_value, make_value, new_id
from irscope.ops.accuracy import why_inexact
from irscope.ops.expr import POSITIONS, REDUCTIONS, Expr, NoExpression, affine, cast, const, input_element, number, reduced_axes
from irscope.ops.expr.expression import subexpressions
from irscope.ops.nn.convolution import spread
from irscope.ops.numpy_layout import Unbounded, laid_out_like
from irscope.ops.op import Op
from irscope.ops.registry import bind, op_of
from irscope.ops.traits import JOINS, LAID_OUT_LIKE_FIRST, LAID_OUT_LIKE_INPUT_ON_CPU, LOGICAL, MAX_POOLS, PATCHES, SAME_PLACE
from irscope.ops.type_rules import (
    Unknown,
    channels_last_strides,
    contiguous_strides,
    iterator_strides,
    like_strides,
    opmath,
    static_shape,
    suggests_channels_last,
    wrap_dim,
)


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


def leaves_of(expr: Expr) -> set[int]:
    """Return the indexes of the operands that an expression reads."""
    return {part.value for part in subexpressions([expr]) if part.op in ("input", "scalar")}


_Placed = tuple[Step, TensorType]
Operands = list[tuple[int, Value, int | None]]
_NUMBERS: Final[Mapping[Type, str]] = {INT: "int64", FLOAT: "float64", BOOL: "bool", NUMBER: "float64"}


class GroupValues:
    """The constants, types and steps of all values of a block."""

    def __init__(self, block: Block, types: Sequence[Type], *, exact: bool = False) -> None:
        """`exact`: accept only ops whose results equal torch's bit for bit."""
        self.exact = exact
        if len(types) != len(block.params):
            raise CodegenError(f"the group has {len(block.params)} inputs, and {len(types)} types were given")
        self.block = block
        self.params = {value: index for index, value in enumerate(block.params)}
        self.types: dict[Value, Any] = dict(zip(block.params, map(_concrete, types), strict=True))
        self.known: dict[Value, Any] = {}
        self.steps: dict[Value, Step] = {}
        self.unknown_layouts: set[Value] = set()
        """Results whose dimension order is known but whose gaps are not; inside a kernel they have no memory, so gaps do not matter."""
        self.lists: dict[Value, list[Any]] = {}
        """Lists of tensors: values, or (step, type) for views without a value of their own."""
        for position, node in enumerate(block.nodes):
            self._node(position, node)

    def tensor_type(self, value: Value) -> TensorType:
        found = self.types.get(value)
        if not isinstance(found, TensorType):
            raise CodegenError(f"{value!r} is an output of a fusion group and is not a tensor", rule="codegen-output")
        if value in self.unknown_layouts:
            raise CodegenError(f"the strides of {value!r}, an output of the group, are not known", rule="codegen-layout")
        return found

    def layout(self, value: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return shape and strides; both are empty for a number."""
        type = self.types.get(value)
        if not isinstance(type, TensorType):
            return (), ()
        assert type.strides is not None
        return _extents(type), type.strides

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return the extents of a tensor; empty for a number."""
        return self.layout(value)[0]

    def dtype(self, value: Value) -> str:
        """Return the element type of a tensor, or the type of a number. Raises CodegenError for one that kernels do not compute with."""
        type = self.types.get(value)
        dtype = type.dtype if isinstance(type, TensorType) else _NUMBERS.get(type) if type is not None else None
        if dtype not in ITEM_SIZE:
            raise CodegenError(f"kernels do not compute with {dtype or type}", where=repr(value), rule="codegen-dtype")
        return dtype

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, position: int, node: Node) -> None:
        if node.op == "prim::Constant":
            self.known[node.output] = _payload(node)
            return
        if node.op in ("prim::ListConstruct", "prim::TupleConstruct"):
            if all(value in self.known for value in node.inputs):
                self.known[node.output] = [self.known[value] for value in node.inputs]
            else:
                self.lists[node.output] = list(node.inputs)
            return
        if node.op in ("prim::ListUnpack", "prim::TupleUnpack") and node.inputs[0] in self.lists:
            parts = self.lists[node.inputs[0]]
            if len(parts) != len(node.outputs):
                raise CodegenError(f"a list of {len(parts)} is unpacked as {len(node.outputs)}", where=repr(node), rule="codegen-list")
            for output, element in zip(node.outputs, parts, strict=True):
                self._element(position, output, element)
            return
        op, arguments = op_of(node), bind(node)
        if op is None or not arguments:
            raise no_kernel(node)
        if node.op == "aten::__getitem__" and node.inputs[0] in self.lists and node.inputs[1] in self.known:
            parts, place = self.lists[node.inputs[0]], self.known[node.inputs[1]]
            if not -len(parts) <= place < len(parts):
                raise CodegenError(f"index {place} is out of range for a list of {len(parts)}", where=repr(node), rule="codegen-list")
            self._element(position, node.output, parts[place])
        elif op.channel_parts is not None:
            self._in_parts(position, node, op, arguments)
        elif op.expression is not None:
            self._compute(position, node, op, arguments)
        else:
            results = self._placed(position, node, op, arguments)
            if not isinstance(node.outputs[0].type, TensorType):
                self.lists[node.output] = results
            else:
                ((self.steps[node.output], self.types[node.output]),) = results

    def _element(self, position: int, output: Value, element: Any) -> None:
        """Record a value that is one tensor of a list."""
        if isinstance(element, Value):
            self.types[output] = self.types[element]
            self.steps[output] = Seen(position, element, 0, contiguous_strides(self.shape(element)))
        else:
            self.steps[output], self.types[output] = element

    def _compute(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> None:
        leaves: Operands = []
        given: dict[str, Any] = {}
        for name, argument in arguments.items():
            if not isinstance(argument, Value) or argument in self.known:
                given[name] = self.known[argument] if isinstance(argument, Value) else argument
                continue
            is_tensor, dtype = isinstance(self.types.get(argument), TensorType), self.dtype(argument)
            rank = len(self.shape(argument))
            given[name] = input_element(len(leaves), dtype, rank=rank) if is_tensor else number(len(leaves), dtype)
            leaves.append((len(leaves), argument, op.operand_axes.get(name)))
        assert op.expression is not None
        try:
            made = op.expression(**given)
        except CodegenError as error:
            raise CodegenError(error.what, where=repr(node), rule=error.rule, hint=error.hint) from None
        exprs = made if isinstance(made, tuple) else (made,)
        if self.exact and (why := why_inexact(node.op, exprs)):
            raise CodegenError(f"{node.op} {why}", where=repr(node), rule="inexact")
        types = self._results(op, node, arguments, exprs, leaves)
        for output, expr, type in zip(node.outputs, exprs, types, strict=True):
            used = leaves_of(expr)
            operands = tuple(leaf for leaf in leaves if leaf[0] in used)
            axes, kinds = reduced_axes(expr), {part.op for part in subexpressions([expr]) if part.op in REDUCTIONS}
            shape = self.shape(leaves[0][1]) if axes else ()
            if kinds & _PEAKS and 0 in [shape[axis] for axis in axes]:
                raise CodegenError("cannot take the maximum over an empty axis", where=repr(node), rule="codegen-empty")
            self.steps[output] = Compute(position, expr, operands, axes, shape, bool(kinds & POSITIONS))
            self.types[output] = type

    def _in_parts(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> None:
        """Record a normalization of groups of channels, whose results never equal torch's bit for bit."""
        if self.exact:
            raise CodegenError(f"{node.op} adds up in another order than torch", where=repr(node), rule="inexact")
        expr, operands = self._normalized_in_parts(position, node, op, arguments)
        (type,) = self._results(op, node, arguments, [expr], operands)
        if node.op in LAID_OUT_LIKE_INPUT_ON_CPU and isinstance(type, TensorType) and arguments["input"].type.device == "cpu":
            shape, strides = self.layout(arguments["input"])  # the device is that of the declared type
            type = type.with_(strides=channels_last_strides(shape)) if suggests_channels_last(shape, strides) else type
        self.types[node.output] = type
        self.steps[node.output] = Compute(position, expr, tuple(operands))

    def _results(
        self, op: Op, node: Node, arguments: Mapping[str, Any], exprs: Sequence[Expr], leaves: Sequence[tuple[int, Value, int | None]]
    ) -> list[Type]:
        """Return the types of a node's results by the op's rule, or by that of elementwise ops where it leaves something unknown."""
        if not any(isinstance(self.types.get(v), TensorType) for v in arguments.values() if isinstance(v, Value)):
            return [{"int64": INT, "float64": FLOAT, "bool": BOOL}[expr.dtype] for expr in exprs]
        ruled = self.ruled(op, node, arguments)
        found: list[Type] = []
        for place, expr in enumerate(exprs):
            type = ruled[place] if len(ruled) == len(exprs) else None
            if isinstance(type, TensorType) and type.is_static and type.strides is not None:
                found.append(TensorType(expr.dtype, type.shape, type.strides))
            elif reduced_axes(expr):
                # a normalisation whose rule gives only the shape: its last step is elementwise
                shape = static_shape(type) if isinstance(type, TensorType) else None
                if shape is None:
                    raise CodegenError(f"the shape of the result of {node.op} is not known", where=repr(node))
                found.append(TensorType(expr.dtype, shape, iterator_strides(shape, [self.layout(value) for _, value, _ in leaves])))
            elif op.category == "memory":
                # a copy that represents a write into a tensor with gaps: its dimension order is the tensor's, its gaps are up to torch
                target = arguments.get("self")
                given = self.types.get(target) if isinstance(target, Value) else None
                if node.op not in LAID_OUT_LIKE_FIRST or not isinstance(given, TensorType) or given.strides is None:
                    raise CodegenError(f"the strides of the result of {node.op} are not known", where=repr(node))
                self.unknown_layouts.add(node.output)
                found.append(laid_out_like(given, expr.dtype))
            else:
                used = leaves_of(expr)
                plain = [self.layout(value) for index, value, axis in leaves if index in used and axis is None]
                shape = tuple(np.broadcast_shapes(*(sizes for sizes, _ in plain)))
                strides = iterator_strides(shape, plain)
                if op.operand_axes:
                    strides = channels_last_strides(shape) if suggests_channels_last(*plain[0]) else contiguous_strides(shape)
                found.append(TensorType(expr.dtype, shape, strides))
        return found

    def ruled(self, op: Op, node: Node, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the types of a node's results by the op's type rule; empty without one."""
        if op.type_rule is None:
            return []
        try:
            found = op.type_rule(**{name: self._abstract(argument) for name, argument in arguments.items()})
        except CodegenError:
            raise
        except IrscopeError as error:
            raise CodegenError(error.what, where=repr(node), rule=error.rule or "codegen-types") from None
        return list(found) if isinstance(found, list | tuple) else [found]

    def _abstract(self, argument: Any) -> Any:
        if not isinstance(argument, Value):
            return argument
        if argument in self.known:
            payload = self.known[argument]
            return TensorType(payload.dtype, (), ()) if isinstance(payload, Expr) else payload
        if argument in self.lists:
            return [self._abstract(value) for value in self.lists[argument]]
        type = self.types[argument]
        return type if isinstance(type, TensorType) else Unknown(type)

    # Nodes of a group that compute nothing: their results are elements of their operands, in other places.
    #
    # A view is an offset and strides into its base. A join (`cat`, `stack`) concatenates tensors. `slice_scatter` and
    # `select_scatter` replace a range of a tensor: with step 1, each element is read from one tensor or the other. The maximum of a
    # window is one of its elements.

    def _placed(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[_Placed]:
        """Return the step that locates the elements of each result, and its type; a view that returns a list has several results."""
        if node.op in JOINS:
            return [self._joined(position, node, op, arguments)]
        if node.op in PATCHES:
            return [self._patched(position, node, op, arguments)]
        if node.op in MAX_POOLS:
            return [self._pooled(position, node, op, arguments)]
        if node.op in LOGICAL and op.type_rule is not None:
            return self._viewed(position, node, op, arguments)
        raise no_kernel(node)

    def _viewed(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[_Placed]:
        operand = node.inputs[0]
        if operand in self.known or not isinstance(self.types.get(operand), TensorType):
            raise no_kernel(node)
        types = self.ruled(op, node, arguments)
        if any(isinstance(type, TensorType) and type.dtype != self.types[operand].dtype for type in types):
            raise no_kernel(node)  # the same bytes as elements of another type; fusion forms no such group, but a text may have one
        if not all(isinstance(type, TensorType) and type.is_static for type in types):
            raise CodegenError(f"no kernel for {node.op}: the shape of its result is not known", where=repr(node), rule="codegen-view")
        made: list[_Placed] = []
        for (offset, strides), type in zip(self._offsets_and_strides(node, op, arguments), types, strict=True):
            shape = _extents(type)
            laid = like_strides(shape, type.strides) if type.strides is not None else contiguous_strides(shape)
            made.append((Seen(position, operand, offset, strides), type.with_(strides=laid)))
        return made

    def _offsets_and_strides(self, node: Node, op: Op, arguments: Mapping[str, Any]) -> list[tuple[int, tuple[int, ...]]]:
        """Return offset and strides of each result as if the operand were row-major. Runs the op's reference on an array that
        has the shape and strides but only one byte of memory."""
        shape = self.shape(node.inputs[0])
        if node.op in SAME_PLACE:
            return [(0, contiguous_strides(shape))]
        probe = _probe(shape)
        given = {name: self._probe_argument(node, argument, probe) for name, argument in arguments.items()}
        assert op.reference is not None
        found = op.reference(**given)
        start = probe.__array_interface__["data"][0]
        views = found if isinstance(found, list | tuple) else [found]
        return [(view.__array_interface__["data"][0] - start, view.strides) for view in views]

    def _probe_argument(self, node: Node, argument: Any, probe: np.ndarray[Any, Any]) -> Any:
        if not isinstance(argument, Value):
            return argument
        if argument in self.known:
            return self.known[argument]
        if argument is node.inputs[0]:
            return probe
        if isinstance(self.types.get(argument), TensorType):
            return _probe(self.shape(argument))
        raise CodegenError(f"the value of {argument!r}, which {node.op} depends on, is not known", where=repr(node), rule="codegen-view")

    def _joined(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
        parts, dim = self.lists.get(node.inputs[0]), arguments["dim"]
        dim = self.known.get(dim) if isinstance(dim, Value) else dim
        if not parts or not isinstance(dim, int) or not all(isinstance(part, Value) for part in parts):
            raise CodegenError(f"the tensors that {node.op} joins, or the axis, are not known", where=repr(node))
        (type,) = self.ruled(op, node, {"tensors": node.inputs[0], "dim": dim})
        if not isinstance(type, TensorType) or not type.is_static or type.strides is None or type.shape is None:
            raise CodegenError(f"the type of {node.op} is not known", where=repr(node), rule="codegen-join")
        new_axis = node.op == "aten::stack"
        kept = tuple(part for part in parts if new_axis or len(self.shape(part)) == len(type.shape))
        return Joined(position, kept, wrap_dim(dim, len(type.shape), op=node.op), new_axis), type

    def _patched(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
        whole, part = arguments["self"], arguments["src"]
        known = self._known(arguments)
        given: list[Any] = [known.get(name) for name in ("dim", "index", "start", "end", "step")]
        dim, index, start, stop, step = given
        (type,) = self.ruled(op, node, arguments)
        shape = self.shape(whole)
        if not isinstance(type, TensorType) or type.strides is None or type.dtype != self.dtype(part):
            why = "its result's layout is not known, or its element type differs from that of `src`"
            raise CodegenError(f"no kernel for {node.op}: {why}", where=repr(node), rule="codegen-patch")
        axis = wrap_dim(dim, len(shape), op=node.op)
        one = node.op == "aten::select_scatter"
        if one:
            start = index + shape[axis] if index < 0 else index
            stop = start + 1
        else:
            start, stop, _ = slice(start, stop).indices(shape[axis])
        own = (*shape[:axis], *(() if one else (max(stop - start, 0),)), *shape[axis + 1 :])
        if step not in (None, 1) or (one and not 0 <= start < shape[axis]) or own != self.shape(part) or part in self.known:
            raise CodegenError(f"{node.op} does not replace one contiguous range", where=repr(node), rule="codegen-patch")
        return Patched(position, whole, part, axis, start, stop, one), type.with_(shape=shape)

    def _pooled(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> _Placed:
        given = self._known(arguments)
        if None in given.values() or given.keys() | {"self"} != arguments.keys():
            raise CodegenError(f"the windows of {node.op} are not known", where=repr(node), rule="codegen-view")
        (type,) = self.ruled(op, node, arguments)
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

    def _normalized_in_parts(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> tuple[Expr, Operands]:
        """Return the expression of the node's result and its operands; the steps before it are added to `self.steps`."""
        assert op.channel_parts is not None
        assert op.expression is not None
        known = self._known(arguments)
        operand = arguments["input"]
        shape, dtype = self.shape(operand), self.dtype(operand)
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
            self.types[value] = TensorType(compute, extents, contiguous_strides(extents))
            self.steps[value] = made()
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
            scales.append(input_element(len(operands), self.dtype(vector), rank=1))
            operands.append((len(operands), vector, op.operand_axes[name]))
        return cast(affine(input_element(0, compute, rank=len(shape)), *scales), dtype), operands

    def _known(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: self.known.get(a, a) if isinstance(a, Value) else a for name, a in arguments.items()}
        return {name: a for name, a in found.items() if not isinstance(a, Value)}


_PEAKS: Final = frozenset({"reduce_max", "reduce_min", "reduce_argmax", "reduce_argmin"})


def _concrete(type: Type) -> Type:
    """Check that a type has everything a kernel needs, and return it with strides, row-major by default."""
    if not isinstance(type, TensorType):
        if type not in _NUMBERS:
            raise CodegenError(f"an input of type {type} cannot be read by a kernel", rule="codegen-input")
        return type
    if not type.is_static:
        raise CodegenError(
            f"a kernel needs the element type and the shape of each input, but all that is known of one is {type}", rule="codegen-input"
        )
    return type if type.strides is not None else type.with_(strides=contiguous_strides(_extents(type)))


def _extents(type: TensorType) -> tuple[int, ...]:
    found = static_shape(type)
    assert found is not None
    return found


def _payload(node: Node) -> Any:
    """Return a constant as an op's expression takes it; a 0-d tensor becomes a number of its type."""
    payload = constant_value(node)
    if not isinstance(payload, TensorData):
        return payload
    if payload.shape != () or payload.array is None or payload.dtype not in ITEM_SIZE:
        raise CodegenError(f"{node.output!r} is a constant tensor inside a fusion group", hint="make it an input of the group")
    value = payload.array
    if payload.dtype == "bfloat16":
        value = (value.astype(np.uint32) << 16).view(np.float32)
    element = const(value.item(), payload.dtype)
    return Expr("const", (), element.dtype, element.value, 1)


def no_kernel(node: Node) -> CodegenError:
    """Return the error for a node that no kernel can compute."""
    return CodegenError(f"no kernel computes {node.op}", where=repr(node), rule="codegen-op")


def _probe(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return a row-major array of this shape that has only one byte of memory, which is never read."""
    return as_strided(np.empty(1, np.int8).view(Unbounded), shape, contiguous_strides(shape), subok=True)
