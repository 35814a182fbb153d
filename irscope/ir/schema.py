"""The declaration of an op: its name, arguments and results, and its effects on their memory.

Schemas are TorchScript's: `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.
`irscope.ops.schemas` reads that text; `irscope.ops` finds the schema of a node.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from irscope.ir.types import Type


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
