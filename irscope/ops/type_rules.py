"""The arguments and results of type rules: the protocol between an op and `irscope.analysis.shapes`.

A rule is called with its schema's arguments by name, like the op itself, as abstract values:

* a tensor is a `TensorType`, refined as far as is known;
* a number, string, device or `None` that is known is itself, otherwise `Unknown(type)`;
* a tuple or list whose length is known is a Python tuple or list of abstract values, otherwise `Unknown(type)`.

It returns abstract values too: one for an op with one result, a tuple of them for several. A rule never guesses:
a field that it cannot infer stays `None`. It raises `ArgumentError` only when *every* run with such arguments must fail.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

from irscope.errors import ArgumentError
from irscope.ir import BOOL, COMPLEX, DTYPES, FLOAT, INT, Dim, TensorType, Type

SLIPS: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""The exceptions of a type rule for arguments that it does not cover, and of a reference whose op fails."""

Abstract = Any
"""An abstract value, as described above; Python's type system has no more precise type for it."""

DTYPE_CODES: dict[int, str] = dict(
    enumerate(
        """uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16
        quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz
        uint16 uint32 uint64""".split()
    )
)
"""The element type for each integer that TorchScript writes for one."""

FLOAT_DTYPES = frozenset(name for name in DTYPES if name.startswith(("float", "bfloat")))
"""The real floating-point element types."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which only the type is known."""

    type: Type


def is_known(value: Abstract) -> bool:
    """Whether a value and all its parts are known, so that Python can compute with it.

    >>> is_known([1, (2.0, None)]), is_known([1, Unknown(INT)]), is_known(TensorType("float32", (2,)))
    (True, False, False)
    """
    if isinstance(value, list | tuple):
        return all(map(is_known, value))
    return not isinstance(value, Unknown | TensorType)


def mismatch(what: str, *, rule: str = "") -> ArgumentError:
    """Return the error of a rule whose op must fail; `irscope.analysis.shapes` adds the location."""
    return ArgumentError(what, rule=rule)


def dtype_name(argument: Abstract, default: str | None) -> str | None:
    """Return the element type of a `dtype` argument: the default for `None`, unknown for an unknown number.

    >>> dtype_name(6, "int64"), dtype_name(None, "int64"), dtype_name(Unknown(INT), "int64")
    ('float32', 'int64', None)
    """
    if argument is None:
        return default
    if isinstance(argument, str):
        name = argument.removeprefix("torch.")
        return name if name in DTYPES else None
    return DTYPE_CODES.get(argument) if isinstance(argument, int) else None


def as_dims(value: Abstract) -> list[Dim] | None:
    """Return a list of extents as dimensions, unknown ones as `None`; None when even their number is unknown.

    >>> as_dims([2, Unknown(INT)]), as_dims(7), as_dims(Unknown(INT))
    ([2, None], [7], [None])
    """
    if isinstance(value, Unknown):
        return [None] if value.type == INT else None
    if isinstance(value, list | tuple):
        return [dim_value(item) for item in value]
    return [dim_value(value)]


def dim_value(value: Abstract) -> Dim:
    """Return an extent as a dimension, None if it is unknown."""
    return int(value) if isinstance(value, int) else None


def known_ints(value: Abstract) -> list[int] | None:
    """Return a list of integers if all are known, otherwise None; one integer counts as a list of one."""
    dims = as_dims(value)
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return [dim for dim in dims if isinstance(dim, int)]


def wrap_dim(dim: int, rank: int, *, op: str = "this op") -> int:
    """Return a dimension number counted from the front; a tensor of rank 0 counts as one of rank 1, as in torch.

    >>> wrap_dim(-1, 3)
    2
    """
    span = max(rank, 1)
    if not -span <= dim < span:
        raise mismatch(f"dimension {dim} does not exist: {op} reads a tensor of rank {rank}", rule="dimension-range")
    return dim % span


def static_shape(type: Type) -> tuple[int, ...] | None:
    """Return the extents of a tensor if all are known numbers, otherwise None."""
    shape = type.shape if isinstance(type, TensorType) else None
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return tuple(dim for dim in shape if isinstance(dim, int))


def fresh(dtype: str | None, shape: Sequence[Dim] | None) -> TensorType:
    """Return the type of a row-major tensor that the op allocates.

    >>> str(fresh("float32", (2, 3)))
    'Float(2, 3, strides=[3, 1])'
    """
    known = static_shape(refined(None, shape))
    return refined(dtype, shape, None if known is None else contiguous_strides(known))


def refined(dtype: str | None, shape: Sequence[Dim] | None, strides: Sequence[int] | None = None) -> TensorType:
    """Return the type of a tensor with explicit strides; None for unknown ones."""
    return TensorType(dtype, None if shape is None else tuple(shape), None if strides is None else tuple(strides))


def same_dim(a: Dim, b: Dim, *, what: str, rule: str) -> Dim:
    """Return the extent that two must share: a number wins over a symbol. Raises ArgumentError for two different numbers."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise mismatch(f"{what}: {a} against {b}", rule=rule)
    return a if isinstance(a, int) or b is None else b


def broadcast(*shapes: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    """Return the shape that tensors broadcast to, or None when some rank is unknown.

    >>> broadcast((2, 1, 4), (3, 1)), broadcast((None, 4), (1, 4)), broadcast((None,), (5,))
    ((2, 3, 4), (None, 4), (5,))
    """
    if any(shape is None for shape in shapes):
        return None
    known = [tuple(shape) for shape in shapes if shape is not None]
    rank = max(map(len, known), default=0)
    result: list[Dim] = [1] * rank
    for shape in known:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = _broadcast_dim(result[axis], dim, known)
    return tuple(result)


def _broadcast_dim(a: Dim, b: Dim, shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    if a == 1 or a == b:
        return b
    if b == 1:
        return a
    if isinstance(a, int) and isinstance(b, int):
        text = " and ".join("(" + ", ".join("*" if dim is None else str(dim) for dim in shape) + ")" for shape in shapes)
        raise mismatch(f"shapes {text} do not broadcast: {a} against {b}", rule="broadcast")
    if isinstance(a, int):  # the other is unknown: 1 or this one
        return a
    return b if isinstance(b, int) else None


# Torch's type promotion: the element type that an op computes in and returns, from those of its operands.
#
# Operands come in three strengths. Tensors with dimensions decide; tensors without dimensions count only when they are
# of a higher kind (bool < integer < float < complex); plain numbers count only when they are of a higher kind than both.
# So a float32 tensor plus the number 2.5 or a 0-dim float64 tensor is float32, and an int64 tensor plus 2.5 is the
# default float32.
#
# Source: `result_type` in torch's aten/src/ATen/native/TypeProperties.cpp, `promoteTypes` in c10/core/ScalarType.cpp.

NUMBER_STRENGTH: Final = 0
ZERO_DIM: Final = 1
DIMENSIONED: Final = 2

DEFAULT_FLOAT: Final = "float32"
"""The element type of a Python float, or of an integer that must become a float."""

_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
_SIGNED: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_COMPLEX: Final = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_COMPLEX_OF: Final = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}


class Operand(NamedTuple):
    """The properties of an operand that promotion depends on; None where not known."""

    dtype: str | None
    strength: int | None


def kind_of(dtype: str) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == "bool":
        return 0
    if dtype in _UNSIGNED or dtype in _SIGNED:
        return 1
    return 3 if dtype in _COMPLEX else 2


def is_integral(dtype: str) -> bool:
    """Whether the type has whole numbers only; bool counts."""
    return kind_of(dtype) < 2


def to_float(dtype: str) -> str:
    """Return the result type of ops such as `sin`: floats stay, whole numbers become the default float."""
    return DEFAULT_FLOAT if is_integral(dtype) else dtype


def to_real(dtype: str) -> str:
    """Return the type of the parts of a complex number, and of its absolute value; real types stay."""
    return _COMPLEX.get(dtype, dtype)


def to_complex(dtype: str) -> str | None:
    """Return the type of complex numbers with parts of this type; None if there is none."""
    return {part: number for number, part in _COMPLEX.items()}.get(dtype)


def opmath(dtype: str) -> str:
    """Return the type in which torch computes on such elements: float32 for halves."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def promote_types(a: str, b: str) -> str | None:
    """Return the type that two types promote to by torch's rules; None where torch refuses.

    >>> promote_types("uint8", "int8"), promote_types("int64", "float16"), promote_types("float16", "bfloat16")
    ('int16', 'float16', 'float32')
    """
    if a == b:
        return a
    if not {a, b}.isdisjoint(_UNSIGNED[1:]) and kind_of(a) != 2 and kind_of(b) != 2:
        return None  # torch stores the wide unsigned types and computes little with them
    low, high = sorted((a, b), key=kind_of)
    if kind_of(low) != kind_of(high):  # the higher kind wins, and a complex type becomes wide enough for the float
        wanted = _COMPLEX_OF.get(low) if (kind_of(low), kind_of(high)) == (2, 3) else high
        return None if wanted is None else promote_types(wanted, high)
    if kind_of(a) == 1 and "uint8" in (a, b):
        signed = b if a == "uint8" else a
        return "int16" if signed == "int8" else signed
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    ranks = next((ranks for ranks in (_SIGNED, _FLOATS, tuple(_COMPLEX)) if a in ranks and b in ranks), None)
    return None if ranks is None else max(a, b, key=ranks.index)


def operand_of(value: Any) -> Operand:
    """Return how a value takes part in promotion: a NumPy array, a `TensorType`, an `Expr`, a number, or an `Unknown` number.

    >>> operand_of(2.5), operand_of(TensorType("int64", ()))
    (Operand(dtype='float32', strength=0), Operand(dtype='int64', strength=1))
    """
    np = sys.modules.get("numpy")  # if NumPy is not imported, no value has its types
    if np is not None and isinstance(value, np.ndarray):
        return _array_operand(value.dtype, value.ndim > 0)
    if isinstance(value, bool) or (np is not None and isinstance(value, np.bool_)):
        return Operand("bool", NUMBER_STRENGTH)
    if isinstance(value, int):
        return Operand("int64", NUMBER_STRENGTH)
    if isinstance(value, float):
        return Operand(DEFAULT_FLOAT, NUMBER_STRENGTH)
    if isinstance(value, complex):
        return Operand("complex64", NUMBER_STRENGTH)
    if isinstance(value, Unknown):
        words: dict[Type, str] = {BOOL: "bool", INT: "int64", FLOAT: DEFAULT_FLOAT, COMPLEX: "complex64"}
        return Operand(words.get(value.type), NUMBER_STRENGTH)
    if isinstance(value, TensorType):
        return Operand(value.dtype, None if value.rank is None else DIMENSIONED if value.rank else ZERO_DIM)
    if np is not None and isinstance(value, np.generic):
        return _array_operand(value.dtype, False)
    is_float_number = value.strength == NUMBER_STRENGTH and kind_of(value.dtype) == 2
    return Operand(DEFAULT_FLOAT if is_float_number else value.dtype, value.strength)


@lru_cache(maxsize=256)
def _array_operand(dtype: Any, has_axes: bool) -> Operand:
    return Operand(str(dtype), DIMENSIONED if has_axes else ZERO_DIM)


def result_dtype(operands: Iterable[Operand]) -> str | None:
    """Return the type that operands promote to; None when it depends on something unknown, or torch refuses."""
    given = list(operands)
    if any(operand.dtype is None for operand in given):
        return _with_unknowns(given)
    choices = [(operand.strength,) if operand.strength is not None else (ZERO_DIM, DIMENSIONED) for operand in given]
    if sum(len(choice) > 1 for choice in choices) > 4:
        return None
    found = {_combined([(o.dtype or "", s) for o, s in zip(given, strengths, strict=True)]) for strengths in product(*choices)}
    return found.pop() if len(found) == 1 else None


def _with_unknowns(operands: list[Operand]) -> str | None:
    """Return the result where some type is unknown: a number of unknown kind does not change a float tensor's type, unless it is
    complex."""
    known = [operand for operand in operands if operand.dtype is not None]
    if any(o.dtype is None and o.strength != NUMBER_STRENGTH for o in operands) or not known:
        return None
    result = result_dtype(known)
    return result if result is not None and kind_of(result) == 2 and known[0].strength != NUMBER_STRENGTH else None


def _combined(operands: list[tuple[str, int]]) -> str | None:
    result: str | None = ""
    for strength in (NUMBER_STRENGTH, ZERO_DIM, DIMENSIONED):
        here: str | None = ""
        for dtype, own in operands:
            if own == strength and here is not None:
                here = promote_types(here, dtype) if here else dtype
        if here is None or result is None:
            return None
        result = _outranked(here, result)
    return result


def _outranked(stronger: str, weaker: str) -> str | None:
    """Combine the type of a stronger operand with that of a weaker one, which counts only if its kind is higher."""
    if not stronger or not weaker:
        return stronger or weaker
    if kind_of(stronger) == 3:
        return stronger
    if kind_of(stronger) == 2:
        return _COMPLEX_OF.get(stronger) if kind_of(weaker) == 3 else stronger
    if stronger == "bool" or kind_of(weaker) >= 2:
        return promote_types(stronger, weaker)
    return stronger


# Torch's rules for strides: the layout of an op's result, from the strides of its operands.
#
# Strides count elements. The rules are those of torch 2.13: `TensorIterator` for elementwise ops (aten/src/ATen/TensorIterator.cpp),
# `computeStride` for views (TensorUtils.cpp), `is_channels_last_strides` for memory formats (c10/core/MemoryFormat.h). For extents 0
# and 1 they are odd, and are followed to the letter.

Sizes = Sequence[int]


def contiguous_strides(shape: Sizes) -> tuple[int, ...]:
    """Return the strides of a row-major tensor; an empty extent counts as 1.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def channels_last_strides(shape: Sizes) -> tuple[int, ...]:
    """Return the strides of a batch of images, or volumes, whose channels are innermost in memory.

    >>> channels_last_strides((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    return _packed(shape, (1, *range(len(shape) - 1, 1, -1), 0))


def _packed(shape: Sizes, order: Iterable[int]) -> tuple[int, ...]:
    """Return the strides of a tensor without gaps whose axes lie in this order, the fastest first."""
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_contiguous(shape: Sizes, strides: Sizes) -> bool:
    """Whether elements are in row-major order without gaps; extents of 1 may have any stride.

    >>> is_contiguous((2, 1, 3), (3, 7, 1)), is_contiguous((2, 3), (1, 2))
    (True, False)
    """
    return 0 in shape or lies_in_order(shape, strides, range(len(shape)))


def lies_in_rows(type: Type) -> bool:
    """Whether a tensor is known to be contiguous."""
    shape, strides = static_shape(type), getattr(type, "strides", None)
    return shape is not None and strides is not None and is_contiguous(shape, strides)


def suggests_channels_last(shape: Sizes, strides: Sizes) -> bool:
    """Whether torch would suggest the channels-last format for such a tensor (rank 4 or 5).

    >>> suggests_channels_last((2, 3, 4, 5), (60, 1, 15, 3)), suggests_channels_last((2, 3, 1, 1), (3, 1, 1, 1))
    (True, False)
    """
    rank = len(shape)
    if rank not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(rank - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis]
        if shape[axis] > 1:
            least *= shape[axis]
    return True


def is_dense(shape: Sizes, strides: Sizes) -> bool:
    """Whether elements fill their span without gap or overlap, in some order of the dimensions; true for an empty tensor.

    >>> is_dense((2, 3), (1, 2)), is_dense((2, 3), (6, 1)), is_dense((2, 3), (0, 1))
    (True, False, False)
    """
    if 0 in shape:
        return True
    if len(shape) == 1:
        return shape[0] < 2 or strides[0] == 1
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (shape[axis] < 2, strides[axis])):
        if shape[axis] < 2:
            return True
        if strides[axis] != step:
            return False
        step *= shape[axis]
    return True


def like_strides(shape: Sizes, strides: Sizes) -> tuple[int, ...]:
    """Return the strides of `empty_like` and `clone`: kept when the tensor is dense, otherwise in the same order without gaps.

    >>> like_strides((2, 3), (1, 2)), like_strides((2, 3), (8, 1)), like_strides((2, 3), (0, 1))
    ((1, 2), (3, 1), (3, 1))
    """
    if is_dense(shape, strides):
        return tuple(strides)
    return iterator_strides(shape, [(shape, strides)])


def iterator_strides(shape: Sizes, operands: Sequence[tuple[Sizes, Sizes]]) -> tuple[int, ...]:
    """Return the strides of an elementwise op's fresh result of this shape, from the shape and strides of each operand.

    Numbers are operands too, of shape `()`.

    >>> iterator_strides((2, 3), [((2, 3), (1, 2)), ((), ())])
    (1, 2)
    >>> iterator_strides((2, 3), [((2, 3), (3, 1)), ((2, 3), (1, 2))])
    (3, 1)
    """
    if all(tuple(sizes) == tuple(shape) for sizes, _ in operands):
        if all(is_contiguous(sizes, strides) for sizes, strides in operands):
            return contiguous_strides(shape)
        if len(shape) == 4 and all(is_channels_last(sizes, strides) for sizes, strides in operands):
            return channels_last_strides(shape)
        first = tuple(operands[0][1])
        if all(tuple(strides) == first for _, strides in operands) and is_dense(shape, first):
            return first
    columns = [_expanded(shape, sizes, strides) for sizes, strides in operands]
    order = _iterator_order(shape, columns)
    if order == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    return _packed(shape, order)


def is_channels_last(shape: Sizes, strides: Sizes) -> bool:
    """Whether channels are innermost in memory, then columns, rows and images, without gaps; extents of 1 may have any stride.

    >>> is_channels_last((2, 3, 4, 5), (60, 1, 15, 3)), is_channels_last((2, 3, 2, 5), (60, 1, 30, 3))
    (True, False)
    """
    return lies_in_order(shape, strides, (0, *range(2, len(shape)), 1))


def lies_in_order(shape: Sequence[Any], strides: Sequence[Any], order: Sequence[int]) -> bool:
    """Whether elements fill their span with the axes in this memory order, the slowest first, for all values of the names of extents."""
    past = 1
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != past:
                return False
            past = past * shape[axis]
    return True


def _expanded(shape: Sizes, sizes: Sizes, strides: Sizes) -> list[int]:
    """Return an operand's strides over the result's dimensions, 0 where it is repeated."""
    offset = len(shape) - len(sizes)
    column = [0] * len(shape)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True), offset):
        column[axis] = 0 if size == 1 and shape[axis] != 1 else stride
    return column


def _iterator_order(shape: Sizes, columns: Sequence[Sequence[int]]) -> list[int]:
    """Return the dimensions, fastest first, by insertion sort, because "undecided" is not transitive."""

    def compare(a: int, b: int) -> int:
        for column in columns:
            if column[a] == 0 or column[b] == 0:
                continue
            if column[a] != column[b]:
                return -1 if column[a] < column[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        here = start
        for there in range(start - 1, -1, -1):
            decided = compare(order[there], order[here])
            if decided > 0:
                order[there], order[here] = order[here], order[there]
                here = there
            elif decided < 0:
                break
    return order


def view_strides(shape: Sizes, strides: Sizes, new_shape: Sizes) -> tuple[int, ...] | None:
    """Return the strides of the same memory viewed with other extents, or None when that needs a copy.

    >>> view_strides((2, 3, 4), (12, 4, 1), (6, 4)), view_strides((2, 3), (1, 2), (6,))
    ((4, 1), None)
    """
    if 0 in shape:
        return tuple(strides) if tuple(shape) == tuple(new_shape) else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    result = [0] * len(new_shape)
    target = len(new_shape) - 1
    base, old_count, new_count = strides[-1], 1, 1
    for axis in range(len(shape) - 1, -1, -1):
        old_count *= shape[axis]
        if axis == 0 or (shape[axis - 1] != 1 and strides[axis - 1] != old_count * base):
            while target >= 0 and (new_count < old_count or new_shape[target] == 1):
                result[target] = new_count * base
                new_count *= new_shape[target]
                target -= 1
            if new_count != old_count:
                return None
            if axis > 0:
                base, old_count, new_count = strides[axis - 1], 1, 1
    return tuple(result) if target == -1 else None
