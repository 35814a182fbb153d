"""Recommends a step for each class: the coarsest one whose slowdown is within a budget.

*Savings* are bodies: their ops, their text, and the time to compile them. Where an executable is given, that time is measured on
its kernels; otherwise it is estimated from the number of ops, and labelled so.

*Losses* are facts that a compiler knew of each member. A number that becomes a parameter can no longer be folded: that matters
where it makes an op the identity (x · 1, x + 0), and otherwise only costs a register. A size that becomes a parameter costs an
executable of fixed sizes its unrolling, and gives its vector loops a remainder unless all sizes have a common factor. Our own
kernels take sizes as arguments in any case (`irscope.codegen.kernel`), so it costs them nothing.

The slowdown is estimated by these rules, as a fraction of the run time of the pieces, unless it is measured: an executable can
run the pieces with their own kernels and with the common one.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any, Final

from irscope._base.words import plural, time_words
from irscope.errors import ArgumentError, new_table
from irscope.ir import Graph, Node
from irscope.ir.text import print_node
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.piece import GIVES_UP, HOLED, RANK, RELATIONS, Piece, Relation
from irscope.transforms.dedup.rewrite.groups import is_parameter, merge_groups
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow, class_holes

if TYPE_CHECKING:
    import pandas as pd

# --- costs and savings ------------------------------------------------------------------------------------------------

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
        if not self.slowdown:
            return f"no slower by estimate, without {', '.join(self.lost)}" if self.lost else "nothing is lost"
        return f"at most {100 * self.slowdown:.1f} % slower, estimated"


def cost_of(holes: ClassHoles, seconds: Mapping[Any, float], members: Sequence[Piece] | None = None) -> Cost:
    """Returns what one body for a class saves and costs; `seconds` are the known compile times of its members.

    `members` are all members of the class, if `holes` has only those that differ in more than names.
    """
    members = holes.members if members is None else members
    distinct = {id(piece): piece for piece in members}  # one piece may represent a thousand members that differ in names only
    size_of = {key: (len(piece.nodes), text_bytes(piece)) for key, piece in distinct.items()}
    saved = [size_of[id(piece)] for piece in members[1:]]
    ops, text = sum(size for size, _ in saved), sum(size for _, size in saved)
    times = [compile_seconds(piece, seconds) for piece in members]
    varying = [row for row in holes.rows if row.parameter is not None]
    parameters = {(row.parameter, row.follows) for row in varying if is_parameter(row)}
    lost, slowdown = _lost(varying, is_fixed=holes.leader.group is None)
    return Cost(len(saved), ops, text, sum(times) - max(times), len(parameters), lost, slowdown)


def _lost(varying: Sequence[HoleRow], *, is_fixed: bool) -> tuple[tuple[str, ...], float]:
    found: list[str] = []
    slowdown = 0.0
    numbers = [row for row in varying if row.kind == "constant"]
    if numbers:
        slowdown += _REGISTER * len(numbers)
        found.append(f"constant folding in {plural(len(numbers), 'place')}")
    idle = [row for row in numbers if any(isinstance(value, int | float) and value in (0, 1, -1) for value in row.values)]
    if idle:  # a number makes some op trivial, as in x + 0 or x · 1
        slowdown += _IDLE * len(idle)
        found.append(f"{plural(len(idle), 'op')} that a member does not need ({idle[0].place})")
    sizes = [row for row in varying if row.kind in ("extent", "size") and all(type(value) is int for value in row.values)]
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


_COARSEST: Final[Relation] = "free"
"""The coarsest step considered: from `layout` on two pieces cannot share a kernel."""


@dataclass(frozen=True)
class ClassChoice:
    """The recommend step for one class, with its cost."""

    members: Members
    """The members, the leader first."""
    step: Relation
    cost: Cost
    because: str

    def __str__(self) -> str:
        return f"{plural(len(self.members), 'piece')} by {self.step!r}: {self.because}"


def price(seconds: Mapping[Any, float], graph: Graph | None, runs: Any, pieces: Sequence[Piece], step: Relation) -> Cost:
    """The cost of one body for pieces whose compile times are these where they were measured. Where an executable `runs`, its
    `slowdown(after, groups)` is that of groups whose graph has one body for them."""
    cost = cost_of(class_holes(pieces, step), seconds)
    groups = [piece.member for piece in pieces if isinstance(piece.member, Node)]
    if graph is None or runs is None or not groups or not cost.slowdown:
        return cost  # pieces that lose nothing have the same kernel
    slowdown = runs.slowdown(merge_groups(graph, chosen={tuple(groups): step}).after, groups)
    return cost if slowdown is None else replace(cost, slowdown=slowdown, measured=True)


@dataclass(frozen=True)
class Recommendation:
    """The step at which to merge each class of more than one piece, for `Dedup.apply`."""

    choices: tuple[ClassChoice, ...]
    budget: float
    declined: tuple[ClassChoice, ...]
    """Merges that cost more than the budget or are impossible; their pieces are merged by finer steps, or not at all."""
    _ladder: Ladder

    @property
    def chosen(self) -> dict[Members, Relation]:
        """The step of each class."""
        return {choice.members: choice.step for choice in self.choices}

    def table(self) -> "pd.DataFrame":
        """One row per class: what merging it saves, and what it costs."""
        rows = [
            {
                "pieces": len(c.members), "step": c.step, "leader": self._ladder.pieces[c.members[0]].label, "bodies saved": c.cost.bodies,
                "ops saved": c.cost.ops, "text bytes saved": c.cost.bytes, "compile s saved": c.cost.compile_seconds,
                "parameters": c.cost.parameters, "slowdown %": 100 * c.cost.slowdown,
                "slowdown is": "measured" if c.cost.measured else "estimated", "gives up": "; ".join(c.cost.lost), "because": c.because,
            }
            for c in self.choices
        ]  # fmt: skip
        return new_table(rows)

    def __repr__(self) -> str:
        lines = list(map(str, self.choices)) or ["no two pieces are worth merging"]
        return "\n".join([*lines, *(f"declined: {choice}" for choice in self.declined)])


def recommend(
    ladder: Ladder, *, budget: float, price: Callable[[Sequence[Piece], Relation], Cost],
    why_not: Callable[[Members, Relation], str] | None,
) -> Recommendation:  # fmt: skip
    """Returns the coarsest step for each class whose slowdown is within the budget. Raises ArgumentError for an invalid budget.

    From the coarsest step down: a class that costs too much, or that cannot have one body (`why_not` says why, where pieces have callers
    that may forbid it), is split into its classes of the next finer step.
    """
    given: object = budget
    if not isinstance(given, int | float) or not given >= 0:
        raise ArgumentError(f"{budget!r} is not a budget of slowdown", hint="budget=0.05 allows a class to run 5 % longer")
    pending = deque((members, _COARSEST) for members in ladder.classes(_COARSEST) if len(members) > 1)
    found: list[ClassChoice] = []
    declined: list[ClassChoice] = []
    while pending:
        members, step = pending.popleft()
        # the finest step with the same class, so that nothing is given up needlessly, and nothing is measured twice
        finer_steps = RELATIONS[RANK["alpha"] : RANK[step]]
        step = next((finer for finer in finer_steps if ladder.class_of(members[0], finer) == members), step)
        cost = price([ladder.pieces[member] for member in members], step)
        saved = f"{plural(cost.bodies, 'body', 'bodies')} and {time_words(1e9 * cost.compile_seconds)} of compiling saved"
        told = cost.price if cost.slowdown or cost.lost or step not in HOLED else f"no slower by estimate; it gives up {GIVES_UP[step]}"
        choice = ClassChoice(members, step, cost, f"{saved}, {told}")
        because = "" if why_not is None else why_not(members, step)
        if not because and cost.slowdown <= budget:
            found.append(choice)
            continue
        over = f"{cost.price}: more than the budget of {100 * budget:.1f} %"
        declined.append(replace(choice, because=because or over))
        if step != "alpha":
            finer = RELATIONS[RANK[step] - 1]
            pending.extend((one, finer) for one in ladder.within(members, finer) if len(one) > 1)
    return Recommendation(tuple(sorted(found, key=lambda choice: -choice.cost.bodies)), budget, tuple(declined), ladder)
