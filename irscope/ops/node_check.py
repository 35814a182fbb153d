"""Checks each node against the schemas of its op: the number and kinds of operands and results, and possible extents.

`irscope.ir.invariants` checks the invariants of every program and knows no op. This module adds the rules that follow from the
schemas, by the names that errors and tests use:

`operand-count`  an op with schemas has as many operands as one of them takes; prim ops that stand for Python's syntax
                 (`irscope.ops.schema_misfit`) have as many as the syntax has.
`operand-kind`   one of these schemas takes operands of these kinds.
`result-count`   the node has as many results as that schema returns.
`result-kind`    each result is of a kind that the schema returns.
`result-type`    the declared type of a result, or of a constant, does not contradict what the op makes: its element type, number of
                 dimensions, and extents where both are known (`irscope.ops.node_check` says what stays legal).
`attribute`      an op that needs an attribute has it, of the right type.
`extent`         no tensor has a negative extent, or an element count or stride that does not fit in 64 bits.

Only certain errors are reported, because programs come from many producers: torch's tracer passes tensors where numbers
are declared, torch.export passes numbers where tensors are, `Any` and classes may be anything, an optional may be present, numbers
convert into each other, and a number stands for a list of a fixed length. An op without schemas, or whose name only another
version of torch knows, is unknown: legal, and assumed to do anything. A node that passes here although no overload takes it
(`schema_of` is None) is unknown in the same way.

Answers are cached by op and types, so that a large graph costs one look-up per node.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final

from irscope._base.frozen import EMPTY
from irscope.errors import ArgumentError, VerifyError, public
from irscope.ir import (
    Graph,
    ListType,
    Module,
    Node,
    OpSchema,
    TensorData,
    TensorType,
    Type,
    Value,
    constant_value,
    contradiction,
    graph_of,
    walk,
)
from irscope.ir.invariants import verify as verify_structure
from irscope.ir.module import graphs_of, verify_module
from irscope.ir.text.printer import excerpt
from irscope.ops.registry import effect_of, op_of, overloads, schema_of
from irscope.ops.schema_misfit import Wrong, misfit, wrong_form
from irscope.ops.schemas import torch_schemas
from irscope.ops.traits import KNOWN_SIDE_EFFECTS, SHAPE_WRITERS, UNPACKS
from irscope.ops.type_rules import SLIPS, Abstract, Unknown

# Checks that the tensors of a program can exist: no negative extents, and element counts and strides that fit in 64 bits.

_MOST: Final = 2**63 - 1


def _check_extents(graph: Graph) -> None:
    """Raises VerifyError (`extent`) for the first value whose type contains an impossible tensor."""
    seen: set[int] = set()
    for value in graph.values():
        wrong = "" if id(value.type) in seen else wrong_extents(value.type)
        seen.add(id(value.type))
        if wrong:
            block = graph.block_of[value]
            place = graph.producer.get(value) or graph.owner.get(block) or block
            raise VerifyError(
                f"{value!r} is of type {value.type}: {wrong}", where=excerpt(graph, {place: ""}), rule="extent",
                hint="a tensor's extents are non-negative numbers, * or symbols",
            )  # fmt: skip


@lru_cache(maxsize=1 << 12)
def wrong_extents(type: Type) -> str:
    """Return what is wrong with the extents of the tensors in a type; empty if nothing is."""
    for inside in walk(type):
        if not isinstance(inside, TensorType):
            continue
        if any(isinstance(dim, int) and dim < 0 for dim in inside.shape or ()):
            return "an extent cannot be negative; write * for an unknown one"
        count = prod([max(1, dim) for dim in inside.shape or () if isinstance(dim, int)])
        if max([count, *map(abs, inside.strides or ())]) > _MOST:
            return "its number of elements or one of its strides does not fit in 64 bits"
    return ""


# Compares the types that the results of a node declare with those that the op's type rule gives for its operands.
#
# The rule reads the declared types of the operands, and the numbers and lists that are constants of the program. A declared type is
# wrong if the rule contradicts it: another element type, another number of dimensions, another extent where both are known.
#
# Legal stays what nobody can contradict, or what other tools write by habit:
#
# * a result without element type or shape, and extents that are unknown or symbols on either side (MLIR's `?`, ONNX's names);
# * strides, device and `requires_grad`: TorchScript prints those of the run that it profiled, and passes choose layouts;
# * Python numbers that a traced program types as tensors: they take part in promotion as numbers;
# * results that the rule does not know, ops without a rule, and calls that must fail: it may be that they never run;
# * shapes where an op of the program may change that of an existing tensor (`resize_`, `out=`, an unknown op), and what depends
#   on the contents of a list where an op may write lists.

_NUMBERS: Final = (bool, int, float, complex, str, type(None))
_MANY_OPERANDS: Final = 64
"""Longer lists are not followed."""


class ResultTypes:
    """Checks the nodes of one graph, in textual order; equal calls are checked once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Value, tuple[Abstract, object]] = {}
        """What is known of a value beside its type, and a key for it."""
        self._answers: dict[tuple[object, ...], Wrong | None] = {}

    def wrong(self, node: Node) -> Wrong | None:
        if node.op == "prim::Constant":
            return self._constant(node)
        if node.op == "prim::ListConstruct":
            self._list(node)
            return None
        if node.attrs is not EMPTY or node.op in UNPACKS:
            return None
        kinds = [value.type for value in node.outputs if value.type.__class__ is TensorType]
        if all(kind.undefined or (kind.dtype is None and kind.shape is None) for kind in kinds):
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
        elif isinstance(payload, tuple) and len(payload) <= _MANY_OPERANDS and all(item.__class__ in _NUMBERS for item in payload):
            self._known[output] = (list(payload), ("list", repr(payload)))
        elif isinstance(payload, TensorData) and isinstance(output.type, TensorType):
            held = TensorType(payload.dtype, payload.shape)
            because = contradiction(output.type, held)
            return Wrong("result-type", f"{output!r} is declared as {output.type} and holds {held}: {because}") if because else None
        return None

    def _list(self, node: Node) -> None:
        if len(node.inputs) > _MANY_OPERANDS:
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
        for node in self._graph.nodes():
            schema = schema_of(node) if effect_of(node) == "in-place" else None
            writes_keyword = schema is not None and any(a.keyword_only and a.alias and a.alias.is_write for a in schema.arguments)
            if writes_keyword or node.op in SHAPE_WRITERS or _is_unseen(node):
                return True
        return False

    @cached_property
    def _writes_lists(self) -> bool:
        return any(
            _is_unseen(node) or (effect_of(node) == "in-place" and any(isinstance(value.type, ListType) for value in node.inputs))
            for node in self._graph.nodes()
        )


def named_operands(schema: OpSchema | None, operands: Sequence[Abstract]) -> Mapping[str, Abstract]:
    """Return the operands by the names of a schema's arguments, with defaults for those left out; empty if they have no names."""
    if schema is None or schema.is_vararg:
        return {}
    count = len(operands)
    return {argument.name: operands[index] if index < count else argument.default for index, argument in enumerate(schema.arguments)}


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


def _fact(value: Value) -> Abstract:
    return value.type if isinstance(value.type, TensorType) else Unknown(value.type)


def _is_unseen(node: Node) -> bool:
    """Whether an op without blocks may do anything to its operands."""
    return effect_of(node) == "opaque" and not node.blocks and node.op not in KNOWN_SIDE_EFFECTS and bool(node.inputs)


_MANY_VALUES: Final = 32
"""Nodes with more operands and results are constructors of containers, and their types are not cached."""


@public
def verify(graph: Graph | Module) -> None:
    """Raises VerifyError at the first invariant that the graph, or a graph of the module, breaks.

    `irscope.ir.invariants` lists the invariants of every graph, and `irscope.ops.node_check` those that follow from
    the schemas of the ops. An unknown op is legal.

    >>> import irscope as irs
    >>> b = irs.GraphBuilder()
    >>> x = b.input("x")
    >>> verify(b.finish([b.op("aten::relu", x, x, x, name="y")]))
    Traceback (most recent call last):
    irscope.errors.VerifyError: aten::relu takes 1 operand, and here it has 3   [operand-count]
    ...
    """
    if isinstance(graph, Module):
        verify_module(graph)
        for _, each in graphs_of(graph):
            check_nodes(each)
        return
    graph = graph_of(graph, "verify")
    verify_structure(graph)
    check_nodes(graph)


def check_nodes(graph: Graph) -> None:
    """Raises VerifyError at the first node that certainly does not fit its op; assumes that the structure is sound."""
    known: dict[tuple[object, ...], Wrong | None] = {}
    result_types = ResultTypes(graph)
    for node in graph.nodes():
        key = _key(node)
        if key is None:
            wrong = _wrong(node)
        elif key in known:
            wrong = known[key]
        else:
            wrong = known[key] = _wrong(node)
        wrong = wrong or result_types.wrong(node)
        if wrong is not None:
            raise VerifyError(wrong.what, where=excerpt(graph, {node: ""}), rule=wrong.rule, hint=wrong.hint)
    _check_extents(graph)


def _key(node: Node) -> tuple[object, ...] | None:
    """Return the cache key of the answer; None where caching would waste memory, or attributes matter."""
    if len(node.inputs) + len(node.outputs) > _MANY_VALUES or node.attrs:
        return None
    inputs = [TensorType if value.type.__class__ is TensorType else value.type for value in node.inputs]
    outputs = [TensorType if value.type.__class__ is TensorType else value.type for value in node.outputs]
    return node.op, len(inputs), *inputs, *outputs, len(node.blocks)


def _wrong(node: Node) -> Wrong | None:
    if node.op.startswith("prim::"):
        wrong = wrong_form(node)
        if wrong is not None:
            return wrong
    schemas = overloads(node.op)
    if not schemas:
        return None
    if node.blocks and node.op.startswith("aten::"):
        return Wrong("block-arity", f"{node.op} has no blocks", "a region of another namespace may have any")
    found = misfit(schemas, node)
    if found is None or misfit((*schemas, *torch_schemas(node.op)), node) is None:
        return None
    return found
