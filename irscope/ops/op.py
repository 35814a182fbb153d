"""The record of one op: its schemas, category, effect, type rule, NumPy reference and kernel expression."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from irscope._base.frozen import EMPTY
from irscope.errors import ArgumentError
from irscope.ir import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    REQUIRED,
    STR,
    Argument,
    ClassType,
    ListType,
    OpSchema,
    OptionalType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    parts,
)
from irscope.ops.schemas import bundled_text, bundled_texts, corrected, parse_schema
from irscope.ops.traits import KNOWN_SIDE_EFFECTS, RUNS_UNSEEN_CODE, in_space

Effect = Literal["pure", "view", "in-place", "opaque"]
"""pure: fresh results, no writes. view: some result shares an argument's memory. in-place: writes an argument.
opaque: side effects that no schema declares (print, calls, unknown ops)."""

Category = Literal[
    "pointwise", "reduction", "normalization", "matmul", "convolution", "view", "memory", "random", "container", "scalar", "control",
    "other",
]  # fmt: skip
PYTHON_CATEGORIES: Final = ("container", "scalar", "control")
"""Those whose ops run in Python, move no tensor and launch nothing."""


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
    result types (see `irscope.ops.type_rules`)."""
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
    rule: Any = None
    """The `irscope.ops.expr.elementwise.Elementwise` of a pointwise op that was derived from one."""


# The effect on memory that a schema declares, and the ops with side effects that no schema declares.
#
# A schema describes the memory of arguments and results. It does not describe printing, code that an op
# calls, effects visible to another process, or random numbers (`irscope.ops.op`).

_OPAQUE_NAMESPACES: Final = frozenset(
    {"_c10d_functional", "_c10d_functional_autograd", "_test", "c10d", "cuda", "dist_autograd", "profiler", "rpc", "symm_mem"}
)
"""Namespaces whose schemas have no annotations though their ops communicate, measure time, or write."""


def has_side_effects(name: str) -> bool:
    """Whether the op of this name has side effects that its schema does not declare; a call of Python (`^f`) always has.

    >>> has_side_effects("prim::Print"), has_side_effects("^f"), has_side_effects("aten::add_")
    (True, True, False)
    """
    return name in KNOWN_SIDE_EFFECTS or name in RUNS_UNSEEN_CODE or name.startswith("^") or name.partition("::")[0] in _OPAQUE_NAMESPACES


def effect_of_schema(schema: OpSchema) -> Effect:
    """Return the effect that a schema declares; `opaque` for an op with other side effects (`has_side_effects`).

    >>> effect_of_schema(parse_schema("aten::t(Tensor(a) self) -> Tensor(a)"))
    'view'
    """
    if has_side_effects(schema.name):
        return "opaque"
    if schema.is_mutable:
        return "in-place"
    return "view" if any(result.alias is not None and result.alias.names_memory for result in schema.returns) else "pure"


# The ops that draw random numbers: two calls with equal operands differ, and their order matters.
#
# The names are those that PyTorch tags as nondeterministic by seed. Some draw only when a flag is set: a dropout that is
# known not to be training draws nothing.

_ALWAYS: Final = in_space(
    "aten",
    """
    _cudnn_init_dropout_state _fill_mem_eff_dropout_mask_ _fused_dropout _sample_dirichlet _standard_gamma bernoulli bernoulli_ binomial
    cauchy cauchy_ exponential exponential_ geometric geometric_ log_normal log_normal_ multinomial normal normal_ normal_functional
    poisson rand rand_like randint randint_like randn randn_like random random_ randperm uniform uniform_""",
)

_ELSEWHERE: Final = {
    *in_space("onnx", "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"),
    *in_space("prims", "inductor_random inductor_randint inductor_seed inductor_seeds"),
}

_WHEN_TRAINING: Final[Mapping[str, str]] = {
    f"aten::{name}": flag
    for flag, names in (
        ("train", "dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout"),
        ("train", "dropout_ alpha_dropout_ feature_dropout_ feature_alpha_dropout_"),
        ("train", "lstm gru rnn_tanh rnn_relu _cudnn_rnn _lstm_mps miopen_rnn"),
        ("training", "rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_functional"),
    )
    for name in names.split()
}
"""The flag that must be set, by op name."""

_WHEN_DROPPING: Final = in_space(
    "aten",
    """
    scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
    _scaled_dot_product_fused_attention_overrideable _flash_attention_forward _efficient_attention_forward _cudnn_attention_forward
    _triton_scaled_dot_attention""",
)
"""Ops that draw unless the probability `dropout_p` is zero."""


def draws_random_numbers(name: str, known: Mapping[str, Any] | None = None) -> bool:
    """Whether an op may draw random numbers, given those of its arguments whose values are known.

    >>> draws_random_numbers("aten::dropout"), draws_random_numbers("aten::dropout", {"train": False})
    (True, False)
    """
    known = known or {}
    if name in _ALWAYS or name in _ELSEWHERE:
        return True
    if name in _WHEN_TRAINING:
        return known.get(_WHEN_TRAINING[name], True) is not False
    return name in _WHEN_DROPPING and known.get("dropout_p", 1.0) != 0.0


# Builds an op from the text of its schemas: the one constructor that every table of ops uses.


def define(
    *overloads: str, category: Category, effect: Effect | None = None, type_rule: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None, expression: Callable[..., Any] | None = None,
    operand_axes: Mapping[str, int] = EMPTY, channel_parts: Callable[..., int] | None = None,
) -> Op:  # fmt: skip
    """Return the op of these overloads, all of one name; its effect follows from the alias annotations of their schemas.

    An overload is the full name of a bundled one, or a schema of our own.
    """
    schemas = tuple([corrected(parse_schema(bundled_text(overload) or _written(overload))) for overload in overloads])
    names = {schema.name for schema in schemas}
    assert len(names) == 1, f"one op, one name: {sorted(names)}"
    effect = effect or effect_of_schemas(schemas)
    return Op(names.pop(), schemas, category, effect, type_rule, reference, expression, operand_axes, channel_parts)


def _written(schema: str) -> str:
    """Return a schema of our own. Raises ArgumentError for the mere name of an overload, which is not bundled."""
    if "(" not in schema:
        raise ArgumentError(f"there is no overload {schema} in irscope/ops/core_schemas.txt", hint="add the line that torch prints of it")
    return schema


def in_place_variants(overloads: Iterable[str]) -> list[str]:
    """Return those of the overloads that torch also has with an underscore, which write `self`.

    >>> in_place_variants(["aten::add.Tensor", "aten::maximum"])
    ['aten::add_.Tensor']
    """
    names = [f"{name}_{point}{overload}" for name, point, overload in (each.partition(".") for each in overloads)]
    return [name for name in names if bundled_text(name)]


def effect_of_schemas(schemas: tuple[OpSchema, ...]) -> Effect:
    """Return the strongest effect of all overloads; `irscope.ops.registry.effect_of` returns that of one node."""
    effects = set(map(effect_of_schema, schemas))
    order: tuple[Effect, ...] = ("opaque", "in-place", "view")
    return next((effect for effect in order if effect in effects), "pure")


def without_tensors(schema: OpSchema) -> bool:
    """Whether the schema computes with numbers, strings and containers only.

    >>> texts = "aten::neg.int(int a) -> int", "aten::neg(Tensor self) -> Tensor"
    >>> [without_tensors(parse_schema(text)) for text in texts]
    [True, False]
    """
    types = [item.type for item in (*schema.arguments, *schema.returns)]
    return not any(isinstance(type, TensorType) for type in types)


def define_positional(
    name: str, function: Callable[..., Any], *, category: Category, type_rule: Callable[..., Any] | None,
    keep: Callable[[OpSchema], bool] = without_tensors,
) -> Op:  # fmt: skip
    """Return the op of this name over the bundled overloads that `keep` allows; one Python function computes them all.

    Overloads name their arguments differently (`a`, `self`, `l`), so the function takes them by position.

    >>> define_positional("aten::neg", lambda a: -a, category="scalar", type_rule=None).reference(a=2)
    -2
    """
    schemas = tuple(filter(keep, map(parse_schema, bundled_texts().get(name, ()))))

    def reference(*given: Any, **named: Any) -> Any:
        return function(*given, *named.values())

    return Op(name, schemas, category, effect_of_schemas(schemas), type_rule, reference)


# Selects the overload of an op for a list of operand types, by TorchScript's rules.
#
# TorchScript writes every argument of a call into its IR, already converted, so the first overload whose argument
# types are supertypes of the operands' is the right one. Graphs from other sources are laxer: trailing arguments may be missing
# where there are defaults, and a number may stand for a list of equal numbers or a wider number. Hence there are three rounds,
# each over all overloads in the order in which torch declares them: as written, with defaults, with conversions.

_VARIABLES: Final = frozenset({"t", "t1", "t2", "tVal"})
"""The type variables of schemas: the same type wherever the name occurs."""

_WIDER: Final[dict[Type, tuple[Type, ...]]] = {
    BOOL: (INT, FLOAT, COMPLEX, NUMBER),
    INT: (FLOAT, COMPLEX, BOOL),
    FLOAT: (COMPLEX,),
    NUMBER: (INT, FLOAT, COMPLEX, BOOL),
    STR: (PrimitiveType("Device"),),
}
"""The types that each type also matches when conversions are allowed."""

_MAKING: Final = frozenset({"dtype", "layout", "device", "pin_memory"})

_NUMBERS: Final = (BOOL, INT, FLOAT, COMPLEX, NUMBER)


def choose_overload(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> OpSchema | None:
    """Return the first schema that takes these operands, all of them positional; None when none does."""
    fitting = _taking(schemas, operands)
    exact = [schema for schema in fitting if schema.is_vararg or len(schema.arguments) == len(operands)]
    return _first(exact, operands, convert=False) or _first(fitting, operands, convert=False) or _first(fitting, operands, convert=True)


def counts_with_results(schemas: Iterable[OpSchema]) -> frozenset[int]:
    """Return how many operands the overloads take that write their results into the last ones, which are often in no table.

    Torch makes one of each schema whose results are fresh tensors: it drops the arguments that say how to make a tensor, and
    adds an argument for each result.

    >>> counts_with_results([parse_schema("aten::log(Tensor self) -> Tensor"), parse_schema("aten::log.int(int a) -> float")])
    frozenset({2})
    """
    counts = set()
    for schema in schemas:
        if schema.returns and all(isinstance(result.type, TensorType) and result.alias is None for result in schema.returns):
            names = {argument.name for argument in schema.arguments}
            counts.add(len(names - _MAKING if "layout" in names else names) + len(schema.returns))
    return frozenset(counts)


def may_end_in_results(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> bool:
    """Whether the last operand may be a tensor to write a result into, of an overload that is not among the schemas.

    It fits only if it is converted to a number: `torch.log(x, out=y)` is `aten::log(%x, %y)` in TorchScript's IR, which could
    also be the logarithm of a number to a base.
    """
    if not operands or not isinstance(operands[-1], TensorType) or len(operands) not in counts_with_results(schemas):
        return False
    return _first(_taking(schemas, operands), operands, convert=False) is None


def _taking(schemas: Sequence[OpSchema], operands: Sequence[Type]) -> list[OpSchema]:
    """Return those that take so many operands: arguments with a default may be left out."""
    count = len(operands)
    return [
        schema
        for schema in schemas
        if (schema.is_vararg if count > len(schema.arguments) else all(a.default is not REQUIRED for a in schema.arguments[count:]))
    ]


def _first(schemas: Iterable[OpSchema], operands: Sequence[Type], *, convert: bool) -> OpSchema | None:
    for schema in schemas:
        variables: dict[str, Type] = {}
        if all(_passes(type, argument, variables, convert) for type, argument in zip(operands, schema.arguments, strict=False)):
            return schema
    return None


def _passes(operand: Type, argument: Argument, variables: dict[str, Type], convert: bool) -> bool:
    if _fits(operand, argument.type, variables, convert):
        return True
    if not convert or argument.length is None:
        return False
    wanted = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    return isinstance(wanted, ListType) and _fits(operand, wanted.element, variables, convert)


def _fits(operand: Type, wanted: Type, variables: dict[str, Type], convert: bool) -> bool:
    """Whether a value of type `operand` is one of type `wanted`; types nest a few levels, so recursion is safe."""
    if isinstance(wanted, PrimitiveType):
        return _fits_primitive(operand, wanted, variables, convert)
    if isinstance(wanted, TensorType):
        return isinstance(operand, TensorType)
    if isinstance(wanted, OptionalType):
        inner = operand.element if isinstance(operand, OptionalType) else operand
        return operand == NONE or _fits(inner, wanted.element, variables, convert)
    if isinstance(wanted, ListType):
        if isinstance(operand, TupleType) and convert:
            return all(_fits(part, wanted.element, variables, convert) for part in operand.elements)
        return isinstance(operand, ListType) and _fits(operand.element, wanted.element, variables, convert)
    if isinstance(wanted, UnionType):
        members = operand.members if isinstance(operand, UnionType) else (operand,)
        return all(any(_fits(m, w, variables, convert) for w in wanted.members) for m in members)
    inside, own = parts(wanted), parts(operand)
    if not inside or type(operand) is not type(wanted):
        return operand == wanted
    return len(own) == len(inside) and all(_fits(a, b, variables, convert) for a, b in zip(own, inside, strict=True))


def _fits_primitive(operand: Type, wanted: PrimitiveType, variables: dict[str, Type], convert: bool) -> bool:
    if isinstance(operand, UnionType) and all(member in _NUMBERS for member in operand.members):
        operand = NUMBER
    if operand == wanted or wanted == ANY:
        return True
    if wanted.name in _VARIABLES:
        bound = variables.setdefault(wanted.name, operand)
        return bound is operand or _fits(operand, bound, {}, convert=False)
    if wanted == NUMBER and operand in (INT, FLOAT, COMPLEX):
        return True
    if wanted.name in ("AnyEnumType", "AnyClassType"):
        return isinstance(operand, ClassType)
    if not convert:
        return False
    return wanted in _WIDER.get(operand, ()) or (isinstance(operand, TensorType) and wanted in _NUMBERS)
