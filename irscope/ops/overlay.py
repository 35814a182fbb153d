"""The schemas that lie, corrected: ops that give back an argument's memory though torch declares a fresh result.

Torch's registry says of these that their results are new tensors. Run, they may return the argument itself or a view of
it; a pass that believes the schema then reorders a write past a read. Each line was found by execution: `tests/ops/test_overlay_truth.py`
runs every overload that it can make inputs for, compares storages, and fails for one that is neither honest nor here.

Only the annotations of a line are used, by argument name and result position, so that a torch with other arguments profits too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from irscope.ir.schema import Argument, OpSchema
from irscope.ops.schema_text import parse_schemas

__all__ = ["corrected", "overlaid_names"]

_CORRECTIONS: Final = """
# the input itself when nothing is dropped
aten::dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::alpha_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::feature_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::feature_alpha_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
# the input itself when it has the wanted type, rank or size already
aten::type_as(Tensor(a) self, Tensor other) -> Tensor(a)
"""


def corrected(schema: OpSchema) -> OpSchema:
    """The schema with the truth about memory: itself, unless a correction is known.

    >>> from irscope.ops.schema_text import parse_schema
    >>> str(corrected(parse_schema("aten::type_as(Tensor self, Tensor other) -> Tensor")).returns[0].alias)
    '(a)'
    """
    truth = _corrections().get(schema.full_name)
    if truth is None:
        return schema
    by_name = {argument.name: argument for argument in truth.arguments}
    return replace(
        schema,
        arguments=tuple(_annotated(argument, by_name.get(argument.name)) for argument in schema.arguments),
        returns=tuple(map(_annotated, schema.returns, truth.returns)),
    )


def overlaid_names() -> tuple[str, ...]:
    """The full names of the overloads that are corrected, sorted."""
    return tuple(sorted(_corrections()))


def _annotated(argument: Argument, truth: Argument | None) -> Argument:
    return argument if truth is None else replace(argument, alias=truth.alias)


@lru_cache(maxsize=1)
def _corrections() -> Mapping[str, OpSchema]:
    return {schema.full_name: schema for schema in parse_schemas(_CORRECTIONS)}
