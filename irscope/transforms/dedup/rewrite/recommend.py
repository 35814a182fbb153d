"""Which step is worth its price, for each class: the coarsest one whose slowdown is within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from irscope.errors import UnknownName, loading
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.rewrite.cost import Cost, cost_of
from irscope.transforms.dedup.rewrite.parameters import class_holes
from irscope.transforms.dedup.steps import RANK, RELATIONS, Relation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassChoice", "Recommendation", "recommended"]

_COARSEST: Final[Relation] = "free"
"""From `layout` on two pieces have no kernel in common."""


@dataclass(frozen=True)
class ClassChoice:
    """What to do with one class."""

    members: Members
    """The leader first."""
    step: Relation
    cost: Cost
    because: str

    def __str__(self) -> str:
        return f"{len(self.members)} pieces by {self.step!r}: {self.because}"


@dataclass(frozen=True)
class Recommendation:
    """For each class of more than one piece the step at which to merge it; `Dedup.apply` takes it."""

    choices: tuple[ClassChoice, ...]
    budget: float
    _ladder: Ladder
    _seconds: Mapping[Any, float]

    @property
    def chosen(self) -> dict[Members, Relation]:
        """The step of each class."""
        return {choice.members: choice.step for choice in self.choices}

    def table(self) -> pd.DataFrame:
        """One row per class: what merging it saves, and what it costs."""
        with loading("pandas"):
            import pandas as pd

        rows = [
            {
                "pieces": len(c.members), "step": c.step, "leader": self._ladder.pieces[c.members[0]].label, "bodies saved": c.cost.bodies,
                "ops saved": c.cost.ops, "text bytes saved": c.cost.bytes, "compile s saved": c.cost.compile_seconds,
                "parameters": c.cost.parameters, "slowdown %": 100 * c.cost.slowdown, "gives up": "; ".join(c.cost.lost),
                "because": c.because,
            }
            for c in self.choices
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def overrule(self, piece: Any, step: Relation) -> Recommendation:
        """The same with another step for the class that a piece is in: its members at that step are merged. Raises UnknownName
        for a piece or a step that there is not."""
        if step not in RELATIONS:
            raise UnknownName(f"there is no step {step!r}", hint=f"choose one of {', '.join(RELATIONS)}")
        if piece not in self._ladder.pieces:
            raise UnknownName(f"there is no piece {piece!r}", hint="the members of the classes are the pieces")
        wanted = next(members for members in self._ladder.classes(step) if piece in members)
        before = next((choice.members for choice in self.choices if piece in choice.members), ())
        kept = [choice for choice in self.choices if not set(choice.members) & set(wanted) and choice.members != before]
        made = [_choice(self._ladder, wanted, step, self._seconds, "you said so")] if len(wanted) > 1 else []
        return replace(self, choices=(*kept, *made))

    def __repr__(self) -> str:
        return "\n".join(map(str, self.choices)) or "no two pieces are worth merging"


def recommended(ladder: Ladder, *, budget: float, seconds: Mapping[Any, float], is_module: bool) -> Recommendation:
    """The coarsest step for each class whose slowdown is within the budget.

    From the coarsest step down: a class that costs too much is cut into its classes of the next finer step.
    """
    coarsest: Relation = "constants" if is_module else _COARSEST
    pending = [(members, coarsest) for members in ladder.classes(coarsest) if len(members) > 1]
    found: list[ClassChoice] = []
    while pending:
        members, step = pending.pop(0)
        choice = _choice(ladder, members, step, seconds, "")
        if choice.cost.slowdown <= budget:
            found.append(_finest(ladder, choice, seconds))
        elif step != "alpha":
            finer = RELATIONS[RANK[step] - 1]
            inside = set(members)
            pending.extend((one, finer) for one in ladder.classes(finer) if len(one) > 1 and inside.issuperset(one))
    return Recommendation(tuple(sorted(found, key=lambda choice: -choice.cost.bodies)), budget, ladder, seconds)


def _finest(ladder: Ladder, choice: ClassChoice, seconds: Mapping[Any, float]) -> ClassChoice:
    """The same class at the finest step that has it: nothing is given up for nothing."""
    for step in RELATIONS[RANK["alpha"] : RANK[choice.step]]:
        if any(members == choice.members for members in ladder.classes(step)):
            return _choice(ladder, choice.members, step, seconds, "")
    return choice


def _choice(
    ladder: Ladder, members: Members, step: Relation, seconds: Mapping[Any, float], because: str
) -> ClassChoice:
    cost = cost_of(class_holes([ladder.pieces[member] for member in members], step), seconds)
    if not because:
        price = f"at most {100 * cost.slowdown:.1f} % slower" if cost.slowdown else "nothing is lost"
        because = f"{cost.bodies} bodies and {1e3 * cost.compile_seconds:.0f} ms of compiling saved, {price}"
    return ClassChoice(members, step, cost, because)
