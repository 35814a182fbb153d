"""The lattice of facts about a value before the program runs, with the lists that it creates and whose contents are known."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any, Final

from irscope.ir import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NOT_CONSTANT,
    NUMBER,
    STR,
    Dim,
    ListType,
    Node,
    OptionalType,
    TensorData,
    TensorType,
    TupleType,
    Type,
    argument_type,
    erase_refinements,
)
from irscope.ops.type_rules import Unknown

# The lattice of facts about a value before the program runs, and the join of two facts.
#
# A fact is a refined `TensorType`, a Python value, `Unknown(type)`, a tuple of facts, or a `KnownList`; `BOTTOM` is the
# fact about a value that is never defined. Type rules take and return facts (`irscope.ops.type_rules`).

Fact = Any


class _Nothing:
    def __repr__(self) -> str:
        return "BOTTOM"


BOTTOM: Final = _Nothing()


class KnownList(list[Fact]):
    """One list that the program creates, with a fact for each element; all names of the list share this object."""

    __slots__ = ("epoch", "is_flat", "is_lost", "is_written", "type")

    def __init__(self, items: Iterable[Fact], type: Type, epoch: int) -> None:
        super().__init__(items)
        self.type = type
        """Its type without refinements; a list of another type is another list."""
        self.is_flat = isinstance(type, ListType) and (isinstance(type.element, TensorType) or type.element in _PLAIN)
        """Whether by its type its items are not containers: then a read inspects none of them."""
        self.epoch = epoch
        """The number of clobbering writes to lists of its type before it was created."""
        self.is_written = False
        self.is_lost = False
        """Whether something unknown was written into it."""

    __hash__ = object.__hash__  # type: ignore[assignment]


_MOST_DEPTH: Final = 24
_MOST_PARTS: Final = 10_000


def too_large(fact: Fact) -> bool:
    """Whether a container is too large to follow part by part: nested pairs double with each level.

    Parts count as often as they can be reached; a list that holds itself counts as infinite.

    >>> t = 1
    >>> for _ in range(20):
    ...     t = (t, t)
    >>> too_large(t), too_large((1, (2, 3)))
    (True, False)
    """
    if (isinstance(fact, KnownList) and fact.is_flat) or not any(isinstance(item, list | tuple) for item in fact):
        return False
    return _count(fact, 0, {}) > _MOST_PARTS


_PLAIN: Final = frozenset({BOOL, COMPLEX, DEVICE, FLOAT, INT, NUMBER, STR})


def _count(fact: Fact, depth: int, known: dict[int, int]) -> int:
    """The number of parts of a container at any depth; each object is visited once."""
    if depth > _MOST_DEPTH:
        return _MOST_PARTS + 1
    if id(fact) not in known:
        known[id(fact)] = _MOST_PARTS + 1  # seen again while it is being counted, it holds itself
        inside = sum(_count(item, depth + 1, known) for item in fact if isinstance(item, list | tuple))
        known[id(fact)] = len(fact) + inside
    return known[id(fact)]


def settled(fact: Fact, declared: Type) -> Fact:
    """Combine a rule's result with the declared type: unknown fields are filled in, `Any` is replaced.

    >>> str(settled(TensorType("float32"), TensorType(None, (2, 3))))
    'Float(2, 3)'
    """
    if isinstance(fact, TensorType):
        return _filled(fact, declared) if isinstance(declared, TensorType) else fact
    if isinstance(fact, Unknown):
        if isinstance(declared, TensorType):
            return declared
        return fact if fact.type == declared else Unknown(declared)
    if type(fact) is tuple and isinstance(declared, TupleType) and len(fact) == len(declared.elements):
        return tuple(map(settled, fact, declared.elements))
    if isinstance(declared, TensorType) and not isinstance(fact, _Nothing):
        return declared
    return fact


def _filled(fact: TensorType, declared: TensorType) -> TensorType:
    if declared.shape is None and declared.dtype is None and declared.device is None and declared.requires_grad is None:
        return fact
    shape = fact.shape
    if shape is None:
        shape = declared.shape
    elif declared.shape is not None and len(declared.shape) == len(shape):
        shape = tuple(b if a is None else a for a, b in zip(shape, declared.shape, strict=True))
    strides = fact.strides
    if strides is None and shape == declared.shape:
        strides = declared.strides
    return TensorType(
        fact.dtype or declared.dtype,
        shape,
        strides,
        fact.device or declared.device,
        declared.requires_grad if fact.requires_grad is None else fact.requires_grad,
    )


def join(a: Fact, b: Fact, declared: Type) -> Fact:
    """The join of two facts: what holds for a value that either of them describes."""
    if a is b or isinstance(b, _Nothing):
        return a
    if isinstance(a, _Nothing):
        return b
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _joined_tensors(a, b)
    if type(a) is tuple and type(b) is tuple and len(a) == len(b):
        parts = declared.elements if isinstance(declared, TupleType) and len(declared.elements) == len(a) else (ANY,) * len(a)
        return tuple(map(join, a, b, parts))
    if type(a) is type(b) and not isinstance(a, KnownList | Unknown) and repr(a) == repr(b) and a == b:
        return a
    if isinstance(declared, TensorType):
        return declared
    return Unknown(declared)


def _joined_tensors(a: TensorType, b: TensorType) -> TensorType:
    if a == b:
        return a
    shape: tuple[Dim, ...] | None = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    return TensorType(
        a.dtype if a.dtype == b.dtype else None,
        shape,
        a.strides if a.strides == b.strides and shape == a.shape else None,
        a.device if a.device == b.device else None,
        a.requires_grad if a.requires_grad == b.requires_grad else None,
    )


def fact_of_payload(payload: Any, declared: Type) -> Fact:
    """The fact about a constant; a tuple represents a list if a list is declared (the caller wraps it)."""
    if payload is None or isinstance(payload, bool | int | float | complex | str):
        return payload
    if isinstance(payload, TensorData):
        if payload.original is not None and callable(getattr(payload.original, "stride", None)):
            return argument_type(payload.original)
        if payload.array is not None:
            return argument_type(payload.array).with_(dtype=payload.dtype)  # type: ignore[attr-defined]
        return TensorType(payload.dtype, payload.shape, device=payload.device)
    if isinstance(payload, tuple):
        return tuple(fact_of_payload(item, _part(declared, index)) for index, item in enumerate(payload))
    return declared if isinstance(declared, TensorType) else Unknown(declared)


def _part(declared: Type, index: int) -> Type:
    if isinstance(declared, OptionalType):
        declared = declared.element
    if isinstance(declared, ListType):
        return declared.element
    if isinstance(declared, TupleType) and index < len(declared.elements):
        return declared.elements[index]
    return ANY


def payload_of(fact: Fact, is_current: Callable[[KnownList], bool]) -> Any:
    """The fact as a constant's payload, or NOT_CONSTANT; a list is constant only if nothing ever wrote it."""
    if isinstance(fact, KnownList) and (fact.is_written or not is_current(fact)):
        return NOT_CONSTANT
    if isinstance(fact, list | tuple):
        items = [payload_of(item, is_current) for item in fact]
        return NOT_CONSTANT if any(item is NOT_CONSTANT for item in items) else tuple(items)
    if isinstance(fact, TensorType | Unknown | _Nothing):
        return NOT_CONSTANT
    return fact


# Tracks the lists that a program creates as objects, and whether their contents are still known.
#
# A write through a name that is known to be a certain list writes its one `KnownList`. A write through any other name may reach
# every list of its type, so all of them are forgotten: each type has an epoch, and a list of an older epoch is not
# current. Forgetting takes constant time, however many lists there are.


class KnownLists:
    """Creates lists, and knows which are current."""

    def __init__(self) -> None:
        self._epochs: dict[Type, int] = {}
        self._epoch = 0
        self._constants: dict[Node, KnownList] = {}

    def is_current(self, known: KnownList) -> bool:
        """Whether no untracked write can have reached the list."""
        return not known.is_lost and known.epoch == self._epoch_of(known.type)

    def _epoch_of(self, type: Type) -> int:
        return self._epoch + self._epochs.get(type, 0)

    def forget(self, types: frozenset[Type] | None) -> None:
        """Invalidate all lists of these types; None: all lists."""
        if types is None:
            self._epoch += 1
            return
        for type in types:
            self._epochs[type] = self._epochs.get(type, 0) + 1

    def make(self, items: Sequence[Fact], declared: Type) -> KnownList:
        """Create a list; tuples inside that represent lists become new lists."""
        inner = declared.element if isinstance(declared, OptionalType) else declared
        type = erase_refinements(inner)
        element = inner.element if isinstance(inner, ListType) else None
        if isinstance(element, ListType):
            items = [self.make(item, element) if isinstance(item, tuple) else item for item in items]
        return KnownList(items, type, self._epoch_of(type))

    def constant(self, node: Node, items: Sequence[Fact], declared: Type) -> KnownList:
        """The list of a constant: the same object at every read."""
        if node not in self._constants:
            self._constants[node] = self.make(items, declared)
        return self._constants[node]

    def trusted(self, fact: Fact, declared: Type, known: dict[int, Fact] | None = None) -> Fact:
        """A container in which lists that are not current are unknown; each object is visited once, and if unchanged the same object."""
        known = {} if known is None else known
        if id(fact) not in known:
            known[id(fact)] = fact  # during its visit: a list may hold itself
            known[id(fact)] = self._without_lost(fact, declared, known)
        return known[id(fact)]

    def _without_lost(self, fact: Fact, declared: Type, known: dict[int, Fact]) -> Fact:
        if isinstance(fact, KnownList):
            if not self.is_current(fact):
                return Unknown(declared)
            for index, item in enumerate(() if fact.is_flat else fact):
                if isinstance(item, list | tuple):
                    fact[index] = self.trusted(item, item_type(fact.type), known)
        elif isinstance(fact, tuple) and any(isinstance(item, list | tuple) for item in fact):
            parts = [
                self.trusted(item, item.type if isinstance(item, KnownList) else declared, known)
                if isinstance(item, list | tuple) else item
                for item in fact
            ]  # fmt: skip
            return fact if all(map(is_, parts, fact)) else tuple(parts)
        return fact

    def written(self, target: Fact, types: frozenset[Type] | None, *, applied: bool) -> None:
        """Record that a node wrote `target`, or any list of these types; `applied` if the list already has the change."""
        if types is not None and isinstance(target, KnownList):
            target.is_written = True
            target.is_lost = target.is_lost or not applied
        else:
            self.forget(types)


def item_type(type: Type) -> Type:
    return type.element if isinstance(type, ListType) else type
