"""What it costs to let one body stand for a class, and what it saves.

*Saved* are bodies: their ops, their text, the time to compile them. Where an executable is given, that time is what its kernels
took; otherwise it is estimated from the number of ops, and said so.

*Lost* is what a compiler knew of each member. A number that becomes a parameter can no longer be folded: that matters where it is
one that an op does nothing with (x · 1, x + 0), and is a register otherwise. A size that becomes one costs an executable of fixed
sizes its unrolling, and its vector loops their missing remainder unless all sizes have a common factor. Our own kernels take
sizes as arguments in any case (`irscope.codegen.kernel`), so it costs them nothing.

The slowdown is an estimate by these rules, in parts of the run time of the pieces, until it is measured: whoever compiled the
program can run the pieces with kernels of their own and with the common one (`Measures`).
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
"""Seconds to compile a kernel for a processor, and for each op in it; tests/benchmarks/README.md has the measurement."""
_REGISTER: Final = 0.002
"""Slowdown by a number that is read from a register instead of being written into an instruction."""
_IDLE: Final = 0.01
"""Slowdown by an op that computes x · 1 in one member: arithmetic hides behind memory."""
_VECTOR: Final = 8
"""Elements of a vector register that sizes had better be multiples of."""
_ALIGNED: Final = 0.05
_RAGGED: Final = 0.2
"""Slowdown of a body of fixed sizes that takes them as arguments: with sizes of a common factor, and without."""


@dataclass(frozen=True)
class Cost:
    """One body for a class of pieces, against one for each of them."""

    bodies: int
    """How many bodies are saved."""
    ops: int
    bytes: int
    """Of text."""
    compile_seconds: float
    parameters: int
    """How many operands the body gets."""
    lost: tuple[str, ...]
    """Which specialisations are given up, a phrase each."""
    slowdown: float
    """By how much the pieces run longer, as a part of their time: at most, where it is estimated."""
    measured: bool = False
    """Whether that was measured."""

    @property
    def price(self) -> str:
        """The slowdown in words, and how it is known."""
        if self.measured:
            return f"measured {100 * self.slowdown:.1f} % slower" if self.slowdown > 0 else "measured no slower"
        return f"at most {100 * self.slowdown:.1f} % slower, estimated" if self.slowdown else "nothing is lost"


class Measures(Protocol):
    """What can run pieces: an executable."""

    def slowdown(self, after: Graph, groups: Sequence[Node]) -> float | None:
        """By how much groups run longer in a graph in which they have one body; None where it cannot be measured."""


def cost_of(holes: ClassHoles, seconds: Mapping[Any, float], members: Sequence[Piece] | None = None) -> Cost:
    """What one body for a class saves and costs; `seconds` are those that its members took to compile, if that is known.

    `members` are all of the class where `holes` are of those alone that differ in more than names.
    """
    members = holes.members if members is None else members
    others = members[1:]
    distinct = {id(piece): piece for piece in members}  # one piece may stand for a thousand members, equal but for names
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
        found.append(f"{plural(len(idle), 'op')} that a member has no need of ({idle[0].place})")
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
    """Whether some op does nothing with a number."""
    if isinstance(value, TensorData):
        return False
    return isinstance(value, int | float) and value in (0, 1, -1)


def compile_seconds(piece: Piece, seconds: Mapping[Any, float]) -> float:
    """The time to compile a piece: what it took, or an estimate."""
    known = seconds.get(piece.member)
    return _KERNEL_SECONDS + _OP_SECONDS * len(piece.nodes) if known is None else known


def measured_seconds(executable: Any) -> dict[Node, float]:
    """What the kernels of each group took to compile, of an executable."""
    found: dict[Node, float] = {}
    for kernel in getattr(executable, "kernels", ()):
        for group in kernel.groups:
            found[group] = found.get(group, 0.0) + kernel.compile_seconds
    return found


def text_bytes(piece: Piece) -> int:
    """The size of a piece as text, whatever its values are called."""
    total = 0
    for node in piece.nodes:
        names = dict.fromkeys((*node.inputs, *node.outputs), "x")
        total += len(print_node(node, names)) + 1
    return total
