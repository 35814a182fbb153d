"""The bundled schemas, one per line of `core_schemas.txt`, so that the core ops are known without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from irscope.ir import OpSchema, TensorType
from irscope.ops.schema.define import effect_of_schemas
from irscope.ops.schema.op import Category, Op
from irscope.ops.schema.parser import parse_schema

__all__ = ["bundled_texts", "define_positional", "without_tensors"]


@lru_cache(maxsize=1)
def bundled_texts() -> Mapping[str, tuple[str, ...]]:
    """Return the lines by op name, not yet parsed, because a program uses few of them."""
    table: dict[str, list[str]] = {}
    for line in files("irscope.ops.schema").joinpath("core_schemas.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            table.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return {name: tuple(lines) for name, lines in table.items()}


def without_tensors(schema: OpSchema) -> bool:
    """Whether the schema computes with numbers, strings and containers only.

    >>> texts = "aten::neg.int(int a) -> int", "aten::neg(Tensor self) -> Tensor"
    >>> [without_tensors(parse_schema(text)) for text in texts]
    [True, False]
    """
    types = [item.type for item in (*schema.arguments, *schema.returns)]
    return not any(isinstance(type, TensorType) for type in types)


def define_positional(
    name: str,
    function: Callable[..., Any],
    *,
    category: Category,
    type_rule: Callable[..., Any] | None,
    keep: Callable[[OpSchema], bool] = without_tensors,
) -> Op:
    """Return the op of this name over the bundled overloads that `keep` allows; one Python function computes them all.

    Overloads name their arguments differently (`a`, `self`, `l`), so the function takes them by position.

    >>> define_positional("aten::neg", lambda a: -a, category="scalar", type_rule=None).reference(a=2)
    -2
    """
    schemas = tuple(filter(keep, map(parse_schema, bundled_texts().get(name, ()))))

    def reference(*given: Any, **named: Any) -> Any:
        return function(*given, *named.values())

    return Op(name, schemas, category, effect_of_schemas(schemas), type_rule, reference)
