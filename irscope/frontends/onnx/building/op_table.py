"""The table of builders: which one handles an ONNX op from which opset on, over the files of
`irscope.frontends.onnx.ops`.

A builder takes a `Call`, appends `aten::` nodes, and returns one result for each output that it produces. It raises
`Refused` if the op, as it is used, has no faithful `aten::` meaning. An op whose meaning changed has several rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.reading.inference import schema_of_op

__all__ = ["Builder", "Table", "builders", "op", "rule_for"]

Builder = Callable[[Call], Result | Sequence[Result]]
Table = dict[str, list[tuple[int, Builder]]]
"""Maps an op's name to rows: the first opset of a builder, and the builder."""

_FAMILIES: Final = (
    "pointwise", "casts", "reductions", "layout", "slicing", "shapes", "linear", "pooling", "normalization",
    "gathering", "sequences", "recurrent", "quantized", "resizing",
)  # fmt: skip
_OLDEST: Final = 7
"""In older opsets only ops that are unchanged in this one are supported: broadcasting was an attribute then."""


def op(table: Table, *names: str, since: int = 1) -> Callable[[Builder], Builder]:
    """Registers a builder in a family's table, from an opset on."""

    def enter(builder: Builder) -> Builder:
        for name in names:
            table.setdefault(name, []).append((since, builder))
        return builder

    return enter


@cache
def builders() -> Mapping[str, Sequence[tuple[int, Builder]]]:
    """Returns all rows by op name, the oldest first."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for family in _FAMILIES:
        table: Table = importlib.import_module(f"irscope.frontends.onnx.ops.{family}").OPS
        for name, rows in table.items():
            found.setdefault(name, []).extend(rows)
    return {name: tuple(sorted(rows, key=lambda row: row[0])) for name, rows in found.items()}


def _version(name: str, opset: int) -> int:
    """Returns the opset that introduced the version of an op in a given opset."""
    schema = schema_of_op(name, "ai.onnx", opset)
    return 0 if schema is None else int(schema.since_version)


def rule_for(domain: str, name: str, opset: int) -> Builder | None:
    """Returns the builder of an op of ONNX's own domain in an opset; None if there is none."""
    if domain != "ai.onnx" or (opset < _OLDEST and _version(name, opset) != _version(name, _OLDEST)):
        return None
    rows = [builder for since, builder in builders().get(name, ()) if since <= opset]
    return rows[-1] if rows else None
