"""An answer with its reason: truthy or falsy, in words, with the values, nodes and edges that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Verdict", "no", "yes"]


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The answer to a yes-or-no question about a program.

    `if db.may_alias(a, b):` works as with a bool; `print` shows the reason.

    >>> print(no("they are different memory"))
    no, because they are different memory
    """

    holds: bool
    """The answer."""
    because: str
    """The reason, one sentence without a full stop."""
    witness: tuple[Any, ...] = ()
    """Values, nodes or edges that prove the answer, in the order in which the reason names them."""

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}, because {self.because}"

    def __repr__(self) -> str:
        return f"<Verdict: {self}>"


def yes(because: str, *witness: Any) -> Verdict:
    """A verdict that holds."""
    return Verdict(True, because, witness)


def no(because: str, *witness: Any) -> Verdict:
    """A verdict that does not hold."""
    return Verdict(False, because, witness)
