"""Where nothing is known of sizes, only buffers tell tensors apart: of what an op makes anew, the alias db knows too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import irscope as irs
from irscope.analysis.views.facts import is_tensor
from irscope.ir import TENSOR, DictType, Graph, GraphBuilder, ListType, OpSchema, OptionalType, PrimitiveType, Type
from irscope.ir.types import AwaitType, FutureType, RRefType
from irscope.ops.registry import known_names, overloads

_ANYTHING = frozenset({"t", "Any"})
_COPIES = frozenset({"aten::tensor", "aten::as_tensor.list"})
"""Torch copies what is in the list; the alias db does not know."""


def program(schema: OpSchema) -> Graph | None:
    """One node of the op on inputs of its arguments' types; None for an op that gives no tensor."""
    arguments = [chosen(argument.type) for argument in schema.arguments] or [TENSOR]
    results = [chosen(result.type) for result in schema.returns] or [TENSOR, TENSOR]
    if not any(map(is_tensor, results)):
        return None
    build = GraphBuilder("one")
    inputs = [build.input(f"x{place}", type) for place, type in enumerate(arguments)]
    return build.finish(build.node(schema.name, inputs, results))


def chosen(type: Type) -> Type:
    """The type with tensors where anything may stand."""
    match type:
        case PrimitiveType(name) if name in _ANYTHING:
            return TENSOR
        case ListType(inner) | OptionalType(inner) | FutureType(inner) | AwaitType(inner) | RRefType(inner):
            return replace(type, element=chosen(inner))
        case DictType(_, value):
            return replace(type, value=chosen(value))
    return type


def programs() -> Iterator[tuple[OpSchema, Graph]]:
    for name in known_names():
        for schema in overloads(name):
            graph = program(schema)
            if graph is not None:
                yield schema, graph


def test_what_views_take_for_new_is_new_to_the_alias_db() -> None:
    compared = new = 0
    wrong = []
    for schema, graph in programs():
        views, db = irs.ViewAliases(graph), irs.AliasDb(graph)
        for result in filter(lambda value: is_tensor(value.type), graph.outputs):
            others = [*graph.inputs, *(value for value in graph.outputs if value is not result)]
            apart = views.kind(result) == "copy" and views.is_decided(result)
            for other in others:
                compared += 1
                if not apart or (is_tensor(other.type) and views.overlaps(result, other)):
                    continue
                new += 1
                shared = db.may_contain_alias(result, other)
                if shared and schema.full_name not in _COPIES:
                    wrong.append(f"{schema.full_name}: {shared}")
    assert not wrong, "\n".join(wrong)
    assert compared > 5_000
    assert new > 3_000
