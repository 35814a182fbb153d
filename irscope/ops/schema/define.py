"""Builds an op from the text of its schemas: the one constructor that every table of ops uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irscope._base.frozen import EMPTY
from irscope.ir import OpSchema
from irscope.ops.schema.effects import effect_of_schema
from irscope.ops.schema.op import Category, Effect, Op
from irscope.ops.schema.parser import parse_schema

__all__ = ["define", "effect_of_schemas"]


def define(
    *texts: str,
    category: Category,
    effect: Effect | None = None,
    type_rule: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    expression: Callable[..., Any] | None = None,
    operand_axes: Mapping[str, int] = EMPTY,
    channel_parts: Callable[..., int] | None = None,
) -> Op:
    """Return the op that these schemas declare, all of one name; its effect follows from their alias annotations.

    >>> op = define("aten::t(Tensor(a) self) -> Tensor(a)", category="view")
    >>> op.name, op.effect
    ('aten::t', 'view')
    """
    schemas = tuple(map(parse_schema, texts))
    names = {schema.name for schema in schemas}
    assert len(names) == 1, f"one op, one name: {sorted(names)}"
    effect = effect or effect_of_schemas(schemas)
    return Op(names.pop(), schemas, category, effect, type_rule, reference, expression, operand_axes, channel_parts)


def effect_of_schemas(schemas: tuple[OpSchema, ...]) -> Effect:
    """Return the strongest effect of all overloads; `irscope.ops.registry.effect_of` returns that of one node."""
    effects = set(map(effect_of_schema, schemas))
    order: tuple[Effect, ...] = ("opaque", "in-place", "view")
    return next((effect for effect in order if effect in effects), "pure")
