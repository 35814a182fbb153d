"""The fusion policies by name, and policies from a user's scoring function.

A policy decides which legal merges happen, and in which order; `BlockPlan` decides what is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from irscope.errors import ArgumentError
from irscope.transforms.fusion.policy.best_first import Score, grow_best_first, score_by_bytes, why_not_neighbours
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate
from irscope.transforms.fusion.policy.greedy import grow_greedily
from irscope.transforms.fusion.policy.siblings import why_not_siblings
from irscope.transforms.fusion.policy.torch_legacy import grow_like_torch

__all__ = ["POLICIES", "Policy", "policy_of"]


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to decide the groups of a block."""

    name: str
    grow: Callable[[BlockPlan], None]
    siblings: Callable[[Candidate], str] | None
    """Says why it leaves two groups apart that read the same, although neither reads from the other and it could join them; None for
    a policy that never joins such groups."""
    score: Score | None = None
    """The function that ranks candidates, if the policy ranks them."""


POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy("greedy", grow_greedily, why_not_siblings),
        Policy("torch-legacy", grow_like_torch, None),
        Policy("min-bytes", partial(grow_best_first, score=score_by_bytes), why_not_neighbours, score=score_by_bytes),
    )
}


def policy_of(choice: str | Score) -> Policy:
    """Returns the policy of a name, or one that ranks candidates by a function.

    >>> policy_of("greedy").score, policy_of(lambda candidate: candidate.bytes_saved).name
    (None, '<lambda>')
    """
    if isinstance(choice, str) and choice in POLICIES:
        return POLICIES[choice]
    if callable(choice):
        name = getattr(choice, "__name__", type(choice).__name__)
        return Policy(name, partial(grow_best_first, score=choice), why_not_neighbours, score=choice)
    names = ", ".join(map(repr, POLICIES))
    raise ArgumentError(
        f"there is no fusion policy {choice!r}",
        hint=f"the policy is {names}, or a function that scores a candidate merge",
    )
