"""One thing that would help, with its number and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from irscope.ir import Graph, Location, Node
from irscope.runtime.profile.readings import time_words

__all__ = ["Change", "Remark"]

Change = Callable[[Graph], Graph]
"""Makes the program that follows a remark."""


@dataclass(frozen=True, eq=False)
class Remark:
    """What would help at one place of a program.

    `str(remark)` is the sentence: the line, what its nodes take, what would be saved, why, and what to do.
    """

    rule: str
    """The stable name of the rule: `copy`, `float64`, `rebuilt-constant`, …"""
    node: Node
    """The node that it is about, the slowest if there are several."""
    nodes: tuple[Node, ...]
    """All of them, in program order."""
    now_ns: float
    """What they take in a run."""
    gain_ns: float
    """What the advice should save of that."""
    share: float
    """What they take, of a run of the program as it was written."""
    because: str
    """The evidence, a clause without a full stop."""
    advice: str
    """What to do, a clause without a full stop; empty where nothing is to be gained."""
    certainty: float = 1.0
    """How much of the gain counts where remarks are put in order: less where the evidence only makes it likely."""
    change: Change | None = field(default=None, repr=False)
    """What follows the advice, where that needs no author; None where the source must be changed by hand."""
    is_measured: bool = False
    """Whether the gain was measured, and not predicted."""

    @property
    def line(self) -> Location | None:
        """Where it is in the user's source."""
        return self.lines[0] if self.lines else None

    @property
    def lines(self) -> tuple[Location, ...]:
        """All lines that it is about, the one of `node` first."""
        found: dict[tuple[str, int], Location] = {}
        for node in (self.node, *self.nodes):
            if node.location is not None:
                found.setdefault((node.location.file, node.location.line), node.location)
        return tuple(found.values())

    @property
    def gain_ms(self) -> float:
        """What it should save of a run, in milliseconds."""
        return self.gain_ns / 1e6

    def __str__(self) -> str:
        where = _places(self.lines) or repr(self.node)
        takes = f"{where}: {self.share:.0%} of the time ({time_words(self.now_ns)}), {self.because}"
        if not self.advice:
            return takes
        saved = f"{'saves' if self.is_measured else 'would save about'} {time_words(self.gain_ns)}"
        return f"{takes}; {self.advice} ({saved})"


def _places(lines: tuple[Location, ...]) -> str:
    """The first lines, shortly: `model.py:12, 14`."""
    if not lines:
        return ""
    first, *others = lines
    more = [str(line.line) for line in others[:3] if line.file == first.file]
    rest = len(others) - len(more)
    told = ", ".join([f"{Path(first.file).name}:{first.line}", *more])
    return f"{told} and {rest} more" if rest > 0 else told
