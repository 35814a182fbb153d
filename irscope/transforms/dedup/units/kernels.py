"""The generated kernels of a program as pieces, compared by spec and by machine code.

*Early* a kernel is its spec, which is compared as a graph like every other piece. *Late* it is machine code. Two specs that differ
(in an operand's order, in how long a row may be, in a type of the same size) may have the same machine code; then one kernel can
serve both, as it does whatever its machine code says, and the difference disappears.

Code generators provide kernels as `Generated`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from irscope._base.words import each
from irscope.errors import UnknownName
from irscope.ir import Graph, Module, Node
from irscope.transforms.dedup.classes import Members
from irscope.transforms.dedup.piece import Piece

__all__ = ["Generated", "KernelPieces", "kernel_pieces"]


class Generated(Protocol):
    """One generated kernel."""

    name: str
    compile_seconds: float
    groups: list[Node]

    @property
    def graph(self) -> Graph:
        """Its spec as a graph."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the kernel as a whole."""

    @property
    def machine_code(self) -> str:
        """The machine code that it was compiled to, without its name."""


@dataclass(frozen=True, eq=False)
class KernelPieces:
    """The kernels of an executable, by name; further kernels of the same name have a number behind it."""

    kernels: Mapping[str, Generated]

    @cached_property
    def pieces(self) -> dict[Node | str, Piece]:
        """The spec of each kernel as a piece."""
        return {
            name: Piece(name, (graph := kernel.graph).body, graph, kernel.attributes, kind="kernel")
            for name, kernel in self.kernels.items()
        }

    @property
    def module(self) -> Module:
        """All specs as graphs."""
        return Module({str(name): piece.graph for name, piece in self.pieces.items()}, name="kernels")

    @property
    def note(self) -> str:
        """One sentence that says what the pieces are."""
        return f"{each(len(self.kernels), 'compiled kernel')} is a piece"

    @property
    def seconds(self) -> dict[Node | str, float]:
        """The compile time of each kernel."""
        return {name: kernel.compile_seconds for name, kernel in self.kernels.items()}

    @cached_property
    def codes(self) -> list[Members]:
        """The kernels grouped by machine code, which is generated again for the comparison; the largest group first."""
        found: dict[str, list[Node | str]] = {}
        for name in self.kernels:
            found.setdefault(self.kernels[name].machine_code, []).append(name)
        return sorted(map(tuple, found.values()), key=lambda names: -len(names))

    def late(self, a: Node | str, b: Node | str) -> str:
        """A clause that says that two kernels have the same machine code; empty if it differs too."""
        same = a != b and self.kernels[str(a)].machine_code == self.kernels[str(b)].machine_code
        return "; yet their machine code is the same, so one serves for both" if same else ""

    def named(self, piece: Any) -> str:
        """The name of a kernel that is given as itself, by its number, or by a group that runs it. Raises UnknownName."""
        if isinstance(piece, int) and 0 <= piece < len(self.kernels):
            return list(self.kernels)[piece]
        for name, kernel in self.kernels.items():
            if piece is kernel or piece in kernel.groups:
                return name
        raise UnknownName(f"there is no kernel {piece!r}", hint=f"the kernels are {', '.join(list(self.kernels)[:5])}")


def kernel_pieces(kernels: Sequence[Generated]) -> KernelPieces:
    """Returns the kernels under unique names."""
    counts: Counter[str] = Counter()
    named = {}
    for kernel in kernels:
        again = counts[kernel.name]
        counts[kernel.name] += 1
        named[f"{kernel.name}#{again}" if again else kernel.name] = kernel
    return KernelPieces(named)
