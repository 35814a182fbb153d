"""What an op does to memory, as far as its schema tells, and which ops do something that no schema tells.

A schema speaks of the memory of arguments and results. It is silent about printing, about the program that an op
calls, about what another process sees, and about random numbers (`irscope.ops.schema.randomness`).
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
"""Their schemas carry no annotations though their ops communicate, time, or write."""


def statistics_flag(name: str) -> str | None:
    """The argument unless which is known to be off the op writes its `running_mean` and `running_var`; None for other
    ops.

    >>> statistics_flag("aten::batch_norm"), statistics_flag("aten::relu")
    ('training', None)
    """
    return MOVES_STATISTICS.get(name)


def has_side_effects(name: str) -> bool:
    """Whether the op of this name does something that its schema does not tell; a call of Python (`^f`) always does.

    >>> has_side_effects("prim::Print"), has_side_effects("^f"), has_side_effects("aten::add_")
    (True, True, False)
    """
    return name in KNOWN_SIDE_EFFECTS or name in RUNS_UNSEEN_CODE or name.startswith("^") or name.partition("::")[0] in _OPAQUE_NAMESPACES


def effect_of_schema(schema: OpSchema) -> Effect:
    """The effect that a schema declares; an op that has others besides (`has_side_effects`) is opaque.

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
