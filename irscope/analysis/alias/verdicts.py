"""A verdict whose reason is looked for only when somebody reads it: finding a path costs more than the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irscope._base.verdict import Verdict

__all__ = ["LazyVerdict"]


class LazyVerdict(Verdict):
    """A verdict that knows its answer, and how to find its reason.

    >>> from irscope._base.verdict import yes
    >>> print(LazyVerdict(True, lambda: yes("somebody asked")))
    yes, because somebody asked
    """

    __slots__ = ("_find", "_found")
    _find: Callable[[], Verdict]
    _found: Verdict | None

    def __init__(self, holds: bool, find: Callable[[], Verdict]) -> None:
        object.__setattr__(self, "holds", holds)
        object.__setattr__(self, "_find", find)
        object.__setattr__(self, "_found", None)

    def _full(self) -> Verdict:
        found = self._found
        if found is None:
            found = self._find()
            assert found.holds == self.holds, "a reason was found for the opposite answer"
            object.__setattr__(self, "_found", found)
        return found

    @property
    def because(self) -> str:
        return self._full().because

    @property
    def witness(self) -> tuple[Any, ...]:
        return self._full().witness

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and (self.holds, self.because, self.witness) == (
            other.holds,
            other.because,
            other.witness,
        )

    def __hash__(self) -> int:
        return hash((self.holds, self.because))

    def __repr__(self) -> str:
        return repr(self._full())
