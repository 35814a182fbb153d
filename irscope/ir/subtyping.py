"""Checks whether a value of one type may be used where another type is expected."""

from __future__ import annotations

from typing import Final

from irscope.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    PrimitiveType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["contradiction", "is_subtype"]

_KNOWN: Final = frozenset({BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, STR})
"""Primitive types that are pairwise disjoint; other words (`t`, `number`, handles) may mean anything."""


def is_subtype(have: Type, want: Type) -> bool:
    """Whether a value of type `have` can be one of type `want`; true if that is not certain.

    >>> is_subtype(NONE, OptionalType(INT)), is_subtype(FLOAT, INT), is_subtype(TensorType("float32", (2,)), TensorType())
    (True, False, True)
    """
    if have is want or want == ANY or have == ANY or isinstance(want, ClassType) or isinstance(have, ClassType):
        return True
    if isinstance(want, OptionalType):
        return have == NONE or is_subtype(have.element if isinstance(have, OptionalType) else have, want.element)
    if isinstance(want, UnionType):
        members = have.members if isinstance(have, UnionType) else (have,)
        if isinstance(have, OptionalType):
            members = (have.element, NONE)
        return all(any(is_subtype(member, wanted) for wanted in want.members) for member in members)
    match have, want:
        case TensorType(), TensorType():
            return True
        case (ListType(x), ListType(y)) | (FutureType(x), FutureType(y)):
            return is_subtype(x, y)
        case (AwaitType(x), AwaitType(y)) | (RRefType(x), RRefType(y)):
            return is_subtype(x, y)
        case DictType(key, value), DictType(other_key, other_value):
            return is_subtype(key, other_key) and is_subtype(value, other_value)
        case TupleType(xs), TupleType(ys):
            return len(xs) == len(ys) and all(is_subtype(x, y) for x, y in zip(xs, ys, strict=True))
        case PrimitiveType(), PrimitiveType():
            if want == NUMBER:
                return have not in (STR, NONE, DEVICE)
            return have == want or have not in _KNOWN or want not in _KNOWN
        case PrimitiveType(), _:
            return have not in _KNOWN and have != NUMBER
        case _, PrimitiveType():
            return want not in _KNOWN and want != NUMBER
    return False


def contradiction(a: TensorType, b: TensorType) -> str:
    """What no tensor of both types can have, in words; empty if nothing. Strides, devices and symbols are not compared.

    >>> contradiction(TensorType("bool", (4,)), TensorType("int64", (4,))), contradiction(TensorType("bool"), TensorType(None, (4,)))
    ('the element types differ', '')
    >>> contradiction(TensorType(None, (2, 3)), TensorType(None, (2, 4))), contradiction(TensorType(None, (2, 3)), TensorType(None, (2,)))
    ('extent 1 is 3 in one and 4 in the other', 'the numbers of dimensions differ')
    """
    if a is b or a.undefined or b.undefined:
        return ""
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        return "the element types differ"
    if a.shape is None or b.shape is None:
        return ""
    if len(a.shape) != len(b.shape):
        return "the numbers of dimensions differ"
    for axis, (mine, other) in enumerate(zip(a.shape, b.shape, strict=True)):
        if isinstance(mine, int) and isinstance(other, int) and mine != other:
            return f"extent {axis} is {mine} in one and {other} in the other"
    return ""
