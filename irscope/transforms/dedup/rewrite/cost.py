"""Estimates the costs and savings of one body for a class.

*Savings* are bodies: their ops, their text, and the time to compile them. Where an executable is given, that time is measured on
its kernels; otherwise it is estimated from the number of ops, and labelled so.

*Losses* are facts that a compiler knew of each member. A number that becomes a parameter can no longer be folded: that matters
where it makes an op the identity (x · 1, x + 0), and otherwise only costs a register. A size that becomes a parameter costs an
executable of fixed sizes its unrolling, and gives its vector loops a remainder unless all sizes have a common factor. Our own
kernels take sizes as arguments in any case (`irscope.codegen.kernel`), so it costs them nothing.

The slowdown is estimated by these rules, as a fraction of the run time of the pieces, unless it is measured: an executable can
run the pieces with their own kernels and with the common one (`Measures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, Protocol

from irscope._base.words import plural
from irscope.ir import Graph, Node, TensorData
from irscope.ir.text import print_node
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.rewrite.group_body import is_parameter
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow

__all__ = ["Cost", "Measures", "compile_seconds", "cost_of", "measured_seconds", "text_bytes"]

_KERNEL_SECONDS: Final = 0.025
_OP_SECONDS: Final = 0.0016
"""The seconds to compile a kernel for a CPU, and for each op in it; tests/benchmarks/README.md has the measurement."""
_REGISTER: Final = 0.002
"""The slowdown by a number that is read from a register instead of an instruction's immediate."""
_IDLE: Final = 0.01
"""The slowdown by an op that computes x · 1 in one member; it is small, as memory traffic hides arithmetic."""
_VECTOR: Final = 8
"""The elements of a vector register, of which sizes should be multiples."""
_ALIGNED: Final = 0.05
_RAGGED: Final = 0.2
"""The slowdowns of a body of fixed sizes that takes them as arguments: with a common factor `_VECTOR`, and without."""


@dataclass(frozen=True)
class Cost:
    """The costs and savings of one body for a class of pieces, compared with one for each of them."""

    bodies: int
    """The number of bodies saved."""
    ops: int
    bytes: int
    """The bytes of text saved."""
    compile_seconds: float
    parameters: int
    """The number of further operands of the body."""
    lost: tuple[str, ...]
    """The specialisations given up, one phrase each."""
    slowdown: float
    """The slowdown as a fraction of the pieces' run time; an upper bound where it is estimated."""
    measured: bool = False
    """Whether the slowdown was measured."""

    @property
    def price(self) -> str:
        """The slowdown in words, and whether it was measured or estimated."""
        if self.measured:
            return f"measured {100 * self.slowdown:.1f} % slower" if self.slowdown > 0 else "measured no slower"
        return f"at most {100 * self.slowdown:.1f} % slower, estimated" if self.slowdown else "nothing is lost"


class Measures(Protocol):
    """An executable that can run pieces and measure slowdowns."""

    def slowdown(self, after: Graph, groups: Sequence[Node]) -> float | None:
        """The slowdown of groups in a graph in which they have one body; None where it cannot be measured."""


def cost_of(holes: ClassHoles, seconds: Mapping[Any, float], members: Sequence[Piece] | None = None) -> Cost:
    """Returns what one body for a class saves and costs; `seconds` are the known compile times of its members.

    `members` are all members of the class, if `holes` has only those that differ in more than names.
    """
    members = holes.members if members is None else members
    others = members[1:]
    distinct = {id(piece): piece for piece in members}  # one piece may represent a thousand members that differ in names only
    nodes = {key: len(piece.nodes) for key, piece in distinct.items()}
    text = {key: text_bytes(piece) for key, piece in distinct.items()}
    times = [compile_seconds(piece, seconds) for piece in members]
    varying = [row for row in holes.rows if row.parameter is not None]
    is_fixed = holes.leader.group is None
    lost, slowdown = _lost(varying, is_fixed=is_fixed)
    return Cost(
        len(others), sum(nodes[id(piece)] for piece in others), sum(text[id(piece)] for piece in others), sum(times) - max(times),
        len({(row.parameter, row.follows) for row in varying if is_parameter(row)}), lost, slowdown,
    )  # fmt: skip


def _lost(varying: Sequence[HoleRow], *, is_fixed: bool) -> tuple[tuple[str, ...], float]:
    found: list[str] = []
    slowdown = 0.0
    numbers = [row for row in varying if row.kind == "constant"]
    if numbers:
        slowdown += _REGISTER * len(numbers)
        found.append(f"constant folding in {plural(len(numbers), 'place')}")
    idle = [row for row in numbers if any(_is_neutral(value) for value in row.values)]
    if idle:
        slowdown += _IDLE * len(idle)
        found.append(f"{plural(len(idle), 'op')} that a member does not need ({idle[0].place})")
    sizes = [
        row for row in varying if row.kind in ("extent", "size") and all(type(value) is int for value in row.values)
    ]
    if sizes and is_fixed:
        common = [gcd(*row.values) for row in sizes]
        aligned = all(factor % _VECTOR == 0 for factor in common)
        slowdown += _ALIGNED if aligned else _RAGGED
        found.append("unrolling by known sizes")
        if not aligned:
            found.append(f"vector width: {sizes[common.index(min(common))].place} is a multiple of {min(common)} only")
        else:
            found.append(f"divisibility beyond {min(common)}")
    if any(row.kind in ("layout", "stride") for row in varying):
        found.append("known strides")
    if any(row.kind == "dtype" for row in varying):
        found.append("the element type")
    return tuple(found), slowdown


def _is_neutral(value: Any) -> bool:
    """Whether a number makes some op trivial, as in x + 0 or x · 1."""
    if isinstance(value, TensorData):
        return False
    return isinstance(value, int | float) and value in (0, 1, -1)


def compile_seconds(piece: Piece, seconds: Mapping[Any, float]) -> float:
    """Returns the time to compile a piece, measured or estimated."""
    known = seconds.get(piece.member)
    return _KERNEL_SECONDS + _OP_SECONDS * len(piece.nodes) if known is None else known


def measured_seconds(executable: Any) -> dict[Node, float]:
    """Returns the compile time of each group's kernels in an executable."""
    found: dict[Node, float] = {}
    for kernel in getattr(executable, "kernels", ()):
        for group in kernel.groups:
            found[group] = found.get(group, 0.0) + kernel.compile_seconds
    return found


def text_bytes(piece: Piece) -> int:
    """Returns the size of a piece as text, independent of the names of its values."""
    total = 0
    for node in piece.nodes:
        names = dict.fromkeys((*node.inputs, *node.outputs), "x")
        total += len(print_node(node, names)) + 1
    return total
