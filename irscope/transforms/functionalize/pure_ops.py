"""Finds the functional variant (*twin*) of an in-place op, and which properties of the written tensor its result has.

By torch's rules `aten::f_(self, ...)` is `self.copy_(aten::f(self, ...))`. So the twin of `f_` is the pure overload of
`f` with the same arguments, and `aten::copy(self, f(self, ...))` has the elements, the element type, the shape and the
strides that `self` has afterwards, whatever they are: that is what `copy` is for. Where the twin's own result has them,
no copy is needed. Three things may differ:

* *Element type.* `f_` keeps that of `self`; `f` promotes. Both are known, or a copy converts. Where the twin's is of a
  higher kind, torch refuses to write it, and so the write stays.
* *Shape.* `f_` refuses operands that broadcast to more than `self`, and so does `copy`.
* *Strides.* `self` keeps its own. A fresh result has strides of the op's choice, which the layouts of later results
  follow, and whether a later `view` works. Even the stride of a dimension of one element counts: torch orders the
  dimensions of a result by all strides of the operands. So all strides are known and equal, or one of two proofs holds
  for a `self` without gaps: `fill` and `zero` return the layout of `empty_like`; and a pointwise op whose first operand
  is `self` follows its strides, which are all different if no dimension has fewer than two elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from irscope.analysis.effects import is_fully_opaque
from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.shapes import NodeSignature, Shapes
from irscope.errors import ArgumentError
from irscope.ir import (
    NOT_CONSTANT,
    REQUIRED,
    Graph,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    TensorType,
    Type,
    Value,
    constant_of,
    make_node,
)
from irscope.ops.op import Op, draws_random_numbers
from irscope.ops.registry import bind, effect_of, op_of, schema_of
from irscope.ops.traits import OBJECT_WRITERS, SHAPE_READERS
from irscope.ops.type_rules import SLIPS, Unknown, kind_of, static_shape
from irscope.transforms.grouping import Refusal

# Classifies an op's operands: which it writes, may keep or return, or only reads; and which of them never change.


def written_operands(node: Node, schema: OpSchema | None) -> list[Value]:
    if schema is None:
        return []
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return [value for argument, value in pairs if argument.alias is not None and argument.alias.has_write]


def kept_operands(node: Node) -> tuple[Value, ...]:
    """The operands whose memory the node may keep, return, or write in an unknown way."""
    op, inputs = node.op, node.inputs
    if op.startswith("prim::"):
        return () if op == "prim::Print" or op in SHAPE_READERS else inputs
    schema = None if node.blocks else schema_of(node)
    if op in SHAPE_READERS and schema is not None:
        return inputs[len(schema.arguments) :]
    if schema is None or schema.is_vararg or is_fully_opaque(op):
        return inputs
    pairs = zip(schema.arguments, inputs, strict=False)
    kept = [value for argument, value in pairs if argument.alias is not None or not _is_tensor(argument.type)]
    return (*kept, *inputs[len(schema.arguments) :])


def writes_first_only(schema: OpSchema) -> bool:
    """Whether an op writes only its first operand, and returns no operand's memory but that."""
    first, *others = schema.arguments
    if first.alias is None or not first.alias.is_write or any(argument.alias for argument in others):
        return False
    returned = [result.alias for result in schema.returns if result.alias is not None]
    return len(schema.returns) <= 1 and all(alias.before == first.alias.before for alias in returned)


def _is_tensor(type: Type) -> bool:
    return isinstance(type.element if isinstance(type, OptionalType) else type, TensorType)


def is_steady(graph: Graph, value: Value) -> bool:
    """Whether an operand is the same whenever it is read: a number, or a list that is never written."""
    type = value.type.element if isinstance(value.type, OptionalType) else value.type
    if isinstance(type, TensorType):
        return False
    if not isinstance(type, ListType):
        return True
    producer = graph.producer.get(value)
    if producer is not None and producer.op in ("prim::Constant", "prim::ListConstruct"):
        users = (use.user for use in graph.users.get(value, ()))
        if all(isinstance(user, Node) and _leaves_alone(user, value) for user in users):
            return True
    return not alias_db_of(graph).is_written(value)


def _leaves_alone(node: Node, value: Value) -> bool:
    """Whether a node only reads a list of numbers: it neither writes nor keeps nor returns it."""
    if node.blocks or not node.op.startswith("aten::") or effect_of(node) not in ("pure", "view"):
        return False
    schema = schema_of(node)
    if schema is None or schema.is_vararg:
        return False
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return not any(argument.alias for argument, operand in pairs if operand is value)


_TRANSPOSED: Final = TensorType("float32", (3, 2), (1, 3), "cpu")
_ROWS: Final = TensorType("float64", (3, 2), (2, 1), "cpu")

_COPY: Final = "aten::copy"
_LIKE_FIRST: Final = ("aten::fill", "aten::zero")
"""Ops whose result has the layout of their first operand, if that has no gaps."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The functional variant of an in-place op."""

    op: str
    keeps_dtype: bool
    """Whether its result certainly has the element type of the written tensor."""
    keeps_strides: bool
    """Whether its result certainly has the shape and all the strides of the written tensor."""
    keeps_dense_strides: bool
    """Whether its result has them if the written tensor has no gaps."""
    dtype: str | None
    """The element type of its result."""
    is_pointwise: bool


class Twins:
    """The functional variants of the in-place nodes of one graph, each kind of node analysed once."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self.shapes = shapes
        self._graph = graph
        self._follows_first: dict[str, bool] = {}
        """Whether a result of an op follows the strides of the first operand before those of the others."""
        self._found: dict[NodeSignature, Twin | Refusal] = {}

    def of(self, node: Node, schema: OpSchema) -> Twin | Refusal:
        """Returns the functional variant of a node that writes only its first operand, or why there is none."""
        form = self.shapes.form(node)
        if form is None:
            return self._of(node, schema)
        found = self._found.get(form)
        if found is None:
            found = self._found[form] = self._of(node, schema)
        return found

    def _of(self, node: Node, schema: OpSchema) -> Twin | Refusal:
        if node.op in OBJECT_WRITERS:
            what = "history of gradients" if node.op == "aten::detach_" else "shape"
            return Refusal("changes-shape", f"{node.op} changes the tensor's {what}, and with it all its other names")
        if draws_random_numbers(node.op):
            return Refusal("random", f"{node.op} draws random numbers")
        no_twin = Refusal("no-twin", f"{node.op} has no functional variant")
        pure = make_node(node.id, node.op[:-1], node.inputs, node.outputs, node.attrs, (), None, "")
        declared, op = schema_of(pure), op_of(pure)
        if not node.op.endswith("_") or declared is None or op is None or effect_of(pure) != "pure":
            return no_twin
        is_fresh = len(declared.returns) == 1 and isinstance(declared.returns[0].type, TensorType)
        if not is_fresh or [argument.name for argument in schema.arguments] != [argument.name for argument in declared.arguments]:
            return no_twin
        return self._compared(pure, op, declared)

    def _compared(self, node: Node, op: Op, schema: OpSchema) -> Twin | Refusal:
        target = self.shapes.type(node.inputs[0])
        assert isinstance(target, TensorType)
        result = self.type_of_result(node)
        if None not in (target.dtype, result.dtype) and kind_of(str(result.dtype)) > kind_of(str(target.dtype)):
            return Refusal("refused", f"torch does not write {result.dtype} into a tensor of {target.dtype}")
        if node.op == _COPY:
            return Twin(_COPY, True, True, True, target.dtype, True)
        shape = static_shape(target)
        alike = shape is not None and shape == static_shape(result)
        exact = alike and (shape == () or (target.strides is not None and target.strides == result.strides))
        dense = exact or node.op in _LIKE_FIRST
        if not dense and alike and shape is not None and min(shape) > 1:
            if schema.full_name not in self._follows_first:
                self._follows_first[schema.full_name] = _follows_first(op, schema)
            dense = op.category == "pointwise" and self._follows_first[schema.full_name]
        keeps_dtype = target.dtype is not None and target.dtype == result.dtype
        return Twin(node.op, keeps_dtype, exact, dense, result.dtype, op.category == "pointwise")

    def type_of_result(self, node: Node, types: Mapping[Value, TensorType] | None = None) -> TensorType:
        """Returns the type of a node's single result by its type rule; `types` refine some operands, or describe new ones."""
        op, given = op_of(node), {name: self._abstract(argument, types or {}) for name, argument in bind(node).items()}
        return TensorType() if op is None or not given else _inferred(op, given)

    def _abstract(self, argument: Any, types: Mapping[Value, TensorType]) -> Any:
        if not isinstance(argument, Value):
            return argument
        if isinstance(argument.type, TensorType):
            return types.get(argument) or self.shapes.type(argument)
        payload = constant_of(self._graph, argument)
        return Unknown(argument.type) if payload is NOT_CONSTANT else payload


def _follows_first(op: Op, schema: OpSchema) -> bool:
    """Whether the type rule returns a transposed result for a transposed first operand beside contiguous others."""
    first, given = schema.arguments[0].name, dict[str, Any]()
    for argument in schema.arguments:
        type = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        if isinstance(type, TensorType):
            given[argument.name] = _TRANSPOSED if argument.name == first else _ROWS
        else:
            given[argument.name] = Unknown(argument.type) if argument.default is REQUIRED else argument.default
    return _inferred(op, given).strides == _TRANSPOSED.strides


def _inferred(op: Op, given: dict[str, Any]) -> TensorType:
    """Returns the type rule's result, or an unknown tensor type if there is no rule or it does not know."""
    if op.type_rule is None:
        return TensorType()
    try:
        result = op.type_rule(**given)
    except (*SLIPS, ArgumentError):
        return TensorType()
    return result if isinstance(result, TensorType) else TensorType()
