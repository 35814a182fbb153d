"""A remark on a possible improvement, with its number and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from irscope.ir import Graph, Location, Node
from irscope.runtime.timer import time_words

__all__ = ["Change", "Remark"]

Change = Callable[[Graph], Graph]
"""Returns the program that follows a remark."""


@dataclass(frozen=True, eq=False)
class Remark:
    """A possible improvement at one place of a program.

    `str(remark)` is the sentence: the line, the time of its nodes, the possible saving, the reason, and the advice.
    """

    rule: str
    """The stable name of the rule: `copy`, `float64`, `rebuilt-constant`, …"""
    node: Node
    """The node that it is about, the slowest if there are several."""
    nodes: tuple[Node, ...]
    """All of them, in program order."""
    now_ns: float
    """Their time in a run."""
    gain_ns: float
    """The expected saving of that time."""
    share: float
    """Their share of a run of the original program."""
    because: str
    """The evidence, a clause without a full stop."""
    advice: str
    """What to do, a clause without a full stop; empty where there is nothing to gain."""
    certainty: float = 1.0
    """The weight of the gain in the order of remarks: lower where the evidence only makes it likely."""
    change: Change | None = field(default=None, repr=False)
    """Applies the advice, where that needs no author; None where the source must be changed by hand."""
    is_measured: bool = False
    """Whether the gain was measured rather than predicted."""

    @property
    def line(self) -> Location | None:
        """The place in the user's source."""
        return self.lines[0] if self.lines else None

    @property
    def lines(self) -> tuple[Location, ...]:
        """All lines concerned, that of `node` first."""
        found: dict[tuple[str, int], Location] = {}
        for node in (self.node, *self.nodes):
            if node.location is not None:
                found.setdefault((node.location.file, node.location.line), node.location)
        return tuple(found.values())

    @property
    def gain_ms(self) -> float:
        """The expected saving in a run, in milliseconds."""
        return self.gain_ns / 1e6

    def __str__(self) -> str:
        where = _places(self.lines) or repr(self.node)
        takes = f"{where}: {self.share:.0%} of the time ({time_words(self.now_ns)}), {self.because}"
        if not self.advice:
            return takes
        saved = f"{'saves' if self.is_measured else 'would save about'} {time_words(self.gain_ns)}"
        return f"{takes}; {self.advice} ({saved})"


def _places(lines: tuple[Location, ...]) -> str:
    """Returns the first lines in short form: `model.py:12, 14`."""
    if not lines:
        return ""
    first, *others = lines
    more = [str(line.line) for line in others[:3] if line.file == first.file]
    rest = len(others) - len(more)
    text = ", ".join([f"{Path(first.file).name}:{first.line}", *more])
    return f"{text} and {rest} more" if rest > 0 else text
