"""The corrected schemas tell the truth: torch's overloads are run, and what they share and write is compared with
them."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from irscope.ops.registry import overloads
from irscope.ops.schema import corrections as overlay
from irscope.ops.schema.corrections import corrected, overlaid_names
from irscope.ops.schema.parser import parse_schema
from tests.ops.schema.audit import DANGEROUS, audit, run_all


@pytest.fixture(scope="module")
def findings() -> list[dict[str, Any]]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    found, crashes = run_all()
    assert crashes <= 3, "the audit left out too much"
    return found


def test_most_overloads_ran(findings: list[dict[str, Any]]) -> None:
    assert len(findings) >= 1900


def test_corrected_schemas_do_not_lie(findings: list[dict[str, Any]]) -> None:
    assert {finding["name"]: finding["corrected"] for finding in findings if finding["corrected"]} == {}


def test_corrections_are_needed(findings: list[dict[str, Any]]) -> None:
    """Most corrected overloads were caught lying by the same run; the others need other inputs or hardware."""
    liars = {finding["name"] for finding in findings if finding["declared"]}
    assert liars <= set(overlaid_names())
    assert len(liars) >= 33


def test_an_overload_that_lies_is_caught(findings: list[dict[str, Any]]) -> None:
    told = {finding["name"]: finding["declared"] for finding in findings}
    assert told["aten::dropout"] == ["result 0 may share the memory of input"]
    assert told["aten::batch_norm_update_stats"] == ["running_mean may be written", "running_var may be written"]
    assert told["aten::relu"] == []


def test_a_correction_that_is_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of the overlay but those that need other inputs: without it, the same run tells of a lie."""
    torch = pytest.importorskip("torch")
    schemas = {
        schema.full_name: schema
        for schema in map(parse_schema, map(str, torch._C._jit_get_all_schemas()))
        if schema.full_name in overlaid_names() and not DANGEROUS.search(schema.full_name)
    }
    everything = overlay._corrections()
    noticed = 0
    for name, schema in schemas.items():
        finding = audit(torch, schema)
        assert finding.lies(corrected(schema)) == []
        without = {other: truth for other, truth in everything.items() if other != name}
        with monkeypatch.context() as patch:
            patch.setattr(overlay, "_corrections", lambda without=without: without)
            noticed += bool(finding.lies(corrected(schema)))
    assert noticed >= 33


def test_corrections_change_annotations_and_nothing_else() -> None:
    torch_says = parse_schema("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]")
    ours = corrected(torch_says)
    assert [(a.name, a.type, a.default, a.keyword_only) for a in ours.arguments] == [
        (a.name, a.type, a.default, a.keyword_only) for a in torch_says.arguments
    ]
    element = ours.arguments[0].alias
    assert element is not None
    assert element.element is not None
    assert element.element.before == {"a"}


def test_an_honest_schema_is_left_alone() -> None:
    schema = parse_schema("aten::relu(Tensor self) -> Tensor")
    assert corrected(schema) is schema


def test_every_correction_names_an_overload_of_torch() -> None:
    torch = pytest.importorskip("torch")
    known = {
        parse_schema(str(schema)).full_name: parse_schema(str(schema)) for schema in torch._C._jit_get_all_schemas()
    }
    for name in overlaid_names():
        assert name in known, name
        assert any(argument.alias for argument in corrected(known[name]).arguments), name


def test_the_registry_gives_corrected_schemas() -> None:
    assert all(schema.returns[0].alias for schema in overloads("aten::type_as"))
    assert all(schema.returns[0].alias for schema in overloads("aten::dropout"))
