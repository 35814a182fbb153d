"""The pure op that computes what an in-place op writes, and whether its result is the same tensor in all that can be told.

By torch's rules `aten::f_(self, ...)` is `self.copy_(aten::f(self, ...))`. So the twin of `f_` is the pure overload of
`f` with the same arguments, and three things may still differ:

* *Element type.* `f_` keeps that of `self`; `f` promotes. Where the type rule does not prove them equal, the result is
  converted by `type_as`. With numbers as the only other operands they are equal: torch refuses an in-place op whose
  result would be of a higher kind than `self`, and a number of a lower kind or the same does not promote.
* *Shape.* `f_` refuses operands that broadcast to more than `self`, so in every run that ends `f` has `self`'s shape.
* *Strides.* `self` keeps its own. A fresh result has strides of the op's choice, and `view`, later, depends on them. So
  the type rule must give `self`'s strides: asked with the types at hand, or, when those do not say, asked for a
  transposed `self` beside operands that lie row by row. Bases are dense (`families` sees to that). A part of one is
  not; its twin is a dense copy in the same order of dimensions, from which ops compute results that lie alike, and
  which only gives its elements to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from irscope.analysis.known_ops import SHAPE_WRITERS
from irscope.errors import ArgumentError
from irscope.ir.core import Graph, Node, Value, make_node
from irscope.ir.payload import NOT_CONSTANT, constant_of
from irscope.ir.schema import REQUIRED, OpSchema
from irscope.ir.types import OptionalType, TensorType
from irscope.ops.op import Op
from irscope.ops.randomness import draws_random_numbers
from irscope.ops.registry import bind, effect_of, op_of, schema_of
from irscope.ops.strides import like_strides
from irscope.ops.type_rules import Unknown, static_shape

__all__ = ["NoTwin", "Twin", "Twins"]

_TRANSPOSED: Final = TensorType("float32", (3, 2), (1, 3), "cpu")
_ROWS: Final = TensorType("float64", (3, 2), (2, 1), "cpu")
_SLIPS: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What a type rule raises when it is given less than it can handle."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The pure op for an in-place one."""

    op: str
    needs_cast: bool
    """Whether the result must be converted to the element type of what was written."""
    is_pointwise: bool


@dataclass(frozen=True, slots=True)
class NoTwin:
    """Why an in-place op has none."""

    rule: str
    because: str


@dataclass(frozen=True, slots=True)
class _Habit:
    """What an overload does with the type of `self`, whatever that is."""

    keeps_strides: bool
    keeps_dtype: bool


class Twins:
    """The twins of the in-place nodes of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._habits: dict[str, _Habit] = {}

    def of(self, node: Node, schema: OpSchema) -> Twin | NoTwin:
        """The twin of a node that writes its first operand and nothing else."""
        name = node.op[:-1]
        pure = make_node(node.id, name, node.inputs, node.outputs, node.attrs, (), None, "")
        if node.op in SHAPE_WRITERS:
            return NoTwin("changes-shape", f"{node.op} changes the tensor's shape, and with it all its other names")
        if draws_random_numbers(node.op):
            return NoTwin("random", f"{node.op} draws random numbers")
        declared, op = schema_of(pure), op_of(pure)
        if not node.op.endswith("_") or declared is None or op is None or not _is_twin(schema, declared, pure):
            return NoTwin("no-twin", f"no pure op is known that computes what {node.op} writes")
        return self._compared(pure, op, declared)

    def _compared(self, node: Node, op: Op, schema: OpSchema) -> Twin | NoTwin:
        target = node.inputs[0].type
        assert isinstance(target, TensorType)
        result = self._result(node, op, schema)
        habit = self._habits.get(schema.full_name)
        if habit is None:
            habit = self._habits[schema.full_name] = _habit(op, schema)
        told = target.strides is not None and result.strides is not None
        same = _lies_alike(target, result) if told else habit.keeps_strides
        if not same:
            return NoTwin("layout", f"the result of {node.op} may lie in memory otherwise than what {node.op}_ writes")
        if target.dtype is not None and result.dtype is not None:
            needs_cast = target.dtype != result.dtype
        else:
            needs_cast = not habit.keeps_dtype
        return Twin(node.op, needs_cast, op.category == "pointwise")

    def _result(self, node: Node, op: Op, schema: OpSchema) -> TensorType:
        """What the type rule says of the twin's result."""
        given = {name: self._abstract(argument) for name, argument in bind(node, schema).items()}
        return _asked(op, given)

    def _abstract(self, argument: Any) -> Any:
        if not isinstance(argument, Value):
            return argument
        if isinstance(argument.type, TensorType):
            return argument.type
        payload = constant_of(self._graph, argument)
        return Unknown(argument.type) if payload is NOT_CONSTANT else payload


def _is_twin(in_place: OpSchema, pure: OpSchema, node: Node) -> bool:
    """Whether the pure overload takes the same arguments and gives one fresh tensor."""
    names = [argument.name for argument in in_place.arguments] == [argument.name for argument in pure.arguments]
    fresh = len(pure.returns) == 1 and isinstance(pure.returns[0].type, TensorType)
    return names and fresh and effect_of(node) == "pure"


def _habit(op: Op, schema: OpSchema) -> _Habit:
    """What the type rule gives for a transposed float32 `self` beside float64 operands that lie row by row."""
    first, given = schema.arguments[0].name, dict[str, Any]()
    for argument in schema.arguments:
        type = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        if isinstance(type, TensorType):
            given[argument.name] = _TRANSPOSED if argument.name == first else _ROWS
        else:
            given[argument.name] = Unknown(argument.type) if argument.default is REQUIRED else argument.default
    result = _asked(op, given)
    return _Habit(result.strides == _TRANSPOSED.strides, result.dtype == _TRANSPOSED.dtype)


def _asked(op: Op, given: dict[str, Any]) -> TensorType:
    """The rule's answer; a type that says nothing where there is no rule, or it cannot tell."""
    if op.type_rule is None:
        return TensorType()
    try:
        result = op.type_rule(**given)
    except (*_SLIPS, ArgumentError):
        return TensorType()
    return result if isinstance(result, TensorType) else TensorType()


def _lies_alike(written: TensorType, result: TensorType) -> bool:
    """Whether the result lies as a copy of what is written does; the stride of a dimension of one element means
    nothing."""
    shape = static_shape(written)
    if shape is None or written.strides is None or result.strides is None or written.shape != result.shape:
        return False
    return all(
        extent == 1 or wanted == given
        for extent, wanted, given in zip(shape, like_strides(shape, written.strides), result.strides, strict=True)
    )
