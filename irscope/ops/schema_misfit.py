"""Finds why a node matches none of an op's schemas: the number of operands or results, or their kinds.

Kinds are interpreted as widely as possible (see `irscope.ops.node_check`), so everything reported here is certainly wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from irscope._base.frozen import FrozenDict
from irscope._base.words import plural
from irscope.ir import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    REQUIRED,
    STR,
    TENSOR,
    AliasAnnotation,
    Argument,
    DictType,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    TensorData,
    TensorType,
    TupleType,
    Type,
    UnionType,
    Value,
    is_subtype,
    parts,
)

# The required form of the prim ops that stand for Python's syntax: operands, results, their kinds, attributes.
#
# Torch registers no schema for them, or an uninformative one (`prim::TupleUnpack(Any tup) -> ...`), yet every analysis reads
# their operands by position. Bounds are as wide as what any version of torch has emitted; ops that are not listed are not checked.

_NUMBERS: Final = frozenset({BOOL, COMPLEX, FLOAT, INT, NUMBER})
_PLAIN: Final = frozenset({BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, NUMBER, STR})


class Wrong(NamedTuple):
    """The rule that a node breaks, what is wrong, and a hint how to fix it."""

    rule: str
    what: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Form:
    """The number of operands and results, the container kinds of the first operand and the result, and a required attribute."""

    inputs: tuple[int, int | None] = (0, None)
    outputs: tuple[int, int | None] = (0, None)
    takes: tuple[type[Type], ...] = ()
    """The kinds that the first operand may have; empty means any."""
    gives: tuple[type[Type], ...] = ()
    attribute: tuple[str, type] | None = None


_ONE: Final = (1, 1)
_FORMS: Final[Mapping[str, _Form]] = {
    "prim::ListConstruct": _Form(outputs=_ONE, gives=(ListType,)),
    "prim::DictConstruct": _Form(outputs=_ONE, gives=(DictType,)),
    "prim::TupleConstruct": _Form(outputs=_ONE, gives=(TupleType,)),
    "prim::TupleUnpack": _Form(_ONE, takes=(TupleType,)),
    "prim::ListUnpack": _Form(_ONE, takes=(ListType,)),
    "prim::TupleIndex": _Form((1, 2), _ONE, takes=(TupleType,)),
    "prim::TupleSlice": _Form(_ONE, _ONE, takes=(TupleType,)),
    "prim::GetAttr": _Form(_ONE, _ONE, attribute=("name", str)),
    "prim::SetAttr": _Form((2, 2), (0, 0), attribute=("name", str)),
    "prim::HasAttr": _Form(_ONE, _ONE),
    "prim::CreateObject": _Form((0, 0), _ONE),
    "prim::CallMethod": _Form((1, None), (0, 1), attribute=("name", str)),
    "prim::CallFunction": _Form((1, None), (0, 1)),
    "prim::isinstance": _Form(_ONE, _ONE),
    "prim::unchecked_cast": _Form(_ONE, _ONE),
    "prim::unchecked_unwrap_optional": _Form(_ONE, _ONE),
    "prim::Uninitialized": _Form((0, 0), _ONE),
    "prim::ConstantChunk": _Form(_ONE),
    "prim::Print": _Form(outputs=(0, 0)),
    "prim::Guard": _Form(_ONE, _ONE),
    "prim::profile": _Form((0, 1), (0, 1)),
    "prim::profile_ivalue": _Form((0, 1), (0, 1)),
    "prim::Enter": _Form(_ONE, (0, 1)),
    "prim::Exit": _Form((1, 4), (0, 1)),
    "prim::AutogradAdd": _Form((2, 2), _ONE),
    "prim::ModuleContainerIndex": _Form((2, 2), _ONE),
}


def wrong_form(node: Node) -> Wrong | None:
    """Return what is wrong with a node of Python's syntax; None for other ops and for well-formed nodes."""
    form = _FORMS.get(node.op)
    if form is None:
        return _wrong_constant(node) if node.op == "prim::Constant" else None
    for rule, values, bounds, noun in (
        ("operand-count", node.inputs, form.inputs, "operand"), ("result-count", node.outputs, form.outputs, "result")
    ):  # fmt: skip
        least, most = bounds
        if len(values) < least or (most is not None and len(values) > most):
            return Wrong(rule, f"{node.op} has {_range_text(least, most, noun)}, and here {len(values)}")
    if form.takes and not _may_be_of(node.inputs[0].type, form.takes):
        return Wrong("operand-kind", f"{node.inputs[0]!r} is {node.inputs[0].type}, and {node.op} takes a {_word(form.takes)}")
    if form.gives and not _may_be_of(node.outputs[0].type, form.gives):
        return Wrong("result-kind", f"{node.outputs[0]!r} is {node.outputs[0].type}, and {node.op} makes a {_word(form.gives)}")
    if form.attribute is not None and not isinstance(node.attrs.get(form.attribute[0]), form.attribute[1]):
        return Wrong("attribute", f"{node.op} has no attribute {form.attribute[0]!r} that is a {form.attribute[1].__name__}")
    return _wrong_parts(node)


def _wrong_constant(node: Node) -> Wrong | None:
    """Find a number, string or list that is not a value of the constant's type."""
    value, payload = node.outputs[0], node.attrs.get("value")
    absent = payload is None and value.type not in _PAYLOADS
    if absent or (payload is not None and _may_be_value(payload, value.type)):
        return None
    return Wrong("constant-kind", f"{value!r} is {value.type}, and {_short(repr(payload))} is not")


def _may_be_value(payload: object, type: Type) -> bool:
    """Whether a payload may be of a type; only plain ones and lists of them are checked, and an int stands for any number."""
    inner = _inner(type)
    if isinstance(payload, bool | int | float | complex | str):
        if isinstance(inner, ListType | TupleType | DictType) or inner == NONE or (isinstance(inner, TensorType) and inner.shape):
            return False
        if isinstance(payload, int) and not -(2**63) <= payload < 2**64:
            return inner not in (BOOL, INT, STR)
        kinds = _PAYLOADS.get(inner)
        return kinds is None or isinstance(payload, kinds)
    if isinstance(payload, tuple):
        if isinstance(inner, ListType):
            plain = inner.element in _PAYLOADS
            return not plain or all(item is None or _may_be_value(item, inner.element) for item in payload)
        return inner not in _PLAIN
    return not isinstance(payload, FrozenDict | TensorData) or inner not in _PLAIN


_PAYLOADS: Final[Mapping[Type, tuple[type, ...]]] = {
    BOOL: (bool, int),
    INT: (int,),
    FLOAT: (int, float),
    COMPLEX: (int, float, complex),
    NUMBER: (int, float, complex),
    STR: (str,),
    DEVICE: (str,),
}
"""The Python types of the constants of each type."""


def _wrong_parts(node: Node) -> Wrong | None:
    """Check the elements that go into a container or come out of it against the container's type."""
    if node.op == "prim::DictConstruct" and len(node.inputs) % 2:
        return Wrong("operand-count", f"{node.op} has a value for each key, and here {plural(len(node.inputs), 'operand')}")
    if node.op == "prim::TupleSlice" and not all(isinstance(node.attrs.get(key), int) for key in ("beg", "end")):
        return Wrong("attribute", f"{node.op} has no attributes 'beg' and 'end' that are numbers")
    if node.op not in ("prim::ListConstruct", "prim::TupleConstruct", "prim::TupleUnpack"):
        return None
    is_unpacked = node.op == "prim::TupleUnpack"
    container, values, kind = (node.inputs[0], node.outputs, "result") if is_unpacked else (node.outputs[0], node.inputs, "operand")
    inner = _inner(container.type)
    if isinstance(inner, TupleType) and not inner.name:
        wanted, holds = inner.elements, "that part of the tuple is"
    elif isinstance(inner, ListType):
        values = tuple({id(value.type): value for value in values}.values())  # a long list has few types
        wanted, holds = (inner.element,) * len(values), "the list holds"
    else:
        return None
    if len(wanted) != len(values):
        return Wrong(f"{kind}-count", f"a tuple of type {_short(str(inner))} has {len(wanted)} parts, and {node.op} has {len(values)}")
    for value, part in zip(values, wanted, strict=True):
        if not _may_meet(value.type, part):
            return Wrong(f"{kind}-kind", f"{value!r} is {value.type}, and {holds} {part}")
    return None


def _may_meet(a: Type, b: Type) -> bool:
    """Whether a value can be of both types; the tracer puts tensors in place of numbers."""
    if is_subtype(a, b) or is_subtype(b, a):
        return True
    return (_is_number(a) and _is_number(b)) or isinstance(a, OptionalType) or isinstance(b, OptionalType)


def _may_be_of(type: Type, kinds: tuple[type[Type], ...]) -> bool:
    """Whether a value of this type may be such a container: not if it certainly is something else."""
    inner = _inner(type)
    if isinstance(inner, kinds):
        return True
    if inner.__class__ is TensorType or inner in _PLAIN:
        return False
    return inner == ANY or not isinstance(inner, ListType | DictType | TupleType)


def _range_text(least: int, most: int | None, noun: str) -> str:
    if most is None:
        return f"at least {plural(least, noun)}"
    return plural(least, noun) if least == most else f"{least} to {plural(most, noun)}"


def _word(kinds: tuple[type[Type], ...]) -> str:
    return kinds[0].__name__.removesuffix("Type").lower()


def _short(text: str) -> str:
    return text if len(text) < 60 else f"{text[:60]}…"


_NO_NUMBERS: Final = frozenset({DEVICE, NONE, STR})
_KNOWN_KINDS: Final = _NUMBERS | _NO_NUMBERS
"""Primitive types that determine what a value is; other names are variables, handles, or types of another version of torch."""


def misfit(schemas: Sequence[OpSchema], node: Node) -> Wrong | None:
    """Return None if the node may match one of these schemas, else what is wrong by the closest one.

    >>> import irscope as irs
    >>> from irscope.ops.schemas import parse_schema
    >>> b = irs.GraphBuilder()
    >>> x = b.input("x")
    >>> g = b.finish([b.op("aten::t", x, name="y")])
    >>> misfit([parse_schema("aten::t(Tensor self) -> Tensor")], g.node("y"))
    >>> misfit([parse_schema("aten::t(str self) -> Tensor")], g.node("y")).rule
    'operand-kind'
    """
    counted = [schema for schema in schemas if _takes_count(schema, len(node.inputs))]
    if not counted:
        counts = sorted({count for schema in schemas for count in range(_least(schema), len(schema.arguments) + 1)})
        taken = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]} operands"
        if counts == list(range(counts[0], counts[-1] + 1)):
            taken = _range_text(counts[0], counts[-1], "operand")
        return Wrong("operand-count", f"{node.op} takes {taken}, and here it has {len(node.inputs)}", _hint(schemas))
    misfits = [_first_misfit(schema, node) for schema in counted]
    by_kind = [schema for schema, found in zip(counted, misfits, strict=True) if found is None]
    if not by_kind:  # reported by the schema whose first misfit comes last
        index, argument = max((found for found in misfits if found is not None), key=lambda found: found[0])
        value = node.inputs[index]
        what = f"operand {index + 1} of {node.op}, {value!r}, is {value.type}, and {argument.name!r} is {argument.type}"
        return Wrong("operand-kind", what, _hint(counted))
    by_results = [schema for schema in by_kind if schema.is_varret or len(schema.returns) == len(node.outputs)]
    if not by_results:
        given = sorted({len(schema.returns) for schema in by_kind})
        what = f"{node.op} gives {' or '.join(map(str, given))} result{'s' * (given != [1])}, and here it has {len(node.outputs)}"
        return Wrong("result-count", what, _hint(by_kind))
    wrong = [found for schema in by_results if (found := _first_wrong_result(schema, node)) is not None]
    if len(wrong) < len(by_results):
        return None
    value, declared = wrong[0]
    return Wrong("result-kind", f"{value!r} is of type {value.type}, and {node.op} gives {declared}", _hint(by_results))


def _first_wrong_result(schema: OpSchema, node: Node) -> tuple[Value, Type] | None:
    if schema.is_varret:
        return None
    pairs = zip(node.outputs, schema.returns, strict=True)
    return next(((value, result.type) for value, result in pairs if not _may_give(value.type, result.type)), None)


def _takes_count(schema: OpSchema, count: int) -> bool:
    """Whether a call with this many operands can match this schema, or its `out=` variant: such overloads are not bundled."""
    most = len(schema.arguments)
    outs = sum(result.type == TENSOR and result.alias is None for result in schema.returns)
    return _least(schema) <= count <= most or schema.is_vararg or count == most + outs


def _least(schema: OpSchema) -> int:
    return max((index for index, argument in enumerate(schema.arguments, 1) if argument.default is REQUIRED), default=0)


def _first_misfit(schema: OpSchema, node: Node) -> tuple[int, Argument] | None:
    """Return the position of the first operand that this schema certainly does not take, and the argument that it would be."""
    if schema.is_vararg and not schema.arguments:
        return None
    extra = len(node.inputs) - len(schema.arguments)
    wanted = [*schema.arguments, *[_OUT] * max(0, extra)] if not schema.is_vararg else schema.arguments
    pairs = enumerate(zip(node.inputs, wanted, strict=False))
    return next(((index, argument) for index, (value, argument) in pairs if not _may_be_given(value.type, argument)), None)


_OUT: Final = Argument("out", TENSOR, AliasAnnotation(is_write=True))


def _may_be_given(type: Type, argument: Argument) -> bool:
    if argument.type == TENSOR and argument.alias is not None and argument.alias.is_write:
        return is_subtype(type, TENSOR)  # no number is converted into memory to write to
    if _may_be(type, argument.type):
        return True
    wanted = _inner(argument.type)
    return argument.length is not None and isinstance(wanted, ListType) and _may_be(type, wanted.element)


def _may_be(have: Type, want: Type) -> bool:
    """Whether a value of type `have` may be passed where `want` is declared, by the widest interpretation of both."""
    if NUMBER in (have, want) and {have, want} & _NO_NUMBERS:
        return False  # `is_subtype` treats NUMBER as a type that may be many things
    if have is want or is_subtype(have, want) or is_subtype(want, have):
        return True
    if isinstance(have, OptionalType) or isinstance(want, OptionalType):
        return _may_be(_inner(have), _inner(want))
    if isinstance(have, UnionType) or isinstance(want, UnionType):
        return any(_may_be(a, b) for a in _members(have) for b in _members(want))
    if isinstance(have, ListType) and isinstance(want, ListType):
        return _may_be(have.element, want.element)
    if isinstance(have, TupleType) and isinstance(want, ListType):
        return all(_may_be(part, want.element) for part in have.elements)
    if _is_number(have) and _is_number(want):
        return True
    return {have, want} == {STR, DEVICE} or not (_says(have) and _says(want))


def _is_number(type: Type) -> bool:
    """Whether a type is a number or a tensor, which convert into each other where needed."""
    return type.__class__ is TensorType or type in _NUMBERS


def _says(type: Type) -> bool:
    """Whether the type is certainly distinct from every other such type."""
    return type in _KNOWN_KINDS or isinstance(type, TensorType | ListType | TupleType) or bool(parts(type))


def _inner(type: Type) -> Type:
    return type.element if isinstance(type, OptionalType) else type


def _members(type: Type) -> tuple[Type, ...]:
    return type.members if isinstance(type, UnionType) else (type,)


def _may_give(type: Type, declared: Type) -> bool:
    """Whether a result may have this type: as for operands, but without conversions between tensors and numbers."""
    if declared.__class__ is TensorType:
        return type.__class__ is TensorType
    if type.__class__ is TensorType and declared in _NUMBERS:
        return False
    return _may_be(type, declared)


def _hint(schemas: Sequence[OpSchema]) -> str:
    arguments = ", ".join(f"{argument.type} {argument.name}" for argument in schemas[0].arguments)
    more = f"; and {len(schemas) - 1} more overloads" if len(schemas) > 1 else ""
    return f"{schemas[0].full_name}({arguments}){more}; an op of another namespace is taken as unknown"
