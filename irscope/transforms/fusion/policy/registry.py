"""The fusion policies by name, and what a user's own one is.

A policy decides which legal merges happen, and in which order; `BlockPlan` says what is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from irscope.errors import ArgumentError
from irscope.transforms.fusion.policy.best_first import Score, grow_best_first, score_by_bytes
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.greedy import grow_greedily
from irscope.transforms.fusion.policy.torch_legacy import grow_like_torch

__all__ = ["POLICIES", "Policy", "policy_of"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How the groups of a block are decided."""

    name: str
    grow: Callable[[BlockPlan], None]
    joins_siblings: bool
    """Whether groups may become one of which neither reads the other."""
    score: Score | None = None
    """What candidates are ranked by, if they are."""


POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy("greedy", grow_greedily, joins_siblings=True),
        Policy("torch-legacy", grow_like_torch, joins_siblings=False),
        Policy("min-bytes", partial(grow_best_first, score=score_by_bytes), joins_siblings=True, score=score_by_bytes),
    )
}


def policy_of(choice: str | Score) -> Policy:
    """The policy of a name, or the one that ranks candidates by a function.

    >>> policy_of("greedy").joins_siblings, policy_of(lambda candidate: candidate.bytes_saved).name
    (True, '<lambda>')
    """
    if isinstance(choice, str) and choice in POLICIES:
        return POLICIES[choice]
    if callable(choice):
        name = getattr(choice, "__name__", type(choice).__name__)
        return Policy(name, partial(grow_best_first, score=choice), joins_siblings=True, score=choice)
    names = ", ".join(map(repr, POLICIES))
    raise ArgumentError(
        f"there is no fusion policy {choice!r}",
        hint=f"the policy is {names}, or a function that scores a candidate merge",
    )
