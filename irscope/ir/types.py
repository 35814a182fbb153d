"""The types of values, and which may be used in place of which; the schemas of ops. Both are TorchScript's, as frozen records compared by
structure.

A type prints as TorchScript prints it (`Float(2, 3, strides=[3, 1], device=cpu)`, `Dict(str, Tensor)`, `Tensor?[]`).
Whether values of a type can share memory is decided by an analysis (`irscope.analysis.alias`), not by the type.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

DTYPES: Final = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
    "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    "qint8": "QInt8", "quint8": "QUInt8", "qint32": "QInt32", "quint4x2": "QUInt4x2", "quint2x4": "QUInt2x4",
    **{f"u{name}": f"U{name.capitalize()}" for name in ("int16", "int32", "int64", "int4", "int2")},
    **{
        name: name.capitalize()
        for name in """
        float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float8_e4m3 float8_e3m4 float8_e4m3b11fnuz int4 int2
        float4_e2m1fn float6_e2m3fn float6_e3m2fn string""".split()
    },
}  # fmt: skip
"""Maps our name of each element type (NumPy's and torch's) to the word that TorchScript prints for it."""

ITEM_SIZE: Final = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of an element of each type that kernels compute with."""

STORED_SIZE: Final = {
    **ITEM_SIZE, "complex32": 4, "complex64": 8, "complex128": 16, "uint16": 2, "uint32": 4, "uint64": 8, "qint8": 1, "quint8": 1,
    "qint32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float8_e4m3": 1, "float8_e3m4": 1, "float8_e4m3b11fnuz": 1,
}  # fmt: skip
"""Bytes of an element of each type whose elements have addresses of their own."""

Dim = int | str | None
"""A tensor extent: a number, a symbol (`SS(-1)`), or unknown (prints as `*`)."""


class Type:
    """The base of all types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor, refined as far as is known; `None` means unknown.

    >>> str(TensorType("float32", (2, None), strides=(3, 1), device="cpu"))
    'Float(2, *, strides=[3, 1], device=cpu)'
    """

    dtype: str | None = None
    """A key of `DTYPES`."""
    shape: tuple[Dim, ...] | None = None
    """Extents, outermost first."""
    strides: tuple[int, ...] | None = None
    """Steps in elements, one per dimension; None unless all are known."""
    device: str | None = None
    requires_grad: bool | None = None
    undefined: bool = False
    """Whether it is TorchScript's undefined gradient."""

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether element type and every extent are known numbers."""
        return self.dtype is not None and self.shape is not None and all(type(dim) is int for dim in self.shape)

    @property
    def numel(self) -> int | None:
        """The number of elements, or None if some extent is unknown."""
        return prod(self.shape) if self.shape is not None and all(isinstance(dim, int) for dim in self.shape) else None  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int | None:
        """The bytes of all elements, counted as 8 each for a type that kernels do not compute with; None if unknown.

        >>> TensorType("bfloat16", (2, 3)).nbytes, TensorType("float32", (2, None)).nbytes
        (12, None)
        """
        count = self.numel
        return None if count is None or self.dtype is None else count * ITEM_SIZE.get(self.dtype, 8)

    def with_(self, **changes: object) -> "TensorType":
        """This type with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        word = "Tensor" if self.dtype is None else DTYPES[self.dtype] + ("" if self.shape is not None else "Tensor")
        items = [] if self.shape is None else ["*" if dim is None else str(dim) for dim in self.shape]
        if self.strides and self.shape is not None:
            items.append(f"strides=[{', '.join(map(str, self.strides))}]")
        if self.requires_grad is not None:
            items.append(f"requires_grad={int(self.requires_grad)}")
        if self.device is not None:
            items.append(f"device={self.device}")
        inside = f"({', '.join(items)})" if items or self.shape is not None else ""
        return f"{word}{inside}{'[Undefined]' if self.undefined else ''}"


@dataclass(frozen=True, slots=True)
class PrimitiveType(Type):
    """A type with no parts: numbers, strings, devices, `Any`, opaque handles."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListType(Type):
    element: Type

    def __str__(self) -> str:
        return f"{self.element}[]"


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    element: Type

    def __str__(self) -> str:
        return f"{self.element}?"


@dataclass(frozen=True, slots=True)
class DictType(Type):
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"Dict({self.key}, {self.value})"


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple; a named tuple prints as its qualified name, without its `elements`."""

    elements: tuple[Type, ...]
    name: str = ""

    def __str__(self) -> str:
        return self.name or f"({', '.join(map(str, self.elements))})"


@dataclass(frozen=True, slots=True)
class UnionType(Type):
    members: tuple[Type, ...]

    def __str__(self) -> str:
        return f"Union({', '.join(map(str, self.members))})"


@dataclass(frozen=True, slots=True)
class FutureType(Type):
    element: Type

    def __str__(self) -> str:
        return f"Future[{self.element}]"


@dataclass(frozen=True, slots=True)
class AwaitType(Type):
    element: Type

    def __str__(self) -> str:
        return f"Await({self.element})"


@dataclass(frozen=True, slots=True)
class RRefType(Type):
    element: Type

    def __str__(self) -> str:
        return f"RRef[{self.element}]"


@dataclass(frozen=True, slots=True)
class ClassType(Type):
    """A TorchScript class, module, interface, enum or named tuple known only by name."""

    name: str

    def __str__(self) -> str:
        return self.name


TENSOR: Final = TensorType()
INT: Final = PrimitiveType("int")
FLOAT: Final = PrimitiveType("float")
BOOL: Final = PrimitiveType("bool")
STR: Final = PrimitiveType("str")
COMPLEX: Final = PrimitiveType("complex")
NUMBER: Final = PrimitiveType("Scalar")
NONE: Final = PrimitiveType("NoneType")
DEVICE: Final = PrimitiveType("Device")
GENERATOR: Final = PrimitiveType("Generator")
ANY: Final = PrimitiveType("Any")


def parts(type: Type) -> tuple[Type, ...]:
    """The types directly inside a type.

    >>> [str(part) for part in parts(DictType(STR, ListType(TENSOR)))]
    ['str', 'Tensor[]']
    """
    match type:
        case ListType(element) | OptionalType(element) | FutureType(element) | AwaitType(element) | RRefType(element):
            return (element,)
        case DictType(key, value):
            return (key, value)
        case TupleType(elements) | UnionType(elements):
            return elements
    return ()


def erase_refinements(type: Type) -> Type:
    """The type with every tensor type in it replaced by plain `Tensor`.

    >>> str(erase_refinements(ListType(TensorType("float32", (2, 3)))))
    'Tensor[]'
    """
    if isinstance(type, TensorType):
        return TENSOR
    inside = tuple(map(erase_refinements, parts(type)))
    if isinstance(type, TupleType | UnionType):
        return TupleType(inside, type.name) if isinstance(type, TupleType) else UnionType(inside)
    return type.__class__(*inside) if inside else type


def walk(type: Type) -> Iterator[Type]:
    """The type and everything inside it, outermost first."""
    stack = [type]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(parts(here)))


# Checks whether a value of one type may be used where another type is expected.

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
    if isinstance(have, PrimitiveType) and isinstance(want, PrimitiveType):
        return have not in (STR, NONE, DEVICE) if want == NUMBER else have == want or not {have, want} <= _KNOWN
    if isinstance(have, PrimitiveType) or isinstance(want, PrimitiveType):
        return _KNOWN.isdisjoint((have, want)) and NUMBER not in (have, want)
    mine, wanted = parts(have), parts(want)  # of tensors, none
    return type(have) is type(want) and len(mine) == len(wanted) and all(map(is_subtype, mine, wanted))


def contradiction(a: TensorType, b: TensorType) -> str:
    """What no tensor of both types can have, in words; empty if nothing. Strides, devices and symbols are not compared."""
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


# The declaration of an op: its name, arguments and results, and its effects on their memory, as in TorchScript's
# `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.
#
# `irscope.ops.schemas` reads that text; `irscope.ops` finds the schema of a node.


@dataclass(frozen=True, slots=True)
class AliasAnnotation:
    """The alias annotation of one argument or result of a schema: `(a!)`, `(a -> *)`, `Tensor(a)[]`."""

    before: frozenset[str] = frozenset()
    """Alias sets that the value belongs to when the op starts; `*` is the wildcard."""
    after: frozenset[str] = frozenset()
    """Alias sets that it belongs to when the op ends; equal to `before` unless the text has an arrow."""
    is_write: bool = False
    """Whether the op writes this memory."""
    element: "AliasAnnotation | None" = None
    """The annotation of a list's items, from `Tensor(a!)[]`."""

    @property
    def has_write(self) -> bool:
        """Whether the op writes this memory, or that of what it holds."""
        return self.is_write or (self.element is not None and self.element.has_write)

    @property
    def names_memory(self) -> bool:
        """Whether it names an alias set, of the value or of what it holds."""
        return bool(self.before) or (self.element is not None and self.element.names_memory)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of an argument without one."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument or result of a schema."""

    name: str
    type: Type
    alias: AliasAnnotation | None = None
    default: Any = REQUIRED
    keyword_only: bool = False
    length: int | None = None
    """The fixed length of a list argument, from `int[2]`."""
    word: str = field(default="", compare=False)
    """The first word of the type as the schema writes it: `SymInt` for a size, which is an `int` to TorchScript."""


@dataclass(frozen=True, slots=True)
class OpSchema:
    """The declaration of one overload of an op."""

    name: str
    """Namespace and name, `aten::add`."""
    overload: str
    """`Tensor` in `aten::add.Tensor`; empty for the default overload."""
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False

    @property
    def full_name(self) -> str:
        """The name with its overload, `aten::add.Tensor`."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def is_mutable(self) -> bool:
        """Whether any argument is written."""
        return any(argument.alias is not None and argument.alias.has_write for argument in self.arguments)
