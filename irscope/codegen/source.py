"""Generated text in which every line knows the node that it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from irscope._base.words import plural

__all__ = ["NO_NODE", "Lines", "SourceText"]

NO_NODE: Final = -1
"""The node of a line that serves no single node: loops, addresses, declarations."""


@dataclass(frozen=True, slots=True, repr=False)
class SourceText:
    """The text of one kernel; `print` shows it.

    >>> lines = Lines()
    >>> lines.add("float t0 = a + b;", node=3)
    >>> source = lines.source("k", "cuda")
    >>> source.text, source.line_nodes
    ('float t0 = a + b;\\n', (3,))
    """

    text: str
    language: str
    """`llvm` or `cuda`."""
    line_nodes: tuple[int, ...]
    """For each line, the position in the group's block of the node that it computes, or `NO_NODE`."""
    name: str
    """The symbol of the kernel's entry."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<SourceText of {self.name}: {plural(len(self.line_nodes), 'line')} of {self.language}>"

    def lines_of(self, node: int) -> tuple[int, ...]:
        """The lines, counted from 0, that compute the node at this position of the group's block."""
        return tuple(line for line, owner in enumerate(self.line_nodes) if owner == node)


class Lines:
    """Text that grows line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._nodes: list[int] = []

    def add(self, text: str, *, node: int = NO_NODE) -> None:
        """Append text, which may be several lines, all of one node."""
        for line in text.split("\n"):
            self._lines.append(line)
            self._nodes.append(node)

    def extend(self, other: Lines) -> None:
        """Append all lines of another text with their nodes."""
        self._lines += other._lines
        self._nodes += other._nodes

    def source(self, name: str, language: str) -> SourceText:
        """The finished text."""
        return SourceText("\n".join(self._lines) + "\n", language, tuple(self._nodes), name)
