"""Decides which nodes can be part of a kernel.

A node qualifies when its op has a kernel expression, when every argument that determines the code is known, and when a
fresh result cannot be distinguished from one that shares an argument's memory. Every refusal names the missing property.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    ITEM_SIZE,
    NOT_CONSTANT,
    NUMBER,
    Dim,
    Graph,
    Node,
    Opaque,
    OpSchema,
    OptionalType,
    TensorData,
    TensorType,
    Type,
    Value,
    constant_of,
)
from irscope.ops.expr import NoExpression, count_operations, input_element
from irscope.ops.registry import bind, effect_of, op_of, schema_of
from irscope.ops.schema import Op, draws_random_numbers, statistics_flag
from irscope.ops.traits import JOINS, MAY_COPY, PATCHES, SEEN_THROUGH
from irscope.ops.view_steps import Num, tensor_bytes
from irscope.transforms.fusion.legality.data_movement import Moving
from irscope.transforms.fusion.legality.expression_trial import Trial, try_expression
from irscope.transforms.grouping import Refusal

__all__ = ["Eligibility"]

_LIBRARY_WORDS: Final = {
    "reduction": "is a windowed or prefix reduction", "normalization": "is a normalisation without a kernel",
    "matmul": "is a matrix product", "convolution": "is a convolution", "memory": "moves or makes elements",
    "random": "draws random numbers", "other": "is not of a kind known to fuse", "pointwise": "has no expression",
}  # fmt: skip
"""Why ops stay with the library, by their categories."""
_OTHER_WORDS: Final = {
    "view": "is a view, which needs no kernel", "container": "works on containers", "scalar": "computes with numbers",
    "control": "is control flow",
}  # fmt: skip

_RUN_TIME_NUMBERS: Final[Mapping[Type, str]] = {FLOAT: "float64", INT: "int64", BOOL: "bool", NUMBER: "float64"}
_GROUP_NORM_OPERATIONS: Final = 8
"""The operations of a group norm at each point, as of a layer norm: it has no expression to count them in."""


class Eligibility:
    """The fusion-related properties of the nodes of one graph, each computed on first use."""

    def __init__(self, graph: Graph, *, exact: bool = False) -> None:
        """`exact`: a node qualifies only if its kernel's results have torch's bits."""
        self.graph = graph
        self.exact = exact
        self.db = alias_db_of(graph)
        self._shapes = shapes_of(graph)
        self._refusals: dict[Node, Refusal | None] = {}
        self._trials: dict[object, Trial] = {}
        self._axes: dict[Node, tuple[int, ...]] = {}
        self._operations: dict[Node, int] = {}
        self._parts: dict[Node, int] = {}
        self._types: dict[Value, TensorType | None] = {}
        self._moving = Moving(self)

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group; None when it can."""
        if node not in self._refusals:
            self._refusals[node] = self._judge(node)
        return self._refusals[node]

    def tensor_type(self, value: Value) -> TensorType | None:
        """Returns the known type of a tensor; None for a value that is not a tensor."""
        if value in self._types:
            return self._types[value]
        found = self._shapes.type(value) if isinstance(value.type, TensorType) else None
        self._types[value] = found if isinstance(found, TensorType) else None
        return self._types[value]

    def is_view(self, node: Node) -> bool:
        """Whether a node that qualifies is a view, or packs or unpacks a list of tensors."""
        if node.op == "prim::ListConstruct":
            return bool(node.inputs) and isinstance(node.inputs[0].type, TensorType)
        return node.op in SEEN_THROUGH or node.op == "prim::ListUnpack"

    def copies(self, node: Node) -> bool:
        """Whether a node that kernels see through copies where it runs by itself, as `contiguous` of a transposed tensor does."""
        return node.op in MAY_COPY and not self.db.may_alias(node.inputs[0], node.outputs[0])

    def joins(self, node: Node) -> bool:
        """Whether a node that qualifies joins tensors, which a kernel does only at its end."""
        return node.op in JOINS

    def patches(self, node: Node) -> bool:
        """Whether a node that qualifies replaces a range of a tensor."""
        return node.op in PATCHES

    def axes(self, node: Node) -> tuple[int, ...]:
        """The axes along which a node that qualifies reduces its first tensor; empty for most nodes."""
        return () if self.refusal(node) else self._axes.get(node, ())

    def parts(self, node: Node) -> int:
        """The number of parts into which a reduction cuts the first of its axes: a group norm reduces each part separately."""
        return self._parts.get(node, 1)

    def operations(self, node: Node) -> int:
        """The number of operations that a node that qualifies does at each point of its space."""
        if self.refusal(node) or self.is_view(node) or node.op in JOINS | PATCHES:
            return 0
        return self._operations.get(node, _GROUP_NORM_OPERATIONS)

    def space(self, node: Node) -> tuple[Dim, ...] | None:
        """The iteration space of a node that qualifies: the shape of the tensor that it reduces, or else of its result."""
        source = next((v for v in node.inputs if self.tensor_type(v)), None) if self.axes(node) else node.outputs[0]
        found = None if source is None else self.tensor_type(source)
        return None if found is None else found.shape

    def name(self, value: Value) -> str:
        """Returns a value's printed name, for use in a sentence."""
        return f"%{self.graph.names[value]}"

    def size_in_bytes(self, value: Value) -> Num:
        """The bytes of a tensor, a formula where extents are unknown; 0 for other values, and for views that kernels see through."""
        found, producer = self.tensor_type(value), self.graph.producer.get(value)
        if producer is not None and self.is_view(producer) and self.refusal(producer) is None:
            return 0
        return 0 if found is None else tensor_bytes(found)

    def known(self, value: Value) -> Any:
        """Returns the constant value of a number, string, or None; NOT_CONSTANT for tensors and for computed values."""
        if isinstance(value.type, TensorType):
            return NOT_CONSTANT
        payload = constant_of(self.graph, value)
        if payload is NOT_CONSTANT:
            payload = self._shapes.known(value)
        return NOT_CONSTANT if isinstance(payload, TensorData | Opaque | Graph) else payload

    def _judge(self, node: Node) -> Refusal | None:
        if node.op == "prim::Constant":
            return Refusal(
                "not-pointwise",
                f"{self.name(node.output)} is a constant, which is copied into each group that uses it",
                (node,),
            )
        if node.op in JOINS or (node.op == "prim::ListConstruct" and self.is_view(node)):
            return self._moving.join_refusal(node)
        if self.is_view(node):
            return self._moving.view_refusal(node)
        if node.op in PATCHES:
            return self._moving.patch_refusal(node)
        op, schema = op_of(node), schema_of(node)
        if node.blocks or op is None or schema is None:
            known = node.blocks or op is not None
            what = (
                "has blocks of its own"
                if node.blocks
                else "has no known overload"
                if known
                else "has no schema"
            )
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        effect = effect_of(node)
        if effect == "in-place":
            effect = effect_of(node, self._known_arguments(node, schema))
        if effect == "in-place":
            return Refusal("in-place", f"{node.op} writes {self._written(node, schema)} in place, and groups are pure", (node,))
        if op.expression is None:
            library = _LIBRARY_WORDS.get(op.category)
            what = f"{library}, and stays with the library" if library else _OTHER_WORDS[op.category]
            if op.category == "scalar" and any(isinstance(value.type, TensorType) for value in node.inputs):
                what = "makes a Python value of a tensor"
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        if effect == "opaque":
            return Refusal("side-effect", f"{node.op} has side effects", (node,))
        judge = self._judge_arguments if op.channel_parts is None else self._judge_parts
        refusal = self.types_refusal(node) or judge(node, op, schema)
        if refusal is None and effect == "view":
            refusal = self._judge_aliasing(node, schema)
        return refusal

    def _known_arguments(self, node: Node, schema: OpSchema) -> dict[str, Any]:
        """The constant arguments by name; they show, for example, that a batch norm does not train and so writes nothing."""
        known = {
            argument.name: self.known(value) for argument, value in zip(schema.arguments, node.inputs, strict=False)
        }
        return {name: value for name, value in known.items() if value is not NOT_CONSTANT}

    def types_refusal(self, node: Node) -> Refusal | None:
        """Returns why kernels do not support the types of a node's operands or results; None when they do."""
        if not node.outputs or not all(isinstance(value.type, TensorType) for value in node.outputs):
            return Refusal("not-pointwise", f"{node.op} here does not return tensors", (node,))
        for value in (*node.inputs, *node.outputs):
            type = self.tensor_type(value)
            if type is not None and type.dtype is not None and type.dtype not in ITEM_SIZE:
                return Refusal(
                    "element-type",
                    f"{self.name(value)} is {type.dtype}, which kernels do not compute with",
                    (node, value),
                )
        return None

    def _judge_arguments(self, node: Node, op: Op, schema: OpSchema) -> Refusal | None:
        """Judge a node by building its expression once, with stand-ins for arguments known only at run time."""
        assert op.expression is not None
        arguments: dict[str, Any] = {}
        known_flags: dict[str, Any] = {}
        bound = bind(node, schema)
        for argument in schema.arguments:
            operand = bound[argument.name]
            if not isinstance(operand, Value):
                arguments[argument.name] = operand
                continue
            payload = self.known(operand)
            if argument.name == "device" and payload == self._device(node):
                arguments["device"] = None  # where it is already
            elif payload is not NOT_CONSTANT:
                arguments[argument.name] = known_flags[argument.name] = payload
            elif isinstance(operand.type, TensorType) or _takes_run_time_number(argument.type, operand.type):
                arguments[argument.name] = operand
            else:
                needed = f"{argument.name!r} of {node.op} must be known before the program runs"
                what = f"{needed}, and {self.name(operand)} is computed"
                return Refusal("unknown-argument", what, (node, operand))
        if draws_random_numbers(node.op, known_flags):
            return Refusal("random", f"{node.op} draws random numbers", (node,))
        trial = self._try_expression(op, arguments)
        if trial.complaint:
            return Refusal("no-expression", f"{node.op}: {trial.complaint}", (node,))
        if self.exact and trial.inexact:
            return Refusal("inexact", f"{node.op} {trial.inexact}", (node,))
        if trial.results != len(node.outputs):
            return Refusal("not-pointwise", f"{node.op} here does not return {trial.results} tensors", (node,))
        self._axes[node] = trial.axes
        self._operations[node] = trial.operations
        return None

    def _judge_parts(self, node: Node, op: Op, schema: OpSchema) -> Refusal | None:
        """Judge a normalization that reduces each part of the channels separately."""
        assert op.channel_parts is not None
        if self.exact:
            return Refusal("inexact", f"{node.op} adds up in another order than torch", (node,))
        found = self.tensor_type(node.inputs[0])
        channels = found.shape[1] if found is not None and found.shape is not None and len(found.shape) > 1 else None
        if found is None or found.shape is None or not isinstance(channels, int):
            return Refusal("no-expression", f"{node.op}: the number of channels is not known", (node,))
        if found.dtype is not None and not found.dtype.startswith(("float", "bfloat")):
            return Refusal("no-expression", f"torch does not compute {node.op} of {found.dtype}", (node,))
        given = {name: value for name, value in bind(node, schema).items() if not isinstance(value, Value)}
        given.update(self._known_arguments(node, schema))
        assert op.expression is not None
        try:
            self._parts[node] = op.channel_parts(channels=channels, **given)
            expression = op.expression(**{**given, "input": input_element(0, found.dtype or "float32", rank=3)})
        except NoExpression as error:
            return Refusal("no-expression", f"{node.op}: {error.what}", (node,))
        self._axes[node] = tuple(range(1, len(found.shape)))
        self._operations[node] = count_operations((expression,))
        return None

    def _device(self, node: Node) -> str | None:
        """The device that the type of a node's first operand declares."""
        found = self.tensor_type(node.inputs[0])
        return None if found is None else found.device

    def _written(self, node: Node, schema: OpSchema) -> str:
        """The operands that a node writes, by name; its first one where the schema marks none."""
        given = bind(node, schema)
        marked = [argument.name for argument in schema.arguments if argument.alias is not None and argument.alias.is_write]
        if not marked and statistics_flag(node.op):
            marked = ["running_mean", "running_var"]
        written = [given[name] for name in marked if isinstance(given[name], Value)] or node.inputs[:1]
        return " and ".join(map(self.name, written))

    def _try_expression(self, op: Op, arguments: dict[str, Any]) -> Trial:
        """Try the op's expression with arguments of these types; results are cached."""
        operands = {name: value for name, value in arguments.items() if isinstance(value, Value)}
        types = {name: self._stand_in(value) for name, value in operands.items()}
        key = (op.name, tuple(types.items()), tuple((n, repr(a)) for n, a in arguments.items() if n not in operands))
        found = self._trials.get(key)
        if found is None:
            found = self._trials[key] = try_expression(op, arguments, types)
        return found

    def _stand_in(self, value: Value) -> tuple[str | None, int | None]:
        type = self.tensor_type(value)
        return (_RUN_TIME_NUMBERS[value.type], -1) if type is None else (type.dtype, type.rank)

    def _judge_aliasing(self, node: Node, schema: OpSchema) -> Refusal | None:
        """Refuse an op that may return its argument where that is observable, as a kernel always returns fresh memory."""
        result = node.outputs[0]
        for argument, operand in zip(schema.arguments, node.inputs, strict=False):
            if argument.alias is None or not self.db.may_alias(operand, result):
                continue
            safe = self.db.safe_to_change_aliasing(operand, result)
            if not safe:
                certain = self.db.must_alias(operand, result)
                same = f"{node.op} {'returns' if certain else 'may return'} {self.name(operand)} itself"
                what = f"{same}, and a copy would be observable: {safe.because}"
                return Refusal("may-alias-argument", what, (node, operand))
        return None


def _takes_run_time_number(declared: Type, given: Type) -> bool:
    """Whether a schema's argument of this type may be a number that the kernel takes at run time."""
    if isinstance(declared, OptionalType):
        declared = declared.element
    return declared in (NUMBER, FLOAT) and given in _RUN_TIME_NUMBERS
