"""What results have in common: an answer comes with its reason, and what can be drawn draws itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from irscope._base.words import listed


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The answer to a yes-or-no question about a program.

    `if db.may_alias(a, b):` works as with a bool; `print` shows the reason.

    >>> print(no("they are different memory").in_words("may alias", "no alias"))
    no alias: they are different memory
    """

    holds: bool
    """The answer."""
    because: str
    """The reason, one sentence without a full stop."""
    witness: tuple[Any, ...] = ()
    """Values, nodes or edges that prove the answer, in the order in which the reason names them."""
    answer: str = ""
    """The answer in the words of the question, `not fused`; empty where it is yes or no."""

    def in_words(self, holds: str, fails: str) -> "Verdict":
        """The same verdict, with an answer in the words of the question."""
        return replace(self, answer=holds if self.holds else fails)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{self.answer}: {self.because}" if self.answer else f"{'yes' if self.holds else 'no'}, because {self.because}"

    def __repr__(self) -> str:
        return f"<Verdict: {self}>"


def yes(because: str, *witness: Any) -> Verdict:
    """A verdict that holds."""
    return Verdict(True, because, witness)


def no(because: str, *witness: Any) -> Verdict:
    """A verdict that does not hold."""
    return Verdict(False, because, witness)


T = TypeVar("T")


class Numbered(tuple[T, ...]):
    """What a user counts from 0. For a number past the end UnknownNumber says how many there are, and what they are called.

    >>> import irscope as irs
    >>> Numbered.of(("%a", "%b"), "group", str)[2]
    Traceback (most recent call last):
    irscope.errors.UnknownNumber: there is no group 2
      hint: there are 2, counted from 0: %a, %b
    """

    unknown: ClassVar[type[Exception]] = IndexError
    """The error, which the module of errors sets: UnknownNumber."""
    noun: str = "item"
    called: Callable[[Any], str] | None = None
    """What an item is called in a sentence."""
    why_none: Callable[[], str] = staticmethod(lambda: "there are none")
    """Says why there are none; called only where that is shown."""

    @classmethod
    def of(cls, items: Iterable[T], noun: str, called: Callable[[Any], str] | None = None) -> Self:
        """These items, with what they are called."""
        made = cls(items)
        made.noun, made.called = noun, called
        return made

    if not TYPE_CHECKING:  # a type checker has tuple's

        def __getitem__(self, index):
            try:
                return super().__getitem__(index)
            except (IndexError, TypeError):
                pass
            there = "there is 1, number 0" if len(self) == 1 else f"there are {len(self)}, counted from 0"
            names = f": {listed(self, self.called)}" if self.called is not None else ""
            raise self.unknown(f"there is no {self.noun} {index!r}", hint=there + names if self else self.why_none())


class Rows(Numbered[T]):
    """A tuple that shows itself at the end of a cell: as a table, and as lines in a terminal."""

    def table(self) -> Any:
        """The rows as a DataFrame."""
        raise NotImplementedError

    def lines(self) -> list[str]:
        """The rows as sentences, which a terminal wraps."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(self.lines()) if self else "()"

    def _repr_html_(self) -> str | None:
        made: str | None = self.table()._repr_html_() if self else None
        return made


# Programs and analyses do not depend on SVG: the root of the package sets `Drawn.drawing`, a function that loads the drawing module
# when a picture is requested.


class Drawn:
    """The base of results that can be drawn: in a notebook, for a paper, or for Graphviz."""

    __slots__ = ()
    drawing: ClassVar[Callable[[], Any]]
    """Returns the module that draws."""

    def to_svg(self, path: str | Path | None = None) -> str:
        """The picture as SVG, which needs no script, font or network; with a path it is also written there.

        A large program is drawn with its outer boxes closed, as in a notebook cell.

        >>> import irscope as irs
        >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
        >>> g.to_svg().count("<text"), irs.fuse(g).to_svg()[:4]
        (6, '<svg')
        """
        picture: str = type(self).drawing().svg_of(self)
        if path is not None:
            type(self).drawing().save(path, picture, ".svg")
        return picture

    def to_png(self, path: str | Path | None = None, *, scale: float = 2.0) -> bytes:
        """The same picture as PNG, `scale` pixels to a point. Raises MissingExtra without `irscope[lab]`."""
        picture: bytes = type(self).drawing().png_of(self, scale)
        if path is not None:
            type(self).drawing().save(path, picture, ".png")
        return picture

    def to_graphviz(self) -> Any:
        """A `graphviz.Source`: it displays itself in a notebook, `.source` is its text, `.render()` writes a file with `dot`.

        Raises MissingExtra without `irscope[lab]`.
        """
        return type(self).drawing().graphviz_of(self)

    def to_dot(self) -> str:
        """The picture as text in Graphviz's language, all boxes open; needs nothing installed."""
        text: str = type(self).drawing().dot_of(self)
        return text

    def _repr_svg_(self) -> str:
        return self.to_svg()
