"""Recommends a step for each class: the coarsest one whose slowdown is within a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from irscope._base.words import plural
from irscope.errors import ArgumentError, UnknownName, loading
from irscope.ir import Graph, Node
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.rewrite.cost import Cost, Measures, cost_of
from irscope.transforms.dedup.rewrite.groups import merge_groups
from irscope.transforms.dedup.rewrite.parameters import class_holes
from irscope.transforms.dedup.steps import RANK, RELATIONS, Relation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassChoice", "Price", "Recommendation", "recommended"]

_COARSEST: Final[Relation] = "free"
"""The coarsest step considered: from `layout` on two pieces cannot share a kernel."""


@dataclass(frozen=True)
class ClassChoice:
    """The recommended step for one class, with its cost."""

    members: Members
    """The members, the leader first."""
    step: Relation
    cost: Cost
    because: str

    def __str__(self) -> str:
        return f"{plural(len(self.members), 'piece')} by {self.step!r}: {self.because}"


@dataclass(frozen=True)
class Price:
    """The means to determine the cost of a step."""

    seconds: Mapping[Any, float]
    """The measured compile times of pieces."""
    graph: Graph | None = None
    """The graph in which groups are merged for measurements; with None, slowdowns are estimated."""
    runs: Measures | None = None

    def of(self, pieces: Sequence[Piece], step: Relation) -> Cost:
        """The cost of one body for pieces."""
        cost = cost_of(class_holes(pieces, step), self.seconds)
        groups = [piece.member for piece in pieces if isinstance(piece.member, Node)]
        if self.graph is None or self.runs is None or not groups or not cost.slowdown:
            return cost  # pieces that lose nothing have the same kernel
        after = merge_groups(self.graph, chosen={tuple(groups): step}).after
        slowdown = self.runs.slowdown(after, groups)
        return cost if slowdown is None else replace(cost, slowdown=slowdown, measured=True)


@dataclass(frozen=True)
class Recommendation:
    """The step at which to merge each class of more than one piece, for `Dedup.apply`."""

    choices: tuple[ClassChoice, ...]
    budget: float
    declined: tuple[ClassChoice, ...]
    """Merges that cost more than the budget or are impossible; their pieces are merged by finer steps, or not at all."""
    _ladder: Ladder
    _price: Price
    _named: Callable[[Any], Node | str]
    """Returns the piece for a name or a value."""

    @property
    def chosen(self) -> dict[Members, Relation]:
        """The step of each class."""
        return {choice.members: choice.step for choice in self.choices}

    def table(self) -> pd.DataFrame:
        """One row per class: what merging it saves, and what it costs."""
        with loading("pandas"):
            from irscope._base.tables import Table

        rows = [
            {
                "pieces": len(c.members), "step": c.step, "leader": self._ladder.pieces[c.members[0]].label, "bodies saved": c.cost.bodies,
                "ops saved": c.cost.ops, "text bytes saved": c.cost.bytes, "compile s saved": c.cost.compile_seconds,
                "parameters": c.cost.parameters, "slowdown %": 100 * c.cost.slowdown,
                "slowdown is": "measured" if c.cost.measured else "estimated", "gives up": "; ".join(c.cost.lost), "because": c.because,
            }
            for c in self.choices
        ]  # fmt: skip
        return Table(rows)

    def overrule(self, piece: Any, step: Relation) -> Recommendation:
        """The recommendation with another step for a piece: the members of its class at that step are merged. Raises UnknownName
        for an unknown piece or step.

        A piece is named as for `Dedup.difference`; by step `text` it keeps a body of its own.
        """
        if step not in RELATIONS:
            raise UnknownName(f"there is no step {step!r}", hint=f"choose one of {', '.join(RELATIONS)}")
        piece = self._named(piece)
        wanted = next(members for members in self._ladder.classes(step) if piece in members)
        before = next((choice.members for choice in self.choices if piece in choice.members), ())
        kept = [choice for choice in self.choices if not set(choice.members) & set(wanted) and choice.members != before]
        made = [_choice(self._ladder, wanted, step, self._price, "you said so")] if len(wanted) > 1 else []
        return replace(self, choices=(*kept, *made))

    def __repr__(self) -> str:
        lines = list(map(str, self.choices)) or ["no two pieces are worth merging"]
        return "\n".join([*lines, *(f"declined: {choice}" for choice in self.declined)])


def recommended(
    ladder: Ladder, *, budget: float, price: Price, why_not: Callable[[Members, Relation], str],
    named: Callable[[Any], Node | str],
) -> Recommendation:
    """Returns the coarsest step for each class whose slowdown is within the budget. Raises ArgumentError for an invalid budget.

    From the coarsest step down: a class that costs too much, or that cannot have one body (according to `why_not`), is split into
    its classes of the next finer step.
    """
    given: object = budget
    if not isinstance(given, int | float) or not given >= 0:
        raise ArgumentError(f"{budget!r} is not a budget of slowdown", hint="budget=0.05 allows a class to run 5 % longer")
    pending = deque((members, _COARSEST) for members in ladder.classes(_COARSEST) if len(members) > 1)
    found: list[ClassChoice] = []
    declined: list[ClassChoice] = []
    while pending:
        members, step = pending.popleft()
        step = _finest(ladder, members, step)
        choice = _choice(ladder, members, step, price, "")
        because = why_not(members, step)
        if not because and choice.cost.slowdown <= budget:
            found.append(choice)
            continue
        over = f"{choice.cost.price}: more than the budget of {100 * budget:.1f} %"
        declined.append(replace(choice, because=because or over))
        if step != "alpha":
            finer = RELATIONS[RANK[step] - 1]
            pending.extend((one, finer) for one in ladder.within(members, finer) if len(one) > 1)
    return Recommendation(
        tuple(sorted(found, key=lambda choice: -choice.cost.bodies)), budget, tuple(declined), ladder, price, named
    )


def _finest(ladder: Ladder, members: Members, step: Relation) -> Relation:
    """The finest step with the same class, so that nothing is given up needlessly, and nothing is measured twice."""
    finer = (finer for finer in RELATIONS[RANK["alpha"] : RANK[step]] if ladder.class_of(members[0], finer) == members)
    return next(finer, step)


def _choice(
    ladder: Ladder, members: Members, step: Relation, price: Price, because: str
) -> ClassChoice:
    cost = price.of([ladder.pieces[member] for member in members], step)
    if not because:
        because = f"{plural(cost.bodies, 'body', 'bodies')} and {1e3 * cost.compile_seconds:.0f} ms of compiling saved, {cost.price}"
    return ClassChoice(members, step, cost, because)
