"""A verdict whose reason is computed only when it is read: finding a path costs more than the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from irscope._base.verdict import Verdict

__all__ = ["LazyVerdict", "lazy"]


class LazyVerdict(Verdict):
    """A verdict with a known answer and a deferred reason; created by `lazy`."""

    __slots__ = ("_reason",)
    _reason: Verdict | tuple[Any, ...]
    """The verdict with its reason; until it is read, a function that finds the reason, and the function's arguments."""

    def _full(self) -> Verdict:
        found = self._reason
        if isinstance(found, tuple):
            found = found[0](*found[1:])
            assert isinstance(found, Verdict) and found.holds == self.holds, (
                "a reason was found for the opposite answer"
            )
            object.__setattr__(self, "_reason", found)
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


_new: Final[Callable[[type[LazyVerdict]], LazyVerdict]] = object.__new__
_set_holds: Final[Any] = vars(Verdict)["holds"].__set__  # past the frozen `__init__`, which costs three times as much
_set_reason: Final[Any] = vars(LazyVerdict)["_reason"].__set__


def lazy(holds: bool, *reason: Any) -> LazyVerdict:
    """A verdict whose reason a function returns for some arguments, called at most once.

    >>> from irscope._base.verdict import yes
    >>> print(lazy(True, yes, "somebody asked"))
    yes, because somebody asked
    """
    made = _new(LazyVerdict)
    _set_holds(made, holds)
    _set_reason(made, reason)
    return made
