"""The record of one op: its schemas, category, effect, type rule, NumPy reference and kernel expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from irscope._base.frozen import EMPTY
from irscope.ir import AliasAnnotation, OpSchema
from irscope.ops.schema.parser import parse_schema
from irscope.ops.traits import KNOWN_SIDE_EFFECTS, MOVES_STATISTICS, RUNS_UNSEEN_CODE

__all__ = [
    "Category", "Effect", "Op", "define", "draws_random_numbers", "effect_of_schema", "effect_of_schemas",
    "has_side_effects", "statistics_flag",
]  # fmt: skip


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


# The effect on memory that a schema declares, and the ops with side effects that no schema declares.
#
# A schema describes the memory of arguments and results. It does not describe printing, code that an op
# calls, effects visible to another process, or random numbers (`irscope.ops.schema.op`).

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


# The ops that draw random numbers: two calls with equal operands differ, and their order matters.
#
# The names are those that PyTorch tags as nondeterministic by seed. Some draw only when a flag is set: a dropout that is
# known not to be training draws nothing.

_ALWAYS: Final = frozenset(
    """
    aten::_cudnn_init_dropout_state aten::_fill_mem_eff_dropout_mask_ aten::_fused_dropout aten::_sample_dirichlet
    aten::_standard_gamma aten::bernoulli aten::bernoulli_ aten::binomial aten::cauchy aten::cauchy_ aten::exponential
    aten::exponential_ aten::geometric aten::geometric_ aten::log_normal aten::log_normal_ aten::multinomial
    aten::normal aten::normal_ aten::normal_functional aten::poisson aten::rand aten::rand_like aten::randint
    aten::randint_like aten::randn aten::randn_like aten::random aten::random_ aten::randperm aten::uniform
    aten::uniform_
    """.split()
)

_ONNX: Final = frozenset(
    f"onnx::{name}"
    for name in "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)

_WHEN_TRAINING: Final[Mapping[str, str]] = {
    "aten::dropout": "train",
    "aten::dropout_": "train",
    "aten::alpha_dropout": "train",
    "aten::alpha_dropout_": "train",
    "aten::feature_dropout": "train",
    "aten::feature_dropout_": "train",
    "aten::feature_alpha_dropout": "train",
    "aten::feature_alpha_dropout_": "train",
    "aten::native_dropout": "train",
    "aten::lstm": "train",
    "aten::gru": "train",
    "aten::rnn_tanh": "train",
    "aten::rnn_relu": "train",
    "aten::_cudnn_rnn": "train",
    "aten::_lstm_mps": "train",
    "aten::miopen_rnn": "train",
    "aten::rrelu": "training",
    "aten::rrelu_": "training",
    "aten::rrelu_with_noise": "training",
    "aten::rrelu_with_noise_": "training",
    "aten::rrelu_with_noise_functional": "training",
}
"""The flag that must be set, by op name."""

_WHEN_DROPPING: Final = frozenset({
    "aten::scaled_dot_product_attention",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
})  # fmt: skip
"""Ops that draw unless the probability `dropout_p` is zero."""


def draws_random_numbers(name: str, known: Mapping[str, Any] | None = None) -> bool:
    """Whether an op may draw random numbers, given those of its arguments whose values are known.

    >>> draws_random_numbers("aten::dropout"), draws_random_numbers("aten::dropout", {"train": False})
    (True, False)
    """
    known = known or {}
    if name in _ALWAYS or name in _ONNX:
        return True
    if name in _WHEN_TRAINING:
        return known.get(_WHEN_TRAINING[name], True) is not False
    return name in _WHEN_DROPPING and known.get("dropout_p", 1.0) != 0.0


# Builds an op from the text of its schemas: the one constructor that every table of ops uses.

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
