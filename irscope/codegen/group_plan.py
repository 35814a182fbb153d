"""From a fusion group and the types of its inputs to the kernels that compute it.

Outputs of one shape share a kernel. A kernel's iteration space is that shape; each value inside the group is followed
from the outputs back to the inputs together with the axes of the space along which it lies, because the same value
can be read in two ways (a vector along the last axis by an addition, along axis 1 by a batch norm). Values that are
broadcast inside the group are computed at every point where they are read, or outside the loops along which they do
not change (`loop_nest`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from irscope.codegen.flatten import InstructionList
from irscope.codegen.kernel_spec import (
    ITEM_SIZE,
    KernelSpec,
    Launch,
    LaunchPlan,
    Operand,
    Result,
    row_limit,
    stride_classes,
)
from irscope.codegen.loop_nest import collapse_loops
from irscope.errors import CodegenError
from irscope.ir.core import Block, Node, Value
from irscope.ir.payload import TensorData, constant_value
from irscope.ir.types import BOOL, FLOAT, INT, NUMBER, TensorType, Type
from irscope.ops.expression import Expr, const, input_element, number
from irscope.ops.op import Op
from irscope.ops.registry import bind, op_of, schema_of
from irscope.ops.strides import channels_last_strides, contiguous_strides, is_channels_last, iterator_strides
from irscope.ops.type_rules import Unknown

__all__ = ["spec_of_group"]

_NUMBERS: Final[Mapping[Type, str]] = {INT: "int64", FLOAT: "float64", BOOL: "bool", NUMBER: "float64"}

_Axes = tuple[int, ...]


def spec_of_group(group: Node, types: Sequence[Type]) -> LaunchPlan:
    """The kernels of a group for inputs of these types, and the types of its outputs.

    `types` has one entry per input of the group: for a tensor its element type, shape and strides (row-major when
    missing), for a number its type. Raises CodegenError, which names the node, for what no kernel computes.
    """
    (block,) = group.blocks
    values = _Values(block, types)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for position, value in enumerate(block.returns):
        by_shape.setdefault(values.layout(value)[0], []).append(position)
    launches = tuple(_launch(values, shape, positions) for shape, positions in by_shape.items())
    return LaunchPlan(launches, tuple(values.tensor_type(value) for value in block.returns), len(block.params))


@dataclass(frozen=True, eq=False)
class _Step:
    """One node of the group, understood."""

    position: int
    expr: Expr
    operands: tuple[tuple[int, Value, int | None], ...]
    """What each leaf of the expression stands for: its index, its value, and the axis of the result along which it lies
    if not the last ones. Arguments that the expression does not look at (`other` of a `type_as`) are missing."""


class _Values:
    """What is known of every value of a block: constants, types, and how each is computed."""

    def __init__(self, block: Block, types: Sequence[Type]) -> None:
        if len(types) != len(block.params):
            raise CodegenError(f"the group has {len(block.params)} inputs, and {len(types)} types were given")
        self.block = block
        self.params = {value: index for index, value in enumerate(block.params)}
        self.types: dict[Value, Any] = dict(zip(block.params, map(_concrete, types), strict=True))
        self.known: dict[Value, Any] = {}
        self.steps: dict[Value, _Step] = {}
        for position, node in enumerate(block.nodes):
            self._node(position, node)

    def tensor_type(self, value: Value) -> TensorType:
        """The type of a tensor value, with shape and strides."""
        found = self.types.get(value)
        if not isinstance(found, TensorType):
            raise CodegenError(f"{value!r} is an output of a fusion group and is not a tensor", rule="codegen-output")
        return found

    def layout(self, value: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides; a number has neither."""
        type = self.types[value]
        if not isinstance(type, TensorType):
            return (), ()
        assert type.shape is not None
        assert type.strides is not None
        return tuple(int(size) for size in type.shape if isinstance(size, int)), type.strides

    def dtype(self, value: Value) -> str:
        """The element type of a tensor, or the type of a number."""
        type = self.types[value]
        dtype = type.dtype if isinstance(type, TensorType) else _NUMBERS.get(type)
        if dtype not in ITEM_SIZE:
            raise CodegenError(f"kernels do not compute with {dtype or type}", where=repr(value), rule="codegen-dtype")
        return dtype

    def _node(self, position: int, node: Node) -> None:
        if node.op == "prim::Constant":
            self.known[node.output] = _payload(node)
            return
        op, schema = op_of(node), schema_of(node)
        if op is None or schema is None or op.expression is None:
            raise CodegenError(f"no kernel computes {node.op}", where=repr(node), rule="codegen-op")
        arguments = bind(node, schema)
        leaves: list[tuple[int, Value, int | None]] = []
        given: dict[str, Any] = {}
        for name, argument in arguments.items():
            if not isinstance(argument, Value) or argument in self.known:
                given[name] = self.known[argument] if isinstance(argument, Value) else argument
                continue
            given[name] = self._leaf(len(leaves), argument)
            leaves.append((len(leaves), argument, op.operand_axes.get(name)))
        try:
            expr = op.expression(**given)
        except CodegenError as error:
            raise CodegenError(error.what, where=repr(node), rule=error.rule, hint=error.hint) from None
        used = _leaves_of(expr)
        operands = tuple(leaf for leaf in leaves if leaf[0] in used)
        self.steps[node.output] = _Step(position, expr, operands)
        self.types[node.output] = self._result(op, arguments, expr, operands)

    def _leaf(self, index: int, value: Value) -> Expr:
        if isinstance(self.types[value], TensorType):
            return input_element(index, self.dtype(value), rank=len(self.layout(value)[0]))
        return number(index, self.dtype(value))

    def _result(
        self, op: Op, arguments: Mapping[str, Any], expr: Expr, operands: Sequence[tuple[int, Value, int | None]]
    ) -> Type:
        """The type of a node's result: by the op's rule; by that of elementwise ops where it does not tell all."""
        if not any(isinstance(self.types[v], TensorType) for v in arguments.values() if isinstance(v, Value)):
            return {"int64": INT, "float64": FLOAT, "bool": BOOL}[expr.dtype]
        if op.type_rule is not None:
            type = op.type_rule(**{name: self._abstract(argument) for name, argument in arguments.items()})
            if isinstance(type, TensorType) and type.is_static and type.strides is not None:
                return TensorType(expr.dtype, type.shape, type.strides)
        plain = [self.layout(value) for _, value, axis in operands if axis is None]
        shape = tuple(np.broadcast_shapes(*(sizes for sizes, _ in plain)))
        if op.operand_axes:
            strides = channels_last_strides(shape) if is_channels_last(*plain[0]) else contiguous_strides(shape)
            return TensorType(expr.dtype, shape, strides)
        return TensorType(expr.dtype, shape, iterator_strides(shape, plain))

    def _abstract(self, argument: Any) -> Any:
        if not isinstance(argument, Value):
            return argument
        if argument in self.known:
            payload = self.known[argument]
            return TensorType(payload.dtype, (), ()) if isinstance(payload, Expr) else payload
        type = self.types[argument]
        return type if isinstance(type, TensorType) else Unknown(type)


class _Kernel:
    """One kernel while its instructions are gathered."""

    def __init__(self, values: _Values, shape: tuple[int, ...]) -> None:
        self.values = values
        self.shape = shape
        self.code = InstructionList()
        self.operands: dict[tuple[int, tuple[int, ...]], int] = {}
        """Each distinct way in which an input is read: (input, strides along the space) to the operand's position."""
        self._done: dict[tuple[Value, _Axes], int] = {}

    def lower(self, root: Value) -> int:
        """The step that computes an output at each point of the space."""
        wanted = (root, tuple(range(len(self.shape))))
        stack = [wanted]
        while stack:
            value, axes = stack[-1]
            if (value, axes) in self._done:
                stack.pop()
                continue
            step = self.values.steps.get(value)
            if step is None:
                self._done[value, axes] = self._input(value, axes)
                continue
            below = [
                (operand, _axes_of(axes, len(self.values.layout(operand)[0]), axis))
                for _, operand, axis in step.operands
            ]
            waiting = [need for need in below if need not in self._done]
            if waiting:
                stack.extend(waiting)
                continue
            leaves = {leaf: self._done[need] for (leaf, _, _), need in zip(step.operands, below, strict=True)}
            self._done[value, axes] = self.code.splice(step.expr, leaves, node=step.position)
        return self._done[wanted]

    def _input(self, value: Value, axes: _Axes) -> int:
        if value in self.values.known:
            raise CodegenError(f"{value!r} is a constant that no kernel reads", rule="codegen-constant")
        steps: list[int] = []
        if isinstance(self.values.types[value], TensorType):
            steps = [0] * len(self.shape)
            for axis, size, stride in zip(axes, *self.values.layout(value), strict=True):
                if size != 1:
                    steps[axis] = stride
        key = (self.values.params[value], tuple(steps) if isinstance(self.values.types[value], TensorType) else (-1,))
        position = self.operands.setdefault(key, len(self.operands))
        return self.code.input(position, self.values.dtype(value))


def _launch(values: _Values, shape: tuple[int, ...], positions: list[int]) -> Launch:
    kernel = _Kernel(values, shape)
    results = [kernel.lower(values.block.returns[position]) for position in positions]
    operands = list(kernel.operands)
    tensors = [key for key in operands if key[1] != (-1,)]
    layouts = [values.layout(values.block.returns[position])[1] for position in positions] + [
        steps for _, steps in tensors
    ]
    sizes, strides = collapse_loops(shape, layouts)
    of_tensor = dict(zip(tensors, strides[len(positions):], strict=True))
    steps, results_at = kernel.code.trimmed(results)
    params = values.block.params
    spec = KernelSpec(
        tuple(
            Operand(values.dtype(params[key[0]]), "tensor", stride_classes(of_tensor[key])) if key in of_tensor
            else Operand(values.dtype(params[key[0]]), "scalar")
            for key in operands
        ),
        steps,
        tuple(
            Result(steps[at].dtype, stride_classes(strides[index]), at) for index, at in enumerate(results_at)
        ),
        len(sizes),
        row_limit=row_limit(sizes),
    )
    all_strides = (*strides[:len(positions)], *(of_tensor.get(key, ()) for key in operands))
    return Launch(spec, sizes, tuple(key[0] for key in operands), tuple(positions), all_strides)


def _axes_of(axes: _Axes, rank: int, axis: int | None) -> _Axes:
    """Along which axes of the space an operand lies, given those of the result that reads it."""
    if axis is not None and rank == 1:
        return (axes[axis],)
    return axes[len(axes) - rank:]


def _concrete(type: Type) -> Type:
    """A type checked to have all that a kernel needs; strides default to row-major."""
    if not isinstance(type, TensorType):
        if type not in _NUMBERS:
            raise CodegenError(f"an input of type {type} cannot be read by a kernel", rule="codegen-input")
        return type
    if not type.is_static:
        raise CodegenError(
            f"a kernel needs an input's element type and shape, and has only {type}", rule="codegen-input"
        )
    assert type.shape is not None
    if type.strides is not None:
        return type
    return type.with_(strides=contiguous_strides([size for size in type.shape if isinstance(size, int)]))


def _payload(node: Node) -> Any:
    """A constant as an op's expression takes it; a tensor without dimensions is a number with its type."""
    payload = constant_value(node)
    if not isinstance(payload, TensorData):
        return payload
    if payload.shape != () or payload.array is None or payload.dtype not in ITEM_SIZE:
        raise CodegenError(
            f"{node.output!r} is a constant tensor inside a fusion group", hint="make it an input of the group"
        )
    value = payload.array
    if payload.dtype == "bfloat16":
        value = (value.astype(np.uint32) << 16).view(np.float32)
    element = const(value.item(), payload.dtype)
    return Expr("const", (), element.dtype, element.value, 1)


def _leaves_of(expr: Expr) -> set[int]:
    """The indexes of the operands that an expression reads."""
    found: set[int] = set()
    stack, seen = [expr], {id(expr)}
    while stack:
        here = stack.pop()
        if here.op in ("input", "scalar"):
            found.add(here.value)
        for arg in here.args:
            if id(arg) not in seen:
                seen.add(id(arg))
                stack.append(arg)
    return found
