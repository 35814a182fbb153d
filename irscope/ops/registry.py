"""Maps a node's name and operand types to its op: one table over all op files, the bundled schemas, and torch's registry where it
is installed.

Three sources, in this order: the op files of this package (schemas with rules), `core_schemas.txt` (schemas alone, for
ops without rules), and torch's own registry (`irscope.ops.schema.torch_registry`). Every schema passes through
`irscope.ops.schema.corrections`, which corrects wrong ones. An op in none of them is unknown: legal, and assumed to do
anything.

One name may mean several things (`aten::add` adds tensors, numbers, or lists). `op_of(node)` is the one that the
node's operand types select, and `schema_of(node)` its overload. Answers are cached by op name and operand types, and in the node
itself, so that a repeated query costs a tenth of a microsecond.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

from irscope.ir import NOT_CONSTANT, Graph, Node, OpSchema, TensorType, Type, Value, argument_type, constant_of
from irscope.ops.functional import functional_source
from irscope.ops.schema import (
    Category,
    Effect,
    Op,
    bundled_texts,
    choose_overload,
    corrected,
    draws_random_numbers,
    effect_of_schema,
    has_side_effects,
    may_end_in_results,
    parse_schema,
    statistics_flag,
    torch_schemas,
)

__all__ = [
    "bind",
    "category_of",
    "constant_arguments",
    "effect_of",
    "known_names",
    "lookup",
    "op_of",
    "overloads",
    "schema_of",
]

_OP_FILES: Final = (
    "pointwise.arithmetic", "pointwise.unary", "pointwise.comparison", "pointwise.activation", "nn.normalization", "nn.reduction",
    "nn.matmul", "nn.recurrent", "nn.convolution", "nn.pooling", "nn.fourier", "data.views",
    "data.copies", "data.scatter_stores", "data.joining", "data.creation", "data.indexing", "data.sorting", "python.containers",
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
_FUNCTIONAL: Final = _Choice(None, None, "pure", "other")
"""An op of which only its functional language is known."""


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
    """Return every corrected schema of a name, over all the ops that share it; empty for an unknown op.

    >>> overloads("my::op")
    ()
    """
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
    flag = statistics_flag(node.op) if known and choice.schema is not None else None
    if known and flag and choice.schema is not None:
        nothing = all(known.get(name, flag) is None for name in ("running_mean", "running_var"))
        if nothing or known.get(flag) is False:
            return effect_of_schema(choice.schema)
    return choice.effect


def category_of(node: Node) -> Category:
    """Return the kind of work the node does; `other` when that is not known."""
    return _choice(node).category


def bind(node: Node, schema: OpSchema) -> dict[str, Any]:
    """Return each argument's operand by the argument's name; an argument that the node leaves out has its default.

    Operands of a vararg schema beyond the named ones are not included.
    """
    inputs = node.inputs
    given = len(inputs)
    return {
        argument.name: inputs[index] if index < given else argument.default
        for index, argument in enumerate(schema.arguments)
    }


def constant_arguments(graph: Graph, node: Node) -> dict[str, Any]:
    """Return the arguments that are constants of the graph, by name, as `effect_of` and `draws_random_numbers` take them.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Tensor):
    ...   %p : float = prim::Constant[value=0.5]()
    ...   %train : bool = prim::Constant[value=0]()
    ...   %y : Tensor = aten::dropout(%x, %p, %train)
    ...   return (%y)''')
    >>> constant_arguments(g, g.node("y"))
    {'p': 0.5, 'train': False}
    """
    schema = schema_of(node)
    if schema is None:
        return {}
    arguments = zip(schema.arguments, node.inputs, strict=False)
    found = {argument.name: constant_of(graph, value) for argument, value in arguments}
    return {name: payload for name, payload in found.items() if payload is not NOT_CONSTANT}


def known_names() -> tuple[str, ...]:
    """Return the names of all ops that are known without torch, sorted.

    >>> "aten::add" in known_names()
    True
    """
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
    if len(inputs) > 32:
        return _choose_long(node.op, inputs) or _without_table(node.op, bool(node.blocks))
    try:
        return _choose(node.op, *[TensorType if v.type.__class__ is TensorType else v.type for v in inputs])
    except KeyError:
        return _without_table(node.op, bool(node.blocks))


def _without_table(name: str, has_blocks: bool) -> _Choice:
    """Return what is known about an op that is in no table."""
    if has_blocks or not functional_source(name):
        return _UNKNOWN
    return replace(_FUNCTIONAL, category="random") if draws_random_numbers(name) else _FUNCTIONAL


def _choose_long(name: str, inputs: tuple[Value, ...]) -> _Choice | None:
    """Choose without a cache: only constructors of containers have so many operands, and caching their types would waste memory."""
    found = _ops(name)
    return _chosen(found, [value.type for value in inputs]) if found else None


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
    if effect == "pure" and statistics_flag(op.name) is not None:
        effect = "in-place"
    return _Choice(op, schema, effect, op.category)


@cache
def _bundled(name: str) -> tuple[Op, ...]:
    """Return the ops of a name that are known without torch: those with rules, and the bundled overloads that they
    leave out."""
    with_rules = _op_files().get(name, ())
    declared = {schema.overload for op in with_rules for schema in op.schemas}
    others = [s for s in map(parse_schema, bundled_texts().get(name, ())) if s.overload not in declared]
    return _with_schemas(name, with_rules, others)


@cache
def _with_torch(name: str, schemas: tuple[OpSchema, ...]) -> tuple[Op, ...]:
    bundled = _bundled(name)
    declared = {schema.overload for op in bundled for schema in op.schemas}
    return _with_schemas(name, bundled, [schema for schema in schemas if schema.overload not in declared])


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
    rest = tuple(map(corrected, schemas))
    if not rest:
        return checked
    category: Category = "random" if draws_random_numbers(name) else checked[0].category if checked else "other"
    if category == "scalar" and any(isinstance(argument.type, TensorType) for schema in rest for argument in schema.arguments):
        category = "other"  # numbers and tensors share a name
    effect: Effect = "opaque" if has_side_effects(name) else effect_of_schema(rest[0])
    return (*checked, Op(name, rest, category, effect))


@lru_cache(maxsize=1)
def _op_files() -> Mapping[str, tuple[Op, ...]]:
    table: dict[str, tuple[Op, ...]] = {}
    for name in _OP_FILES:
        for op in importlib.import_module(f"irscope.ops.{name}").OPS:
            table[op.name] = (*table.get(op.name, ()), op)
    return table
