"""The structure of a value's shareable memory: the part of its type that the alias analysis needs.

A tensor's extents and element type say nothing about sharing (a view changes both), so all tensors have the same
structure. A list of lists of tensors is a box of a box of a tensor. If a type does not determine the value (`Any`,
a union, an object of a class), the structure is `mixed` or `object`: the value may be anything, and its contents are
one bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from irscope.ir import (
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

__all__ = ["ANY_CLASS", "MIXED", "TENSOR", "Structure", "Structures", "class_name"]

Kind = Literal["tensor", "handle", "box", "tuple", "mixed", "object"]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The structure of a value's memory."""

    kind: Kind
    bucket: str
    """Two values of unknown origin may be the same only if these are equal, or one is mixed."""
    fields: tuple[Structure | None, ...] = ()
    """Of a tuple, its fields; None for a field without shareable memory."""
    content: Structure | None = None
    """Of a box (list, dict, future, remote reference), the structure of its contents; None for numbers and strings."""
    members: tuple[Structure, ...] = ()
    """Of a union, the structures it may have; empty for `Any`."""


TENSOR: Final = Structure("tensor", "Tensor")
MIXED: Final = Structure("mixed", "Any")
_OBJECT: Final = Structure("object", "object")

_IMMUTABLE: Final = frozenset(
    {
        "int",
        "float",
        "bool",
        "str",
        "complex",
        "Scalar",
        "number",
        "NoneType",
        "None",
        "Device",
        "Layout",
        "ScalarType",
        "MemoryFormat",
        "QScheme",
        "Dimname",
        "SymInt",
        "SymFloat",
        "SymBool",
        "Function",
        "AnyEnumType",
    }
)
_HANDLES: Final = frozenset({"Generator", "Stream", "Capsule"})


ANY_CLASS: Final = "*"
"""Represents the class of an object known only by an interface."""


def class_name(type: ClassType) -> str:
    """The class whose attributes an object of this type has.

    >>> class_name(ClassType("__torch__.Net")), class_name(ClassType("InterfaceType<Layer>"))
    ('__torch__.Net', '*')
    """
    return ANY_CLASS if type.name.startswith("InterfaceType<") else type.name


class Structures:
    """The structures of the types of one program.

    >>> from irscope.ir.types import INT, ListType, TENSOR, TupleType
    >>> structures = Structures()
    >>> structures.of(INT) is None, structures.of(ListType(TENSOR)).bucket, structures.of(TupleType((INT, TENSOR))).bucket
    (True, 'List[Tensor]', '(-, Tensor)')
    """

    def __init__(self) -> None:
        self._by_type: dict[int, tuple[Type, Structure | None]] = {}
        self._by_bucket: dict[str, Structure] = {"Tensor": TENSOR, "Any": MIXED, "object": _OBJECT}

    def of(self, type: Type) -> Structure | None:
        """The structure of a type; None if its values cannot be shared (numbers, strings, None)."""
        if type.__class__ is TensorType:
            return TENSOR
        known = self._by_type.get(id(type))
        if known is None:
            known = self._by_type[id(type)] = (type, self._build(type))
        return known[1]

    def _build(self, type: Type) -> Structure | None:
        match type:
            case PrimitiveType(name):
                return self._primitive(name)
            case OptionalType(element):
                return self.of(element)
            case ListType(element):
                return self._box("List", element)
            case FutureType(element):
                return self._box("Future", element)
            case AwaitType(element):
                return self._box("Await", element)
            case RRefType(element):
                return self._box("RRef", element)
            case DictType(key, value):
                return self._dict(key, value)
            case TupleType(elements, name):
                return MIXED if name and not elements else self._tuple(tuple(map(self.of, elements)))
            case UnionType(members):
                return self._union(members)
            case ClassType(name):
                return None if name.startswith("Enum<") else _OBJECT  # the members are numbers and strings
        return MIXED

    def _primitive(self, name: str) -> Structure | None:
        if name in _IMMUTABLE:
            return None
        if name == "Storage":  # the memory of a tensor
            return TENSOR
        return self._unique(Structure("handle", name)) if name in _HANDLES else MIXED

    def _box(self, word: str, element: Type) -> Structure:
        content = self.of(element)
        return self._unique(Structure("box", f"{word}[{content.bucket if content else element}]", content=content))

    def _dict(self, key: Type, value: Type) -> Structure:
        holds = [part for part in (self.of(key), self.of(value)) if part is not None]
        content = None if not holds else holds[0] if len(set(holds)) == 1 else MIXED
        words = ", ".join(part.bucket if part else str(type) for type in (key, value) for part in [self.of(type)])
        return self._unique(Structure("box", f"Dict[{words}]", content=content))

    def _tuple(self, fields: tuple[Structure | None, ...]) -> Structure | None:
        if not any(fields):
            return None
        return self._unique(
            Structure("tuple", f"({', '.join(field.bucket if field else '-' for field in fields)})", fields)
        )

    def _union(self, members: tuple[Type, ...]) -> Structure | None:
        found = tuple(dict.fromkeys(part for part in map(self.of, members) if part is not None))
        if len(found) < 2:
            return found[0] if found else None
        return self._unique(Structure("mixed", f"Union[{', '.join(part.bucket for part in found)}]", members=found))

    def _unique(self, structure: Structure) -> Structure:
        return self._by_bucket.setdefault(structure.bucket, structure)
