"""Compares the types that the results of a node declare with those that the op's type rule gives for its operands.

The rule reads the declared types of the operands, and the numbers and lists that are constants of the program. A declared type is
wrong if the rule contradicts it: another element type, another number of dimensions, another extent where both are known.

Legal stays what nobody can contradict, or what other tools write by habit:

* a result without element type or shape, and extents that are unknown or symbols on either side (MLIR's `?`, ONNX's names);
* strides, device and `requires_grad`: TorchScript prints those of the run that it profiled, and passes choose layouts;
* Python numbers that a traced program types as tensors: they take part in promotion as numbers;
* results that the rule does not know, ops without a rule, and calls that must fail: it may be that they never run;
* shapes where an op of the program may change that of an existing tensor (`resize_`, `out=`, an unknown op), and what depends
  on the contents of a list where an op may write lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from irscope._base.frozen import EMPTY
from irscope.errors import ArgumentError
from irscope.ir import Graph, ListType, Node, OpSchema, TensorData, TensorType, Value, constant_value, contradiction
from irscope.ops.check.schema_misfit import Wrong
from irscope.ops.registry import effect_of, op_of, schema_of
from irscope.ops.traits import KNOWN_SIDE_EFFECTS, SHAPE_WRITERS, UNPACKS
from irscope.ops.typing import SLIPS, Abstract, Unknown

__all__ = ["ResultTypes", "named_operands"]

_NUMBERS: Final = (bool, int, float, complex, str, type(None))
_LONG: Final = 64
"""Longer lists are not followed."""


class ResultTypes:
    """Checks the nodes of one graph, in textual order; equal calls are checked once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Value, tuple[Abstract, object]] = {}
        """What is known of a value beside its type, and a key for it."""
        self._answers: dict[tuple[object, ...], Wrong | None] = {}

    def wrong(self, node: Node) -> Wrong | None:
        """Return what is wrong with the types of a node's results."""
        if node.op == "prim::Constant":
            return self._constant(node)
        if node.op == "prim::ListConstruct":
            self._list(node)
            return None
        if node.attrs is not EMPTY or node.op in UNPACKS or not any(map(_says_something, node.outputs)):
            return None
        known = self._known
        keys = [known[value][1] if value in known else id(value.type) for value in node.inputs]
        key = (node.op, *keys, None, *[id(value.type) for value in node.outputs])
        if key not in self._answers:
            operands = [known[value][0] if value in known else _fact(value) for value in node.inputs]
            self._answers[key] = self._judged(node, operands)
        return self._answers[key]

    def _constant(self, node: Node) -> Wrong | None:
        output, payload = node.output, constant_value(node)
        if payload.__class__ in _NUMBERS:
            self._known[output] = (payload, (payload.__class__, repr(payload)))
        elif isinstance(payload, tuple) and len(payload) <= _LONG and all(item.__class__ in _NUMBERS for item in payload):
            self._known[output] = (list(payload), ("list", repr(payload)))
        elif isinstance(payload, TensorData) and isinstance(output.type, TensorType):
            held = TensorType(payload.dtype, payload.shape)
            because = contradiction(output.type, held)
            return Wrong("result-type", f"{output!r} is declared as {output.type} and holds {held}: {because}") if because else None
        return None

    def _list(self, node: Node) -> None:
        if len(node.inputs) > _LONG:
            return
        parts = [self._known.get(value) or (_fact(value), id(value.type)) for value in node.inputs]
        self._known[node.output] = ([fact for fact, _ in parts], ("list", *(key for _, key in parts)))

    def _judged(self, node: Node, operands: Sequence[Abstract]) -> Wrong | None:
        results = _given(node, operands)
        for output, given in zip(node.outputs, results, strict=False):
            if not isinstance(given, TensorType) or not isinstance(output.type, TensorType):
                continue
            because = contradiction(output.type, given)
            if not because or (any(type(fact) is list for fact in operands) and self._writes_lists):
                continue
            if self._writes_shapes:  # of which the operands' types say nothing
                because = contradiction(TensorType(output.type.dtype), TensorType(given.dtype))
            if because:
                made = TensorType(given.dtype, given.shape)
                of = ", ".join(str(value.type) for value in node.inputs if isinstance(value.type, TensorType))
                what = f"{output!r} is declared as {output.type}, and {node.op} makes {made}{' of ' + of if of else ''}: {because}"
                return Wrong("result-type", what, f"declare {made}, or Tensor where nothing is known")
        return None

    @cached_property
    def _writes_shapes(self) -> bool:
        return any(node.op in SHAPE_WRITERS or _is_unseen(node) or _has_written_keyword(node) for node in self._graph.nodes())

    @cached_property
    def _writes_lists(self) -> bool:
        return any(_may_write_a_list(node) for node in self._graph.nodes())


def named_operands(schema: OpSchema | None, operands: Sequence[Abstract]) -> Mapping[str, Abstract]:
    """Return the operands by the names of a schema's arguments, with defaults for those left out; empty if they have no names."""
    if schema is None or schema.is_vararg:
        return {}
    count = len(operands)
    return {
        argument.name: operands[index] if index < count else argument.default
        for index, argument in enumerate(schema.arguments)
    }


def _given(node: Node, operands: Sequence[Abstract]) -> Sequence[Any]:
    """Return the types that the rule gives the results; empty where it gives none."""
    op = op_of(node)
    if op is None or op.type_rule is None:
        return ()
    named = named_operands(schema_of(node), operands)
    try:
        result = op.type_rule(**named) if named else op.type_rule(*operands)
    except (ArgumentError, *SLIPS):
        return ()
    return result if isinstance(result, list | tuple) else (result,)


def _says_something(value: Value) -> bool:
    kind = value.type
    return kind.__class__ is TensorType and (kind.dtype is not None or kind.shape is not None) and not kind.undefined


def _fact(value: Value) -> Abstract:
    return value.type if isinstance(value.type, TensorType) else Unknown(value.type)


def _is_unseen(node: Node) -> bool:
    """Whether an op without blocks may do anything to its operands."""
    return effect_of(node) == "opaque" and not node.blocks and node.op not in KNOWN_SIDE_EFFECTS and bool(node.inputs)


def _has_written_keyword(node: Node) -> bool:
    schema = schema_of(node) if effect_of(node) == "in-place" else None
    return schema is not None and any(a.keyword_only and a.alias and a.alias.is_write for a in schema.arguments)


def _may_write_a_list(node: Node) -> bool:
    if _is_unseen(node):
        return True
    return effect_of(node) == "in-place" and any(isinstance(value.type, ListType) for value in node.inputs)
