"""The primitive steps of views, of which each view op is a short list, and the operand that the rules of the ops read.

Axes are numbered in the tensor that a step is applied to; numbers may be `Extent`s, and None where not known.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from irscope.ir import TensorType
from irscope.ops.type_rules import mismatch, wrap_dim
from irscope.ops.view_steps.extents import Extent, Num

# The sizes of the pieces into which `chunk`, `split`, `tensor_split` and `unbind` divide an axis.
#
# Their number is checked before they are listed: one line of text may ask for 10^12 pieces.

MOST_PIECES: Final = 1 << 18
"""The most pieces that are listed before a program runs."""


def pieces_of(extent: int, size: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Return pieces of one size, the last one smaller; an empty axis is one piece. Returns None for more than `most`.

    >>> pieces_of(7, 3), pieces_of(0, 3), pieces_of(10**12, 1)
    ([3, 3, 1], [0], None)
    """
    if not size or not extent:
        return [extent]
    count = -(-extent // size)
    return None if most is not None and count > most else [min(size, extent - start) for start in range(0, extent, size)]


def chunks_of(extent: int, chunks: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Return at most `chunks` pieces of one size, the last one smaller; an empty axis is divided into empty pieces.

    >>> chunks_of(7, 3), chunks_of(0, 3), chunks_of(0, 10**12)
    ([3, 3, 1], [0, 0, 0], None)
    """
    if extent:
        return pieces_of(extent, -(-extent // chunks), most)
    return None if most is not None and chunks > most else [0] * chunks


def sections_of(extent: int, sections: int, most: int | None = MOST_PIECES) -> list[int] | None:
    """Return `sections` pieces, the first ones larger by one.

    >>> sections_of(7, 3), sections_of(1, 3), sections_of(4, 10**12)
    ([3, 2, 2], [1, 0, 0], None)
    """
    if most is not None and sections > most:
        return None
    return [extent // sections + (index < extent % sections) for index in range(sections)]


class Permute(NamedTuple):
    """Reorders the axes."""

    axes: tuple[int, ...]


class Insert(NamedTuple):
    """Inserts an axis of extent 1."""

    axis: int


class Drop(NamedTuple):
    """Removes axes of extent 1."""

    axes: tuple[int, ...]


class Pick(NamedTuple):
    """Selects one index of an axis and removes the axis."""

    axis: int
    place: Num | None


class Cut(NamedTuple):
    """Selects evenly spaced indices of an axis."""

    axis: int
    start: Num | None
    length: Num
    step: Num = 1


class Expand(NamedTuple):
    """Repeats axes of extent 1, and adds new ones in front."""

    shape: tuple[Num, ...]


class Regroup(NamedTuple):
    """Takes all elements in row-major order with other extents."""

    shape: tuple[Num, ...]
    may_copy: bool


class Diagonal(NamedTuple):
    """Replaces two axes by a new last one along which both advance."""

    offset: int
    rows: int
    columns: int
    length: Num


class Window(NamedTuple):
    """Cuts an axis into as many windows as fit, `step` apart, with their elements along a new last axis."""

    axis: int
    size: int
    step: int
    windows: Num


class Place(NamedTuple):
    """Sets extents and strides explicitly; the offset counts from the start of the storage, None keeps the tensor's own."""

    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    offset: Num | None


class Retyped(NamedTuple):
    """Reinterprets the same bytes as elements of another type."""

    dtype: str


class Paired(NamedTuple):
    """Views complex numbers as pairs along a new last axis, or takes one part of them."""

    part: int | None
    dtype: str


class Joined(NamedTuple):
    """Views pairs along the last axis as complex numbers."""

    dtype: str


class Dense(NamedTuple):
    """Returns the tensor itself if it has this memory format, otherwise a copy that has: 0 row-major, 2 and 3 channels-last."""

    memory_format: int
    suggested: bool = False
    """Whether it is enough that torch would suggest the format; gaps do not matter then."""


Step = Permute | Insert | Drop | Pick | Cut | Expand | Regroup | Diagonal | Window | Place | Retyped | Paired | Joined | Dense


Steps = tuple[Step, ...]
"""The steps from the operand to one result."""

FRESH: Final = "fresh"
"""Returned by a rule when the result has memory of its own."""


class NotKnown(Exception):
    """Raised when the steps depend on something that is not known; its text says on what, where that is not obvious."""


class Operand:
    """The operand and the other arguments of one op, with the accessors that rules use."""

    __slots__ = ("at_least", "device", "dtype", "given", "most_pieces", "name", "rank", "shape", "type")

    def __init__(
        self, shape: tuple[Num, ...], dtype: str | None, device: str | None, given: Mapping[str, Any], name: str = "this op",
        type: TensorType | None = None, most_pieces: int | None = MOST_PIECES,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.rank = len(shape)
        self.dtype = dtype
        self.device = device
        self.given = given
        self.name = name
        """The name of the op, for messages."""
        self.type = type
        self.most_pieces = most_pieces
        """The most results that are listed; None for all."""
        self.at_least: tuple[Num | None, ...] | None = None
        """What a rule knows of the result's extents before it may raise NotKnown."""

    def __str__(self) -> str:
        return f"a tensor of extents {self.shape}" if self.type is None else str(self.type)

    def axis(self, name: str, rank: int | None = None) -> int:
        return wrap_dim(self.whole(name), self.rank if rank is None else rank, op=self.name)

    def own_axis(self, name: str) -> int:
        """Return an axis that has an extent: not the nominal one of a 0-d tensor."""
        found = self.axis(name)
        if found >= self.rank:
            raise mismatch(f"{self.name} needs a tensor of at least one dimension", rule="rank")
        return found

    def axes(self, name: str) -> tuple[int, ...]:
        given = self.given[name]
        items = given if isinstance(given, list | tuple) else [given]
        return tuple([wrap_dim(whole(item), self.rank, op=self.name) for item in items])

    def whole(self, name: str) -> int:
        return whole(self.given[name])

    def num(self, name: str) -> Num | None:
        """Return a number, or None if its value is not known."""
        given = self.given[name]
        return given if isinstance(given, int | Extent) else None

    def nums(self, name: str) -> tuple[Num, ...]:
        given = self.given[name]
        items = tuple(given) if isinstance(given, list | tuple) else (given,)
        for item in items:
            if item.__class__ is not int and not isinstance(item, int | Extent):
                raise NotKnown
        return items

    def extent(self, axis: int) -> int:
        return whole(self.shape[axis])

    def shape_of(self, name: str) -> tuple[Num, ...]:
        """Return the extents of another tensor."""
        shape = getattr(self.given[name], "shape", None)
        if shape is None or not all(isinstance(dim, int | Extent) for dim in shape):
            raise NotKnown
        return tuple(shape)


def whole(given: Any) -> int:
    """Return a known whole number. Raises NotKnown for anything else."""
    if not isinstance(given, int):
        raise NotKnown
    return int(given)


Rule = Callable[[Operand], Any]
"""Returns the steps of the result, a list of steps for several results, or `FRESH` for results with memory of their own."""

Kind = Literal[
    "same place",  # all elements in the same positions, in the operand's shape
    "unit axes",  # axes of extent 1 are inserted or removed
    "regroup",  # all elements in row-major order, with any extents: axes may be merged or split
    "stretch",  # axes of extent 1, or new ones in front, are repeated
    "exchange",  # all elements, with axes in another order
    "part",  # some elements
    "diagonal",  # two axes become one, along which both advance
    "cuts",  # a list of parts. Torch calls some unsafe because it does not track writes through them; they share memory nevertheless
    "window",  # elements may occur several times
    "placed",  # the arguments are the strides: which element is where follows from those of the operand
    "another type",  # the bits are reinterpreted: parts of complex numbers, conjugates, negatives; so does `view` with an element type
]
"""What happens to the elements of a view; `irscope.ops.traits` says what follows."""

Returned = Literal["a view", "a view or the operand", "the operand", "a view or a copy"]
"""What the result is, as an object, whatever the operand. Steps tell only where the elements are: without any step, `detach` returns
another tensor, and `real` of a real one the tensor itself. A copy is what the steps `Dense` and `Regroup` may make."""
