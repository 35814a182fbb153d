"""The tables of ops are complete and consistent: what they declare can be called as an interpreter calls it."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

from irscope.ir.schema import OpSchema
from tests.ops.oracle import table

OVERLOADS = sorted(table().items())


def test_no_overload_is_declared_twice() -> None:
    from tests.ops.oracle import files

    counts = Counter(schema.full_name for file in files() for op in file.OPS for schema in op.schemas)
    assert [name for name, count in counts.items() if count > 1] == []


def test_rule_and_reference_take_the_arguments_of_the_schema() -> None:
    refused = []
    for name, (op, schema) in OVERLOADS:
        for function in filter(None, (op.type_rule, op.reference)):
            try:
                inspect.signature(function).bind(**{argument.name: None for argument in schema.arguments})
            except TypeError as error:
                refused.append((name, str(error)))
    assert refused == []


def test_the_schemas_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    from irscope.ops.schema.parser import parse_schema

    theirs: dict[str, OpSchema] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith(("aten::", "prim::")):
            parsed = parse_schema(str(schema))
            theirs[parsed.full_name] = parsed
    wrong = {
        name: (op, schema) for name, (op, schema) in OVERLOADS if name in theirs and not same(schema, theirs[name])
    }
    assert list(wrong) == []


def same(ours: OpSchema, theirs: OpSchema) -> bool:
    """The same arguments with the same types and defaults; annotations may be corrected (`irscope.ops.schema.corrections`)."""
    arguments = [(a.name, a.type, a.keyword_only) for a in ours.arguments]
    return arguments == [(a.name, a.type, a.keyword_only) for a in theirs.arguments] and len(ours.returns) == len(
        theirs.returns
    )
