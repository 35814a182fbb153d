"""Sibling fusion: merges groups that read the same value and not each other, so that one kernel reads it once.

Each value is visited once, user by user in program order, and each user is tried with the last few groups before it that
have the same domain. This misses pairs that are further apart, and keeps the pass linear in the number of uses: a value
with a thousand users would otherwise yield half a million pairs. The merge must certainly save bytes, so values of
unknown size join no groups.
"""

from __future__ import annotations

from typing import Final

from irscope.transforms.fusion.legality import Domain
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate

__all__ = ["join_siblings", "why_not_siblings"]


_LAST: Final = 4
"""The number of earlier groups that a user is tried with."""


def join_siblings(plan: BlockPlan) -> None:
    """Merge users of a value that have the same domain and do not read each other."""
    find = plan.partition.find
    for value, readers in plan.readers.items():
        if len(readers) == 1 or not plan.profiles.sizes[value]:
            continue
        latest: dict[Domain, list[int]] = {}
        for reader in dict.fromkeys(map(find, readers)):
            group = plan.group(reader)
            if value in group.inputs:
                before = latest.setdefault(group.domain, [])
                if not any(_joined(plan, other, reader) for other in reversed(before)):
                    latest[group.domain] = [*before[1 - _LAST :], reader]


def why_not_siblings(candidate: Candidate) -> str:
    """Says why `join_siblings` left two groups apart that read the same value of known size and could be one kernel."""
    first, second = candidate.ours.domain, candidate.theirs.domain
    if first is not second:
        alike = "joins such groups only if they go over the same points in the same way"
        return f"{alike}, and these go over {first} and {second}" if str(first) != str(second) else alike
    return f"tries a group only with the last {_LAST} such groups before it"


def _joined(plan: BlockPlan, first: int, second: int) -> bool:
    """Merge the groups of two nodes if they are siblings, and return whether they are in one group now."""
    if plan.partition.find(first) == plan.partition.find(second):
        return True
    candidate = Candidate(plan, first, second)
    return candidate.is_sibling and not plan.shared(second, first) and plan.try_merge(candidate) is None
