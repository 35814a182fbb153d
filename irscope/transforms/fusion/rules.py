"""Which nodes can be part of a pointwise kernel.

A node qualifies when its op has a kernel expression, when every argument that shapes the code is known, and when
nobody can tell a fresh result from one that shares an argument's memory. Every "no" names the property that is
missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.shapes import Shapes
from irscope.ir.core import Graph, Node, Value
from irscope.ir.payload import NOT_CONSTANT, Opaque, TensorData, constant_of
from irscope.ir.schema import OpSchema
from irscope.ir.types import BOOL, FLOAT, INT, NUMBER, OptionalType, TensorType, Type
from irscope.ops.expression import NoExpression, input_element, number, reduced_axes
from irscope.ops.op import Op
from irscope.ops.randomness import draws_random_numbers
from irscope.ops.registry import bind, effect_of, op_of, schema_of

__all__ = ["ITEM_SIZES", "Refusal", "Rules"]

ITEM_SIZES: Final = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of an element of each type that a kernel can compute with."""

_CATEGORY_WORDS: Final = {
    "reduction": "a reduction", "normalization": "a normalisation", "matmul": "a matrix product",
    "convolution": "a convolution", "view": "a view", "memory": "a copy or an allocation", "random": "random",
    "container": "an operation on containers", "scalar": "arithmetic on numbers", "control": "control flow",
    "other": "of no kind known to fuse", "pointwise": "without an expression",
}  # fmt: skip

_RUN_TIME_NUMBERS: Final[Mapping[Type, str]] = {FLOAT: "float64", INT: "int64", BOOL: "bool", NUMBER: "float64"}
_GUESSES: Final = ("float32", "int64", "bool")  # element types to try where a tensor's is not known


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not fused."""

    rule: str
    """The stable name of the rule."""
    because: str
    """A sentence without a full stop."""
    evidence: tuple[Value | Node, ...] = ()
    """What the sentence names."""


class Rules:
    """The properties of the nodes of one graph, each computed when first asked for."""

    def __init__(self, graph: Graph, shapes: Shapes, db: AliasDb) -> None:
        self.graph = graph
        self.db = db
        self._shapes = shapes
        self._refusals: dict[Node, Refusal | None] = {}
        self._trials: dict[object, str] = {}
        self._types: dict[Value, TensorType | None] = {}

    def refusal(self, node: Node) -> Refusal | None:
        """Why a node cannot be in any pointwise group; None when it can."""
        if node not in self._refusals:
            self._refusals[node] = self._judge(node)
        return self._refusals[node]

    def tensor_type(self, value: Value) -> TensorType | None:
        """What is known of a tensor; None for a value that is no tensor."""
        if value in self._types:
            return self._types[value]
        found = self._shapes.type(value) if isinstance(value.type, TensorType) else None
        self._types[value] = found if isinstance(found, TensorType) else None
        return self._types[value]

    def name(self, value: Value) -> str:
        """A value in a sentence, as it is printed."""
        return f"%{self.graph.names[value]}"

    def size_in_bytes(self, value: Value) -> int:
        """The memory of a tensor; 0 when its size is not known or it is no tensor."""
        found = self.tensor_type(value)
        if found is None or found.numel is None or found.dtype is None:
            return 0
        return found.numel * ITEM_SIZES.get(found.dtype, 8)

    def known(self, value: Value) -> Any:
        """What a number, string, or None always is; NOT_CONSTANT for tensors and for what the program computes."""
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
                f"{self.name(node.output)} is a constant, which each group that reads it has inside",
                (node,),
            )
        op, schema = op_of(node), schema_of(node)
        if node.blocks or op is None or schema is None:
            known = node.blocks or op is not None
            what = (
                "has blocks of its own"
                if node.blocks
                else "has no known overload"
                if known
                else "is an op nobody described"
            )
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        effect = effect_of(node)
        if effect == "in-place":
            effect = effect_of(node, self._known_arguments(node, schema))
        if effect == "in-place":
            return Refusal(
                "in-place", f"{node.op} writes {self.name(node.inputs[0])} in place, and groups are pure", (node,)
            )
        if op.expression is None:
            return Refusal("not-pointwise", f"{node.op} is {_CATEGORY_WORDS[op.category]}, not a pointwise op", (node,))
        if effect == "opaque":
            return Refusal("side-effect", f"{node.op} has side effects", (node,))
        refusal = self._judge_types(node) or self._judge_arguments(node, op, schema)
        if refusal is None and effect == "view":
            refusal = self._judge_aliasing(node, schema)
        return refusal

    def _known_arguments(self, node: Node, schema: OpSchema) -> dict[str, Any]:
        """The arguments that are always the same, by name: a batch norm that is known not to train writes nothing."""
        known = {
            argument.name: self.known(value) for argument, value in zip(schema.arguments, node.inputs, strict=False)
        }
        return {name: value for name, value in known.items() if value is not NOT_CONSTANT}

    def _judge_types(self, node: Node) -> Refusal | None:
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return Refusal("not-pointwise", f"{node.op} here does not give one tensor", (node,))
        for value in (*node.inputs, *node.outputs):
            type = self.tensor_type(value)
            if type is not None and type.dtype is not None and type.dtype not in ITEM_SIZES:
                return Refusal(
                    "element-type",
                    f"{self.name(value)} is {type.dtype}, which kernels do not compute with",
                    (node, value),
                )
        return None

    def _judge_arguments(self, node: Node, op: Op, schema: OpSchema) -> Refusal | None:
        """Build the expression once, with stand-ins for what is only known at run time."""
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
            if payload is not NOT_CONSTANT:
                arguments[argument.name] = known_flags[argument.name] = payload
            elif isinstance(operand.type, TensorType) or _takes_run_time_number(argument.type, operand.type):
                arguments[argument.name] = operand
            else:
                needed = f"{argument.name!r} of {node.op} must be known before the program runs"
                what = f"{needed}, and {self.name(operand)} is computed"
                return Refusal("unknown-argument", what, (node, operand))
        if draws_random_numbers(node.op, known_flags):
            return Refusal("random", f"{node.op} draws random numbers", (node,))
        failure = self._try_expression(op, arguments)
        return Refusal("no-expression", f"{node.op}: {failure}", (node,)) if failure else None

    def _try_expression(self, op: Op, arguments: dict[str, Any]) -> str:
        """What keeps the op from being an expression of such arguments; empty when nothing does."""
        operands = {name: value for name, value in arguments.items() if isinstance(value, Value)}
        types = {name: self._stand_in(value) for name, value in operands.items()}
        key = (op.name, tuple(types.items()), tuple((n, repr(a)) for n, a in arguments.items() if n not in operands))
        found = self._trials.get(key)
        if found is None:
            found = self._trials[key] = _first_success(op, arguments, types)
        return found

    def _stand_in(self, value: Value) -> tuple[str | None, int | None]:
        type = self.tensor_type(value)
        return (_RUN_TIME_NUMBERS[value.type], -1) if type is None else (type.dtype, type.rank)

    def _judge_aliasing(self, node: Node, schema: OpSchema) -> Refusal | None:
        """A kernel gives fresh memory; an op that may give its argument back may become one only if nobody can tell."""
        result = node.outputs[0]
        for argument, operand in zip(schema.arguments, node.inputs, strict=False):
            if argument.alias is None:
                continue
            safe = self.db.safe_to_change_aliasing(operand, result)
            if not safe:
                same = f"{node.op} may give back {self.name(operand)} itself"
                what = f"{same}, and a copy could be told from it: {safe.because}"
                return Refusal("may-alias-argument", what, (node, operand))
        return None


def _takes_run_time_number(declared: Type, given: Type) -> bool:
    """Whether a schema's argument of this type may be a number that the kernel is given when it runs."""
    if isinstance(declared, OptionalType):
        declared = declared.element
    return declared in (NUMBER, FLOAT) and given in _RUN_TIME_NUMBERS


def _first_success(op: Op, arguments: dict[str, Any], types: dict[str, tuple[str | None, int | None]]) -> str:
    """Try the expression with each guess for the element types that are unknown; the first complaint when all fail."""
    assert op.expression is not None
    complaint = ""
    for guess in _GUESSES if any(dtype is None for dtype, _ in types.values()) else _GUESSES[:1]:
        given = dict(arguments)
        for index, (name, (dtype, rank)) in enumerate(types.items()):
            element = dtype or guess
            given[name] = number(index, element) if rank == -1 else input_element(index, element, rank=rank)
        try:
            made = op.expression(**given)
        except NoExpression as error:
            complaint = complaint or error.what
        else:
            several = isinstance(made, tuple)
            return "it reads many elements for one" if several or reduced_axes(made) else ""
    return complaint
