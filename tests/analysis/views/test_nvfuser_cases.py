"""Chains of views from nvFuser's tests of its alias analysis, boundary cases of the same, and what only buffers distinguish."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.analysis.views import Demand
from irscope.analysis.views.facts import is_tensor

from irscope.ir import (  # isort: skip
    TENSOR, AwaitType, DictType, FutureType, Graph, GraphBuilder, ListType, OpSchema, OptionalType, PrimitiveType, RRefType, Type,
)  # fmt: skip
from irscope.ops.registry import known_names, overloads
from tests.programs import parsed

CASES = json.loads(Path(__file__).with_name("nvfuser_cases.json").read_text(encoding="utf-8"))
"""Each with its origin, its program, the layouts in which nvFuser allocates what it computes, and what is expected of its values."""


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case(case: dict[str, Any]) -> None:
    asked = case.get("demands", {}).items()
    demands = {name: layout if layout == "rows" else Demand(*map(tuple, layout)) for name, layout in asked}
    va = irs.ViewAliases(irs.parse(case["text"]), demands=demands)
    for name, expected in case["expect"].items():
        layout = va.layout(name)
        assert layout is not None
        is_view = expected["truth"] == "aliases"
        assert va.is_decided(name) and va.kind(name) == ("view" if is_view else "copy")
        assert va.root(name) is va.graph.value(expected["root"] if is_view else name)
        if is_view:
            assert layout.strides == tuple(expected["strides"])
        if is_view and "gap" not in expected:
            assert layout.order == tuple(expected["layout"]["order"])
            assert layout.contiguity == tuple(expected["layout"]["contiguity"])
        assert bool(va.explain(name)) == is_view
        if va.static_kind(name) == "view":
            assert is_view
        if expected["nvfuser"] == "aliases" and is_view:
            assert va.static_kind(name) == "view"


def test_flags_do_not_promise_what_strides_happen_to_be() -> None:
    """nvFuser's `flag_false_but_dense`: by its flags the rows may have a gap, here they have none."""
    va = irs.ViewAliases(
        parsed(
            "x:Float(2, 3, 4, strides=[15, 5, 1]) | axis = 0; zero = 0; one = 1; s = [3, 4]; to = [3, 2, 2]; a = select x axis zero; "
            "b = reshape a to; flat = [12]; c = reshape a flat | b c"
        )
    )
    assert (va.kind("b"), va.static_kind("b")) == ("view", "view")
    assert (va.kind("c"), va.static_kind("c")) == ("copy", "copy")
    assert "stride(0) is 5 and would have to be 4" in str(va.explain("c"))


def test_what_is_computed_from_a_demanded_layout_follows_it() -> None:
    """`flip` and `relu` lay their results out as their operands lie, which is not as the types of the program say."""
    graph = parsed(
        "x:Float(4, 6, strides=[1, 4]) | one = 1; axes = [0]; flat = [24]; a = add x one one; b = flip a axes; c = relu b; "
        "d = reshape c flat | d"
    )
    assert irs.ViewAliases(graph).layout("c").strides == (1, 4)  # type: ignore[union-attr]
    va = irs.ViewAliases(graph, demands={"a": "rows"})
    assert [va.layout(name).strides for name in "abc"] == [(6, 1)] * 3  # type: ignore[union-attr]
    assert (va.kind("d"), va.root("d")) == ("view", va.graph.value("c"))


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
