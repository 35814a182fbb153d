"""The values of a fusion group's block: the type of each, and the step that computes its elements.

Each node becomes one of the steps of `element_ops`. Nodes that build lists of tensors only pass them on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE
from irscope.codegen.lowering.element_ops import (
    Compute,
    Seen,
    Step,
    leaves_of,
    no_kernel,
    normalized_in_parts,
    placed,
    reductions_of,
)
from irscope.errors import CodegenError, IrscopeError
from irscope.ir import BOOL, FLOAT, INT, NUMBER, Block, Node, TensorData, TensorType, Type, Value, constant_value
from irscope.ops.accuracy import why_inexact
from irscope.ops.expr import POSITIONS, Expr, const, input_element, number, reduced_axes
from irscope.ops.numpy_layout import laid_out_like
from irscope.ops.op import Op
from irscope.ops.registry import bind, op_of, schema_of
from irscope.ops.traits import LAID_OUT_LIKE_FIRST, LAID_OUT_LIKE_INPUT_ON_CPU
from irscope.ops.type_rules import (
    Unknown,
    channels_last_strides,
    contiguous_strides,
    iterator_strides,
    suggests_channels_last,
)

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
        """Return the type of a tensor value, with shape and strides."""
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
        assert type.shape is not None
        assert type.strides is not None
        return tuple(int(size) for size in type.shape if isinstance(size, int)), type.strides

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
            self._list(node)
            return
        if node.op in ("prim::ListUnpack", "prim::TupleUnpack") and node.inputs[0] in self.lists:
            parts = self.lists[node.inputs[0]]
            if len(parts) != len(node.outputs):
                raise CodegenError(f"a list of {len(parts)} is unpacked as {len(node.outputs)}", where=repr(node), rule="codegen-list")
            for output, element in zip(node.outputs, parts, strict=True):
                self._element(position, output, element)
            return
        op, schema = op_of(node), schema_of(node)
        if op is None or schema is None:
            raise no_kernel(node)
        arguments = bind(node, schema)
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
            self._place(position, node, op, arguments)

    def _place(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> None:
        """Record a node that computes nothing: its results are elements of its operands."""
        results = placed(self, position, node, op, arguments)
        if not isinstance(node.outputs[0].type, TensorType):
            self.lists[node.output] = results
            return
        ((self.steps[node.output], self.types[node.output]),) = results

    def _list(self, node: Node) -> None:
        if all(value in self.known for value in node.inputs):
            self.known[node.output] = [self.known[value] for value in node.inputs]
        else:
            self.lists[node.output] = list(node.inputs)

    def _element(self, position: int, output: Value, element: Any) -> None:
        """Record a value that is one tensor of a list."""
        if isinstance(element, Value):
            shape = self.shape(element)
            self.types[output] = self.types[element]
            self.steps[output] = Seen(position, element, 0, contiguous_strides(shape))
        else:
            self.steps[output], self.types[output] = element

    def _compute(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> None:
        leaves: list[tuple[int, Value, int | None]] = []
        given: dict[str, Any] = {}
        for name, argument in arguments.items():
            if not isinstance(argument, Value) or argument in self.known:
                given[name] = self.known[argument] if isinstance(argument, Value) else argument
                continue
            given[name] = self._leaf(len(leaves), argument)
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
            axes, kinds = reduced_axes(expr), reductions_of(expr)
            shape = self.shape(leaves[0][1]) if axes else ()
            if kinds & _PEAKS and 0 in [shape[axis] for axis in axes]:
                raise CodegenError("cannot take the maximum over an empty axis", where=repr(node), rule="codegen-empty")
            self.steps[output] = Compute(position, expr, operands, axes, shape, bool(kinds & POSITIONS))
            self.types[output] = type

    def _in_parts(self, position: int, node: Node, op: Op, arguments: Mapping[str, Any]) -> None:
        """Record a normalization of groups of channels, whose results never equal torch's bit for bit."""
        if self.exact:
            raise CodegenError(f"{node.op} adds up in another order than torch", where=repr(node), rule="inexact")
        expr, operands = normalized_in_parts(self, position, node, op, arguments)
        (type,) = self._results(op, node, arguments, [expr], operands)
        if node.op in LAID_OUT_LIKE_INPUT_ON_CPU and isinstance(type, TensorType) and arguments["input"].type.device == "cpu":
            shape, strides = self.layout(arguments["input"])  # the device is that of the declared type
            type = type.with_(strides=channels_last_strides(shape)) if suggests_channels_last(shape, strides) else type
        self.types[node.output] = type
        self.steps[node.output] = Compute(position, expr, tuple(operands))

    def _leaf(self, index: int, value: Value) -> Expr:
        if isinstance(self.types.get(value), TensorType):
            return input_element(index, self.dtype(value), rank=len(self.shape(value)))
        return number(index, self.dtype(value))

    def _results(
        self, op: Op, node: Node, arguments: Mapping[str, Any], exprs: Sequence[Expr], leaves: Sequence[tuple[int, Value, int | None]]
    ) -> list[Type]:
        """Return the types of a node's results by the op's rule, or by that of elementwise ops where it leaves something unknown."""
        if not any(isinstance(self.types.get(v), TensorType) for v in arguments.values() if isinstance(v, Value)):
            return [{"int64": INT, "float64": FLOAT, "bool": BOOL}[expr.dtype] for expr in exprs]
        ruled = self.ruled(op, node, arguments)
        found: list[Type] = []
        for index, expr in enumerate(exprs):
            type = ruled[index] if len(ruled) == len(exprs) else None
            if isinstance(type, TensorType) and type.is_static and type.strides is not None:
                found.append(TensorType(expr.dtype, type.shape, type.strides))
            elif reduced_axes(expr):
                found.append(self._laid_out(node, expr, type, [value for _, value, _ in leaves]))
            elif op.category == "memory":
                found.append(self._copied_type(node, expr, arguments.get("self")))
            else:
                used = leaves_of(expr)
                found.append(self._elementwise_type(op, expr, [leaf for leaf in leaves if leaf[0] in used]))
        return found

    def _copied_type(self, node: Node, expr: Expr, target: Any) -> TensorType:
        """Return the type of a copy that represents a write into a tensor with gaps: its dimension order is the tensor's, its gaps
        are up to torch."""
        given = self.types.get(target) if isinstance(target, Value) else None
        if node.op not in LAID_OUT_LIKE_FIRST or not isinstance(given, TensorType) or given.strides is None:
            raise CodegenError(f"the strides of the result of {node.op} are not known", where=repr(node))
        self.unknown_layouts.add(node.output)
        return laid_out_like(given, expr.dtype)

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

    def _laid_out(self, node: Node, expr: Expr, type: Any, operands: Sequence[Value]) -> TensorType:
        """Return the type of a normalisation whose rule gives only the shape: its last step is elementwise."""
        if not isinstance(type, TensorType) or type.shape is None or None in type.shape:
            raise CodegenError(f"the shape of the result of {node.op} is not known", where=repr(node))
        shape = tuple(int(size) for size in type.shape if isinstance(size, int))
        return TensorType(expr.dtype, shape, iterator_strides(shape, list(map(self.layout, operands))))

    def _elementwise_type(self, op: Op, expr: Expr, operands: Sequence[tuple[int, Value, int | None]]) -> TensorType:
        plain = [self.layout(value) for _, value, axis in operands if axis is None]
        shape = tuple(np.broadcast_shapes(*(sizes for sizes, _ in plain)))
        if op.operand_axes:
            strides = channels_last_strides(shape) if suggests_channels_last(*plain[0]) else contiguous_strides(shape)
            return TensorType(expr.dtype, shape, strides)
        return TensorType(expr.dtype, shape, iterator_strides(shape, plain))

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
    assert type.shape is not None
    if type.strides is not None:
        return type
    return type.with_(strides=contiguous_strides([size for size in type.shape if isinstance(size, int)]))


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
