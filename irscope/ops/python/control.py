"""The ops that decide what runs, and those about a program's own values: branches, loops, constants, attributes, types.

What they mean depends on their blocks, attributes or number of results, so that an interpreter
(`irscope.analysis.shapes`, `irscope.runtime.reference`) knows them by name; here stands what kind of thing each is.
"""

from __future__ import annotations

from typing import Any

from irscope.ir import ANY
from irscope.ops.schema import Effect, Op, define_positional
from irscope.ops.traits import NARROWS
from irscope.ops.typing import Abstract, Unknown

__all__ = ["OPS"]


def _identity(x: Any) -> Any:
    return x


def _same(*given: Abstract, **named: Abstract) -> Abstract:
    (value,) = (*given, *named.values())
    return Unknown(ANY, value.because) if isinstance(value, Unknown) else value


def _kind(name: str, effect: Effect) -> Op:
    return Op(name, (), "control", effect)


OPS = (
    _kind("prim::Constant", "pure"),
    _kind("prim::Uninitialized", "pure"),
    _kind("prim::isinstance", "pure"),
    _kind("prim::GetAttr", "view"),
    *(define_positional(name, _identity, category="control", type_rule=_same, keep=lambda schema: True) for name in sorted(NARROWS)),
)
