"""The record of one op: its schemas, category, effect, type rule, NumPy reference and kernel expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from irscope.ir import OpSchema

__all__ = ["Category", "Effect", "Op"]

Effect = Literal["pure", "view", "in-place", "opaque"]
"""pure: fresh results, no writes. view: some result shares an argument's memory. in-place: writes an argument.
opaque: side effects that no schema declares (print, calls, unknown ops)."""

Category = Literal[
    "pointwise",
    "reduction",
    "normalization",
    "matmul",
    "convolution",
    "view",
    "memory",
    "random",
    "container",
    "scalar",
    "control",
    "other",
]


@dataclass(frozen=True, eq=False)
class Op:
    """One op with all its overloads."""

    name: str
    """The qualified name, such as `aten::add`."""
    schemas: tuple[OpSchema, ...]
    """Overloads, the most specific first."""
    category: Category
    effect: Effect
    type_rule: Callable[..., Any] | None = None
    """Called with the schema's arguments by name, tensors as TensorType and known scalars as Python values; returns the
    result types (see `irscope.ops.typing.type_rules`)."""
    reference: Callable[..., Any] | None = None
    """Called with the schema's arguments by name, tensors as NumPy arrays; a view op returns a NumPy view, an in-place op
    writes its argument."""
    expression: Callable[..., Any] | None = None
    """Called with the schema's arguments by name, tensors as `Expr`; returns the `Expr` of one element of each result."""
    operand_axes: Mapping[str, int] = field(default_factory=dict)
    """One-dimensional operands that are aligned with this axis of the result instead of its last one (the weight of a batch norm: 1)."""
    channel_parts: Callable[..., int] | None = None
    """Set for normalizations that cut the channels, axis 1, into parts and reduce each part separately. Called with `channels`, the
    extent of axis 1, and the known arguments by name; returns the number of parts, or raises NoExpression. Such an op's
    `expression` is over the input viewed as (batch, part, rest); `weight` and `bias` then scale the result by channel."""
