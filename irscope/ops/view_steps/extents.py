"""Symbolic numbers that are not known before the run, as sums of products: `s0*768 + 64`.

Two are the same number on every run if they are the same sum. Nothing is concluded from different sums, unless one
is larger by what is known about the names. So an answer that relies on equality here is right for all sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from irscope._base.words import byte_count
from irscope.ir import ITEM_SIZE, TensorType

UNKNOWN: Final = "?"
"""The name of a number of which nothing is known: unlike other names, it need not be the same number everywhere."""

_TYPICAL: Final = 64
_MOST_TERMS: Final = 3


class Extent:
    """A polynomial over names of whole numbers; never a plain number (`number` makes those ints).

    >>> n = Extent.of("n")
    >>> n * 3 + 4 - n, (n + 1) * n == n * n + n, n - n
    (2*n + 4, True, 0)
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[tuple[str, ...], int]) -> None:
        self.terms = terms
        """The factor of each product of names; names are sorted, a square repeats the name, no factor is 0."""
        self._hash = 0

    @staticmethod
    def of(name: str) -> Extent:
        """Return the number of this name."""
        return Extent({(name,): 1})

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for names in self.terms for name in names)

    def __add__(self, other: Num) -> Num:
        terms = dict(self.terms)
        for names, factor in _terms(other).items():
            terms[names] = terms.get(names, 0) + factor
        return _number(terms)

    def __mul__(self, other: Num) -> Num:
        terms: dict[tuple[str, ...], int] = {}
        for names, factor in _terms(other).items():
            for mine, own in self.terms.items():
                key = tuple(sorted(mine + names)) if names and mine else mine or names
                terms[key] = terms.get(key, 0) + factor * own
        return _number(terms)

    def __neg__(self) -> Num:
        return self * -1

    def __sub__(self, other: Num) -> Num:
        return self + other * -1

    def __rsub__(self, other: int) -> Num:
        return self * -1 + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.terms == other.terms

    def __hash__(self) -> int:
        self._hash = self._hash or hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self) -> str:
        text = ""
        for names, factor in sorted(self.terms.items(), key=_shown_first):
            amount = abs(factor)
            parts = [str(amount)] * (amount != 1 or not names) + list(names)
            text += (" - " if factor < 0 else " + ") + "*".join(parts)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


Num = int | Extent
"""A number, known or symbolic."""


def _shown_first(term: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
    return -len(term[0]), term[0]


def _terms(number: Num) -> dict[tuple[str, ...], int]:
    return number.terms if isinstance(number, Extent) else {(): number}


def _number(terms: dict[tuple[str, ...], int]) -> Num:
    terms = {names: factor for names, factor in terms.items() if factor}
    if not terms or (len(terms) == 1 and () in terms):
        return terms.get((), 0)
    return Extent(terms)


def product(numbers: Iterable[Num]) -> Num:
    """Return the product of all.

    >>> product([2, Extent.of("n"), 3])
    6*n
    """
    total: Num = 1
    for number in numbers:
        total = total * number
    return total


def tensor_bytes(type: TensorType) -> Num:
    """Return the bytes of all elements, as a formula of the names of extents; an element of unknown type counts as 4 bytes.

    >>> tensor_bytes(TensorType("float32", ("batch", 128))), tensor_bytes(TensorType("int8", (2, None))), tensor_bytes(TensorType())
    (512*batch, 2*?, 4*?*?)
    """
    shape = (None, None) if type.shape is None else type.shape
    size = 4 if type.dtype is None else ITEM_SIZE.get(type.dtype, 8)
    return product([size, *(dim if isinstance(dim, int) else Extent.of(UNKNOWN if dim is None else dim) for dim in shape)])


def typical(number: Num) -> int:
    """Return its value if every name is 64, so that decisions that weigh bytes can compare what is not known with what is.

    >>> typical(Extent.of("n") * 3 + 8), typical(5)
    (200, 5)
    """
    return sum(factor * _TYPICAL ** len(names) for names, factor in _terms(number).items())


def is_unknown(number: Num) -> bool:
    """Whether nothing is known of a part of it, so that it equals no number, not even itself.

    >>> is_unknown(Extent.of("n") + 4), is_unknown(tensor_bytes(TensorType("float32", (None,))))
    (False, True)
    """
    return isinstance(number, Extent) and UNKNOWN in number.names


def byte_words(number: Num, *, more: str = " and an unknown number more") -> str:
    """Return an amount of memory in words: with a decimal prefix if it is known, otherwise as a formula; `more` tells of an unknown part.

    >>> n, m = Extent.of("batch"), Extent.of(UNKNOWN)
    >>> byte_words(1_500_000), byte_words(n * 512), byte_words(n * n * 4 + n * 512 + 8), byte_words(m * 4), byte_words(n * 4 + m)
    ('1.5 MB', '512·batch B', '4·batch·batch + 512·batch + 8 B', 'an unknown number of bytes', '4·batch B and an unknown number more')
    """
    if isinstance(number, int):
        return byte_count(number)
    known = _number({names: factor for names, factor in number.terms.items() if UNKNOWN not in names})
    if known != number:
        return f"{byte_words(known)}{more}" if known != 0 else "an unknown number of bytes"
    return f"{formula(number)} B"


def formula(number: Extent) -> str:
    """Return a formula for people: its first terms, with a point for products.

    >>> n = Extent.of("n")
    >>> formula(n * n * 4 + 8), formula(n * n * n * n + n * n * n + n * n + n)
    ('4·n·n + 8', 'n·n·n·n + n·n·n + n·n + …')
    """
    first = dict(sorted(number.terms.items(), key=_shown_first)[:_MOST_TERMS])
    return repr(Extent(first)).replace("*", "·") + (" + …" if len(number.terms) > _MOST_TERMS else "")


def quotient(number: Num, by: Num) -> Num | None:
    """Return the sum of products whose product with `by` is the number on every run; None if there is none.

    >>> n = Extent.of("n")
    >>> quotient(n * n * 6 + n * 4, n * 2), quotient(n + 1, 2), quotient(n * n - 1, n + 1), quotient(12, 3)
    (3*n + 2, None, n - 1, 4)
    """
    if by == 0:
        return None
    divisor, rest = _terms(by), dict(_terms(number))
    result: dict[tuple[str, ...], int] = {}
    lead = max(divisor, key=_rank)
    for _ in range(64):
        if not rest:
            return _number(result)
        top = max(rest, key=_rank)
        names, factor = _without(top, lead), rest[top]
        if names is None or factor % divisor[lead]:
            return None
        part = _number({names: factor // divisor[lead]})
        result[names] = factor // divisor[lead]
        rest = {names: factor for names, factor in _terms(_number(rest) - part * by).items() if factor}
    return None


def _rank(names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return len(names), names


def _without(names: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...] | None:
    rest = list(names)
    for name in taken:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def is_at_least(a: Num, b: Num, least: Any = None) -> bool:
    """Whether a is known to be at least b, where each name stands for at least `least(name)`, or 0 without `least`; about a name
    that starts with `~` nothing is known.

    >>> n = Extent.of("n")
    >>> is_at_least(n * 2, n), is_at_least(n * n, 4), is_at_least(n * n, 4, lambda name: 2)
    (True, False, True)
    """
    if a.__class__ is int and b.__class__ is int:
        return a >= b
    rest = _terms(a - b)
    if least is not None:  # each name is replaced by itself plus its least value
        total: Num = 0
        for names, factor in rest.items():
            total = total + product([Extent.of(name) + least(name) for name in names]) * factor
        rest = _terms(total)
    return all(factor >= 0 and not any(name[0] == "~" for name in names) for names, factor in rest.items())


def divided(count: Num, by: Num) -> Num:
    """Return a quotient that is whole; by a name where it is not a sum of products."""
    exact = quotient(count, by)
    return Extent.of(f"({count})/({by})") if exact is None else exact


# Slices: where they start and end.

_FAR: Final = 2**62
"""From here on, an end of a slice means the end of the axis."""


def slice_bound(bound: Num | None, extent: Num) -> Num | None:
    """Return where a slice starts or ends: counted from the end if negative, and clamped to the extent; None where not known."""
    if isinstance(bound, int) and bound < 0:
        if isinstance(extent, int):
            return max(extent + bound, 0)
        bound = extent + bound
        return bound if is_at_least(bound, 0) else Extent.of(f"max({bound}, 0)")
    if bound is None or (isinstance(bound, Extent) and not is_at_least(bound, 0)):
        return None
    if is_at_least(extent, bound):
        return bound
    if is_at_least(bound, extent) or (isinstance(bound, int) and bound >= _FAR):
        return extent
    return Extent.of(f"min({bound}, {extent})")


def slice_length(start: Num, end: Num, step: int) -> Num:
    """Return how many indices lie from a start to before an end, `step` apart."""
    length = end - start
    if isinstance(length, int):
        return max(-(-length // step), 0)
    if not is_at_least(length, 0):
        length = Extent.of(f"max({length}, 0)")
    if step == 1:
        return length
    exact = quotient(length, step)
    return Extent.of(f"ceil(({length})/{step})") if exact is None else exact
