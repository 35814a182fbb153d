"""The required form of the prim ops that stand for Python's syntax: operands, results, their kinds, attributes.

Torch registers no schema for them, or an uninformative one (`prim::TupleUnpack(Any tup) -> ...`), yet every analysis reads
their operands by position. Bounds are as wide as what any version of torch has emitted; ops that are not listed are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
    STR,
    DictType,
    ListType,
    Node,
    OptionalType,
    TensorData,
    TensorType,
    TupleType,
    Type,
    Value,
    is_subtype,
)

__all__ = ["wrong_form"]

_PLAIN: Final = frozenset({BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, NUMBER, STR})


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


def wrong_form(node: Node) -> tuple[str, str] | None:
    """Return the rule that a node of Python's syntax breaks, and how; None for other ops and for well-formed nodes."""
    form = _FORMS.get(node.op)
    if form is None:
        return _wrong_constant(node) if node.op == "prim::Constant" else None
    for rule, values, bounds, noun in (
        ("operand-count", node.inputs, form.inputs, "operand"), ("result-count", node.outputs, form.outputs, "result")
    ):  # fmt: skip
        least, most = bounds
        if len(values) < least or (most is not None and len(values) > most):
            return rule, f"{node.op} has {_range_text(least, most, noun)}, and here {len(values)}"
    if form.takes and not _may_be_of(node.inputs[0].type, form.takes):
        return "operand-kind", f"{node.inputs[0]!r} is {node.inputs[0].type}, and {node.op} takes a {_word(form.takes)}"
    if form.gives and not _may_be_of(node.outputs[0].type, form.gives):
        return "result-kind", f"{node.outputs[0]!r} is {node.outputs[0].type}, and {node.op} makes a {_word(form.gives)}"
    if form.attribute is not None and not isinstance(node.attrs.get(form.attribute[0]), form.attribute[1]):
        return "attribute", f"{node.op} has no attribute {form.attribute[0]!r} that is a {form.attribute[1].__name__}"
    return _wrong_parts(node)


def _wrong_constant(node: Node) -> tuple[str, str] | None:
    """Find a number, string or list that is not a value of the constant's type."""
    value, payload = node.outputs[0], node.attrs.get("value")
    absent = payload is None and value.type not in _PAYLOADS
    if absent or (payload is not None and _may_be_value(payload, value.type)):
        return None
    text = repr(payload)
    return "constant-kind", f"{value!r} is {value.type}, and {text if len(text) < 60 else text[:60] + '…'} is not"


def _may_be_value(payload: object, type: Type) -> bool:
    """Whether a payload may be of a type; only plain ones and lists of them are checked, and an int stands for any number."""
    inner = type.element if isinstance(type, OptionalType) else type
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


def _wrong_parts(node: Node) -> tuple[str, str] | None:
    """Check the elements that go into a container or come out of it against the container's type."""
    if node.op == "prim::ListConstruct":
        return _wrong_elements(node)
    if node.op == "prim::DictConstruct" and len(node.inputs) % 2:
        return "operand-count", f"{node.op} has a value for each key, and here {len(node.inputs)} operands"
    if node.op == "prim::TupleConstruct":
        return _wrong_fields(node, node.outputs[0].type, node.inputs)
    if node.op == "prim::TupleUnpack":
        return _wrong_fields(node, node.inputs[0].type, node.outputs)
    if node.op == "prim::TupleSlice" and not all(isinstance(node.attrs.get(key), int) for key in ("beg", "end")):
        return "attribute", f"{node.op} has no attributes 'beg' and 'end' that are numbers"
    return None


def _wrong_elements(node: Node) -> tuple[str, str] | None:
    made = node.outputs[0].type
    inner = made.element if isinstance(made, OptionalType) else made
    if not isinstance(inner, ListType):
        return None
    types: dict[int, Value] = {id(value.type): value for value in node.inputs}
    for value in types.values():
        if not _may_meet(value.type, inner.element):
            return "operand-kind", f"{value!r} is {value.type}, and the list holds {inner.element}"
    return None


def _wrong_fields(node: Node, type: Type, values: tuple[Value, ...]) -> tuple[str, str] | None:
    inner = type.element if isinstance(type, OptionalType) else type
    if not isinstance(inner, TupleType) or inner.name:
        return None
    if len(inner.elements) != len(values):
        rule = "operand-count" if node.op == "prim::TupleConstruct" else "result-count"
        return rule, f"a tuple of type {_short(inner)} has {len(inner.elements)} parts, and {node.op} has {len(values)}"
    for value, part in zip(values, inner.elements, strict=True):
        if not _may_meet(value.type, part):
            rule = "operand-kind" if node.op == "prim::TupleConstruct" else "result-kind"
            return rule, f"{value!r} is {value.type}, and that part of the tuple is {part}"
    return None


def _may_meet(a: Type, b: Type) -> bool:
    """Whether a value can be of both types; the tracer puts tensors in place of numbers."""
    if is_subtype(a, b) or is_subtype(b, a):
        return True
    numbers = (BOOL, COMPLEX, FLOAT, INT, NUMBER)
    outer = (a.__class__ is TensorType or a in numbers) and (b.__class__ is TensorType or b in numbers)
    return outer or isinstance(a, OptionalType) or isinstance(b, OptionalType)


def _may_be_of(type: Type, kinds: tuple[type[Type], ...]) -> bool:
    """Whether a value of this type may be such a container: not if it certainly is something else."""
    inner = type.element if isinstance(type, OptionalType) else type
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


def _short(type: Type) -> str:
    text = str(type)
    return text if len(text) < 60 else f"{text[:60]}…"
