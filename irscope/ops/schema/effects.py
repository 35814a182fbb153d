"""The effect on memory that a schema declares, and the ops with side effects that no schema declares.

A schema describes the memory of arguments and results. It does not describe printing, code that an op
calls, effects visible to another process, or random numbers (`irscope.ops.schema.randomness`).
"""

from __future__ import annotations

from typing import Final

from irscope.ir import AliasAnnotation, OpSchema
from irscope.ops.schema.op import Effect
from irscope.ops.traits import KNOWN_SIDE_EFFECTS, MOVES_STATISTICS, RUNS_UNSEEN_CODE

__all__ = ["effect_of_schema", "has_side_effects", "statistics_flag"]

_OPAQUE_NAMESPACES: Final = frozenset(
    {
        "_c10d_functional",
        "_c10d_functional_autograd",
        "_test",
        "c10d",
        "cuda",
        "dist_autograd",
        "profiler",
        "rpc",
        "symm_mem",
    }
)
"""Namespaces whose schemas have no annotations though their ops communicate, measure time, or write."""


def statistics_flag(name: str) -> str | None:
    """Return the flag argument of an op that writes its `running_mean` and `running_var` unless the flag is known to be off;
    None for other ops.

    >>> statistics_flag("aten::batch_norm"), statistics_flag("aten::relu")
    ('training', None)
    """
    return MOVES_STATISTICS.get(name)


def has_side_effects(name: str) -> bool:
    """Whether the op of this name has side effects that its schema does not declare; a call of Python (`^f`) always has.

    >>> has_side_effects("prim::Print"), has_side_effects("^f"), has_side_effects("aten::add_")
    (True, True, False)
    """
    return name in KNOWN_SIDE_EFFECTS or name in RUNS_UNSEEN_CODE or name.startswith("^") or name.partition("::")[0] in _OPAQUE_NAMESPACES


def effect_of_schema(schema: OpSchema) -> Effect:
    """Return the effect that a schema declares; `opaque` for an op with other side effects (`has_side_effects`).

    >>> from irscope.ops.schema.parser import parse_schema
    >>> effect_of_schema(parse_schema("aten::t(Tensor(a) self) -> Tensor(a)"))
    'view'
    """
    if has_side_effects(schema.name):
        return "opaque"
    if schema.is_mutable:
        return "in-place"
    return "view" if any(_shares(result.alias) for result in schema.returns) else "pure"


def _shares(alias: AliasAnnotation | None) -> bool:
    return alias is not None and bool(alias.before or _shares(alias.element))
