"""Maps a node's name and operand types to its op: one table over all op files, the bundled schemas, and torch's registry."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import zip_longest
from math import prod
from typing import Any, Final, TypeVar

from irscope.ir import FLOAT, INT, NONE, NOT_CONSTANT, Erased, Graph, Node, OpSchema, TensorType, Type, Value, argument_type, constant_of
from irscope.ops.op import (
    Category,
    Effect,
    Op,
    choose_overload,
    draws_random_numbers,
    effect_of_schema,
    has_side_effects,
    may_end_in_results,
)
from irscope.ops.schemas import bundled_texts, corrected, parse_schema, torch_schemas
from irscope.ops.traits import (
    CHECKED_ON_HOST,
    GIVES_TO_HOST,
    INDEXED,
    MOVES_STATISTICS,
    NUMBER_OF_A_TENSOR,
    SHAPED_BY_ELEMENTS,
    STOPS,
    WRITES_INDEXED,
)

# Ops of languages that are functional by construction, whose tensors are values without memory.
#
# An ONNX or StableHLO op computes new values from values. It writes nothing, no result shares memory with an operand, and
# no later op can observe where a value is stored. So the name alone answers the alias db's questions, even for an op that is
# otherwise unknown (one of a custom domain). The runtime keeps that promise by copying where its library
# does not. Ops of these namespaces that carry blocks are not covered: the effects of a block are those of its nodes.

_FUNCTIONAL: Final[Mapping[str, str]] = {
    "onnx": "ONNX", "stablehlo": "StableHLO", "mhlo": "MHLO", "chlo": "CHLO", "vhlo": "VHLO", "tosa": "TOSA",
    "arith": "MLIR", "math": "MLIR", "tensor": "MLIR", "complex": "MLIR", "kernel": "a kernel",
}  # fmt: skip
"""The name of the language, by namespace."""

_OUTSIDE: Final = frozenset(
    f"{space}::{name}"
    for space in ("stablehlo", "mhlo", "vhlo")
    for name in (
        "custom_call", "send", "recv", "infeed", "outfeed", "rng", "create_token", "after_all", "partition_id", "replica_id",
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter",
        "cross-replica-sum", "async_start", "async_done",
    )
)  # fmt: skip
"""Ops of these languages that communicate with the world outside the program, or may."""


def functional_source(name: str) -> str:
    """Return the functional language that an op belongs to; empty for every other op."""
    return "" if name in _OUTSIDE else _FUNCTIONAL.get(name.partition("::")[0], "")


_T = TypeVar("_T")
_VALUE_TENSORS: Final = frozenset(
    {"linalg", "flow", "iree_tensor_ext", "iree_linalg_ext", "iree_encoding", "hal", "stream"} | _FUNCTIONAL.keys()
)


def has_value_tensors(name: str) -> bool:
    """Whether the tensors that an op reads are MLIR's immutable tensors: whatever else the op does, it does not
    change them. (A call is not such an op: its callee may be of any language.)

    >>> has_value_tensors("iree_tensor_ext::dispatch.tensor.store"), has_value_tensors("aten::add_")
    (True, False)
    """
    return name.partition("::")[0] in _VALUE_TENSORS


# Three sources, in this order: the op files of this package (the rules of some schemas), `core_schemas.txt` (the schemas, also
# of ops without rules), and torch's own registry where it is installed. Every schema passes through `corrected`, which corrects wrong ones.
# An op in none of them is unknown: legal, and assumed to do anything.
#
# One name may mean several things (`aten::add` adds tensors, numbers, or lists). `op_of(node)` is the one that the
# node's operand types select, and `schema_of(node)` its overload. Answers are cached by op name and operand types, and in the node
# itself, so that a repeated query costs a tenth of a microsecond.

_OP_FILES: Final = (
    "pointwise.arithmetic", "pointwise.comparison", "pointwise.activation", "nn.normalization", "nn.reduction",
    "nn.matmul", "nn.recurrent", "nn.convolution", "nn.onednn", "nn.pooling", "data.views",
    "data.copies", "data.joining", "data.creation", "data.indexing", "data.sorting", "python.containers",
    "python.scalars", "python.tensor_queries",
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class _Choice:
    """The op, overload, effect and category that a node's name and operand types select."""

    op: Op | None
    schema: OpSchema | None
    effect: Effect
    category: Category


_UNKNOWN: Final = _Choice(None, None, "opaque", "other")
_FUNCTIONAL_EFFECT: Final = _Choice(None, None, "pure", "other")
_FUNCTIONAL_RANDOM: Final = replace(_FUNCTIONAL_EFFECT, category="random")
"""Ops of which only their functional language is known."""


def lookup(name: str) -> Op | None:
    """Return the op of this name with every known overload, or None. If a name has several meanings, it is the one on tensors.

    >>> lookup("aten::relu").category, lookup("aten::relu_").effect, lookup("my::op")
    ('pointwise', 'in-place', None)
    """
    found = _ops(name)
    return found[0] if found else None


def op_of(node: Node) -> Op | None:
    """Return the op of a node, selected among those of its name by the operand types."""
    return _choice(node).op


def overloads(name: str) -> tuple[OpSchema, ...]:
    """Return every corrected schema of a name, over all the ops that share it; empty for an unknown op."""
    return tuple(schema for op in _ops(name) for schema in op.schemas)


def schema_of(node: Node) -> OpSchema | None:
    """Return the overload that a node calls; None when the op is unknown or no overload takes its operands."""
    return _choice(node).schema


def by_operands(node: Node, given: Sequence[Any]) -> Node:
    """Return the node as called with these operands, if its operands' declared types (`Any`) do not say which overload it calls; the
    node itself if the operands do not say it either."""
    found = _choice(node)
    if found.schema is not None or found.op is None or not found.op.schemas:
        return node
    typed = [replace(value, type=argument_type(each)) for value, each in zip(node.inputs, given, strict=False)]
    called = replace(node, inputs=tuple(typed))
    return called if schema_of(called) is not None else node


def effect_of(node: Node, known: Mapping[str, Any] | None = None) -> Effect:
    """Return the node's effect on memory, by its corrected schema; `opaque` when that is not known.

    Some ops write only under a flag (a batch normalisation that trains). They are in-place, unless the constant arguments in
    `known` show that the flag is off, or that there is nothing to write.
    """
    choice: _Choice = node.meaning or _choice(node)
    flag = MOVES_STATISTICS.get(node.op)
    if known and flag and choice.schema is not None:
        nothing = all(known.get(name, flag) is None for name in ("running_mean", "running_var"))
        if nothing or known.get(flag) is False:
            return effect_of_schema(choice.schema)
    return choice.effect


def category_of(node: Node) -> Category:
    """Return the kind of work the node does; `other` when that is not known."""
    return _choice(node).category


def read_of(node: Node, operands: Sequence[_T]) -> Sequence[_T]:
    """Return those of a node's operands that it may read: without the ones that `out=` names."""
    schema = schema_of(node)
    arguments = () if schema is None else schema.arguments
    outs = {index for index, each in enumerate(arguments) if each.keyword_only and each.alias is not None and each.alias.is_write}
    return [operand for index, operand in enumerate(operands) if index not in outs] if outs else operands


def bind(node: Node) -> dict[str, Any]:
    """Return each argument's operand by the argument's name; an argument that the node leaves out has its default.

    Operands of a vararg schema beyond the named ones are not included. Empty where no overload takes the operands.
    """
    schema, inputs = schema_of(node), node.inputs
    given, arguments = len(inputs), () if schema is None else schema.arguments
    return {argument.name: inputs[index] if index < given else argument.default for index, argument in enumerate(arguments)}


def named_inputs(node: Node) -> dict[str, Value]:
    """Return the operands that have names by their names; empty where no overload takes them."""
    schema = schema_of(node)
    return {} if schema is None else {argument.name: value for argument, value in zip(schema.arguments, node.inputs, strict=False)}


def constant_arguments(graph: Graph, node: Node) -> dict[str, Any]:
    """Return the arguments that are constants of the graph, by name, as `effect_of` and `draws_random_numbers` take them."""
    found = {name: constant_of(graph, value) for name, value in named_inputs(node).items()}
    return {name: payload for name, payload in found.items() if payload is not NOT_CONSTANT}


def may_be_on_gpu(graph: Graph, value: Value) -> bool:
    """Whether a value is a tensor, but for those that hold a number of the program, as a trace writes sizes: they are on the processor."""
    maker = graph.producer.get(value)
    return isinstance(value.type, TensorType) and (maker is None or maker.op != "prim::NumToTensor")


def reads_on_host(graph: Graph, node: Node) -> bool:
    """Whether the host needs elements of a tensor before the op returns: it waits for a GPU, which can be given no work meanwhile.

    >>> from irscope.ir.text import parse
    >>> graph = parse("graph(%x : Tensor, %n : int):\\n  %y : Tensor = aten::repeat_interleave(%x, %n, %n, %n)\\n  return (%y)")
    >>> reads_on_host(graph, graph.body.nodes[0])
    False
    """
    tensors = [value for value in node.inputs if may_be_on_gpu(graph, value)]
    if node.op in INDEXED:
        maker = graph.producer.get(node.inputs[1])
        indices = [value.type for value in (maker.inputs if maker is not None else node.inputs[1:2])]
        return any(type != NONE and (not isinstance(type, TensorType) or type.dtype in (None, "bool", "uint8")) for type in indices)
    if node.op == "aten::where":
        return len(node.inputs) == 1
    if node.op in NUMBER_OF_A_TENSOR:
        return node.inputs[NUMBER_OF_A_TENSOR[node.op]] in tensors
    if node.op == "aten::repeat_interleave":
        named = named_inputs(node)
        size = named.get("output_size")
        return (size is None or size.type == NONE) and named.get("repeats") in tensors
    if node.op == "aten::one_hot":
        return bool(constant_arguments(graph, node).get("num_classes", -1) == -1)
    if node.op == "aten::histc":
        known = constant_arguments(graph, node)
        return bool(known.get("min", 0) == known.get("max", 0))  # then they are those of the elements
    if node.op in ("aten::to", "aten::_to_copy"):
        return str(constant_arguments(graph, node).get("device")) == "cpu"
    return bool(tensors) and (node.op in GIVES_TO_HOST or node.op in SHAPED_BY_ELEMENTS or node.op in CHECKED_ON_HOST)


def known_names() -> tuple[str, ...]:
    """Return the names of all ops that are known without torch, sorted."""
    return tuple(sorted({*_op_files(), *bundled_texts()}))


def _choice(node: Node) -> _Choice:
    known: _Choice | None = node.meaning
    if known is not None:
        return known
    found = _looked_up(node)
    if found is not _UNKNOWN or node.op.startswith("prim::"):  # others are looked up again: a library may register them
        object.__setattr__(node, "meaning", found)
    return found


def _looked_up(node: Node) -> _Choice:
    inputs = node.inputs
    if len(inputs) > 32:  # only constructors of containers have so many operands, and caching their types would waste memory
        found = _ops(node.op)
        if found:
            return _chosen(found, [value.type for value in inputs])
    else:
        with suppress(KeyError):
            return _choose(node.op, *[TensorType if v.type.__class__ is TensorType else v.type for v in inputs])
    if node.blocks or not functional_source(node.op):
        return _UNKNOWN
    return _FUNCTIONAL_RANDOM if draws_random_numbers(node.op) else _FUNCTIONAL_EFFECT


@lru_cache(maxsize=1 << 16)
def _choose(name: str, *operands: Type | type[TensorType]) -> _Choice:
    """Raises KeyError for an unknown op, so that the cache does not keep it: a library may register it later."""
    found = _ops(name)
    if not found:
        raise KeyError(name)
    types = [TensorType() if isinstance(operand, type) else operand for operand in operands]
    choice = _chosen(found, types)
    known = [schema for op in found for schema in op.schemas]
    is_doubtful = choice.schema is not None and may_end_in_results(known, types)
    if (choice.schema is None or is_doubtful) and all(op.schemas for op in found):
        schemas = torch_schemas(name)
        more = _with_torch(name, schemas)
        if len(more) > len(found):
            return _chosen(more, types)
        if is_doubtful and not schemas:  # without torch, nothing says which tensor is written
            return _UNKNOWN
    return choice


def _chosen(ops: tuple[Op, ...], operands: list[Type]) -> _Choice:
    schema = choose_overload([schema for op in ops for schema in op.schemas], operands)
    if schema is None:
        without = next((op for op in ops if not op.schemas), None)
        return _Choice(without or ops[0], None, without.effect if without else "opaque", (without or ops[0]).category)
    op = next(op for op in ops if schema in op.schemas)
    effect = "opaque" if op.effect == "opaque" else effect_of_schema(schema)
    if effect == "pure" and op.name in MOVES_STATISTICS:
        effect = "in-place"
    return _Choice(op, schema, effect, op.category)


@cache
def _bundled(name: str) -> tuple[Op, ...]:
    """Return the ops of a name that are known without torch: those with rules, and the bundled overloads that they
    leave out."""
    return _with_schemas(name, _op_files().get(name, ()), map(parse_schema, bundled_texts().get(name, ())))


@cache
def _with_torch(name: str, schemas: tuple[OpSchema, ...]) -> tuple[Op, ...]:
    return _with_schemas(name, _bundled(name), schemas)


def _ops(name: str) -> tuple[Op, ...]:
    """Return the ops of a name. Torch is consulted only for names in no bundled table, because loading it takes seconds."""
    found = _bundled(name)
    if found:
        return found
    schemas = () if functional_source(name) else torch_schemas(name)  # torch has two `onnx::` ops of its own
    return _with_torch(name, schemas) if schemas else ()


def _with_schemas(name: str, ops: tuple[Op, ...], schemas: Iterable[OpSchema]) -> tuple[Op, ...]:
    """Return the ops with corrected schemas, and one more op, without rules, for the schemas that none of them declares."""
    checked = tuple(replace(op, schemas=tuple(map(corrected, op.schemas))) for op in ops)
    declared = {schema.overload for op in ops for schema in op.schemas}
    rest = tuple(corrected(schema) for schema in schemas if schema.overload not in declared)
    if not rest:
        return checked
    category: Category = "random" if draws_random_numbers(name) else checked[0].category if checked else "other"
    if category == "scalar" and any(isinstance(argument.type, TensorType) for schema in rest for argument in schema.arguments):
        category = "other"  # numbers and tensors share a name
    category = "control" if name in STOPS else category  # a check that holds moves no tensor
    effect: Effect = "opaque" if has_side_effects(name) else effect_of_schema(rest[0])
    return (*checked, Op(name, rest, category, effect))


@lru_cache(maxsize=1)
def _op_files() -> Mapping[str, tuple[Op, ...]]:
    table: dict[str, tuple[Op, ...]] = {}
    for name in _OP_FILES:
        for op in importlib.import_module(f"irscope.ops.{name}").OPS:
            table[op.name] = (*table.get(op.name, ()), op)
    return table


def elements_indexed(node: Node, operands: Sequence[Any]) -> int | None:
    """How many elements of its first operand an op writes where indices say which; None if all, or if that is not known. Operands are
    tensors or their types, numbers, and lists of these."""
    if node.op not in WRITES_INDEXED:
        return None
    first, place = operands[:2]
    if isinstance(place, list | tuple):  # an index for each axis, or None
        named = [index for index in place if index is not None]
        if any(str(getattr(index, "dtype", "bool")).endswith("bool") for index in named):
            return None
        free = [extent for extent, index in zip_longest(first.shape or (), place) if index is None]
    elif "index_put" in node.op:  # the list is not known
        return None
    else:
        free, named = [], [operand for operand in operands[1:] if hasattr(operand, "shape")][:1]
        if "index_" in node.op:
            if not isinstance(place, int):
                return None
            free = [extent for axis, extent in enumerate(first.shape or ()) if axis != place % max(len(first.shape), 1)]
    shapes = [first.shape, *(index.shape for index in named)]
    if any(shape is None or not all(isinstance(extent, int) for extent in shape) for shape in shapes):
        return None
    axes = zip_longest(*(tuple(shape)[::-1] for shape in shapes[1:]), fillvalue=1)
    found: int = prod(free) * prod(0 if 0 in axis else max(axis) for axis in axes)
    return found


def reads_indexed(node: Node, operands: Sequence[Any]) -> bool:
    """Whether a write by indices adds to what is there."""
    return "_add" in node.op or "_reduce" in node.op or (len(operands) > 3 and operands[3] is True)


# Finds nodes that compute in torch's default floating-point type, which the type rules assume to be float32.
#
# `torch.set_default_dtype` changes the type in which `tanh` of whole numbers, `zeros` without a type, and `x > 0.5` of whole
# numbers compute. Where an operand is a tensor of floats, or the type is given explicitly, the default does not matter.

DEFAULT: Final = "float32"
_ELSEWHERE: Final = ("container", "control", "scalar", "view")
"""Categories of ops that never turn anything else into floats."""


def gives_default_floats(node: Node) -> bool | None:
    """Whether the node computes in the default floating-point type; None where types leave that open."""
    if node.blocks or node.op.startswith("prim::") or category_of(node) in _ELSEWHERE:
        return False
    if (dtype := named_inputs(node).get("dtype")) is not None and dtype.type == INT:
        return False
    operands = [_is_float(value.type) for value in node.inputs if isinstance(value.type, TensorType)]
    results = [_is_float(value.type) for value in node.outputs if isinstance(value.type, TensorType)]
    compares_floats = any(value.type == FLOAT for value in node.inputs)
    if True in operands or not results:
        return False
    if True in results or compares_floats:
        return None if None in operands else True
    return None if None in results else False


def remembering_default(graph: Graph, edits: Iterable[object]) -> Graph:
    """Return the graph, marked if one of the nodes erased on the way to it computed in the default type.

    A constant that was folded from such a node is valid for that type alone, and the node itself is gone.
    """
    if graph.default_floats:
        return graph
    erased = (edit.node for edit in edits if isinstance(edit, Erased))
    op = next((node.op for node in erased if gives_default_floats(node) is not False), "")
    return replace(graph, default_floats=op) if op else graph


def _is_float(type: TensorType) -> bool | None:
    return None if type.dtype is None else type.dtype.startswith(("float", "bfloat", "complex"))
