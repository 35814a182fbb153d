"""Generated text that maps each line to the node that it computes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from irscope._base.words import plural
from irscope.errors import UnknownNumber

NO_NODE: Final = -1
"""The node of a line that belongs to no single node: loops, addresses, declarations."""
NO_LINE: Final = -1
"""The origin of a line of machine code that comes from no single line."""


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
    """`llvm`, `cuda`, or the output of a compiler: `assembly`, `ptx`, `sass`."""
    line_nodes: tuple[int, ...]
    """For each line, the position in the group's block of the node that it computes, or `NO_NODE`."""
    name: str
    """The symbol of the kernel's entry."""
    origins: tuple[int, ...] = ()
    """For machine code: for each line, the line of the kernel's text that it came from, or `NO_LINE`; empty for that text
    itself."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<SourceText of {self.name}: {plural(len(self.line_nodes), 'line')} of {self.language}>"

    def lines_of(self, node: int) -> tuple[int, ...]:
        """Return the lines, counted from 0, that compute the node at this position of the group's block."""
        return tuple(line for line, owner in enumerate(self.line_nodes) if owner == node)

    def node_of(self, line: int) -> int | None:
        """Return the position in the group's block of the node that a line, counted from 0, computes; None if no single one.

        >>> lines = Lines()
        >>> lines.add("for (;;) {")
        >>> lines.add("  y[i] = exp(x[i]);", node=0)
        >>> source = lines.source("k", "cuda")
        >>> source.node_of(0), source.node_of(1), source.lines_of(0)
        (None, 0, (1,))
        """
        if line not in range(-len(self.line_nodes), len(self.line_nodes)):
            raise UnknownNumber(f"there is no line {line!r}", hint=f"there are {len(self.line_nodes)}, counted from 0")
        owner = self.line_nodes[line]
        return None if owner == NO_NODE else owner

    @property
    def of_nodes(self) -> SourceText:
        """The lines that compute a node: no loops, addresses and declarations."""
        return self.only(line for line, owner in enumerate(self.line_nodes) if owner != NO_NODE)

    def only(self, lines: Iterable[int]) -> SourceText:
        """Return these lines of the text, counted from 0, in the given order."""
        texts, wanted = self.text.splitlines(), list(lines)
        return SourceText(
            "".join(f"{texts[line]}\n" for line in wanted), self.language,
            tuple(self.line_nodes[line] for line in wanted), self.name,
            tuple(self.origins[line] for line in wanted) if self.origins else (),
        )  # fmt: skip


class Lines:
    """A builder of `SourceText` that appends line by line."""

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
        return SourceText("\n".join(self._lines) + "\n", language, tuple(self._nodes), name)
