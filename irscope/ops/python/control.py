"""The control ops: constants, attributes, and checks and casts of types.

Their meaning depends on their blocks, attributes or number of results, so an interpreter
(`irscope.analysis.shapes`, `irscope.runtime.reference`) handles them by name. This module defines their category and effect.
"""

from __future__ import annotations

from typing import Any

from irscope.ir import ANY
from irscope.ops.schema import Effect, Op, define_positional
from irscope.ops.schema.define import define
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


def _required(self: Any, assert_msg: str = "") -> None:
    if not self.item():
        raise ValueError(assert_msg or "an assertion of the program does not hold")


OPS = (
    define(
        "aten::_assert_async(Tensor self) -> ()",
        "aten::_assert_async.msg(Tensor self, str assert_msg) -> ()",
        category="other",
        type_rule=lambda self, assert_msg="": (),
        reference=_required,
    ),
    _kind("prim::Constant", "pure"),
    _kind("prim::Uninitialized", "pure"),
    _kind("prim::isinstance", "pure"),
    _kind("prim::GetAttr", "view"),
    *(define_positional(name, _identity, category="control", type_rule=_same, keep=lambda schema: True) for name in sorted(NARROWS)),
)
