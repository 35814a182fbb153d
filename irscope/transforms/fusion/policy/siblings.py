"""Groups that read the same and do not read each other: as one kernel they read it once.

Each value is gone through once, reader by reader in program order, and each is asked about the last few groups before it
that have the same domain. That misses pairs that are further apart, and keeps the pass linear in the number of readings:
a value that a thousand groups read would otherwise give half a million pairs. Bytes must be saved for sure, so values
of unknown size join nobody.
"""

from __future__ import annotations

from typing import Final

from irscope.transforms.fusion.legality import Domain
from irscope.transforms.fusion.policy.block_plan import BlockPlan
from irscope.transforms.fusion.policy.candidate import Candidate

__all__ = ["join_siblings"]


_LAST: Final = 4
"""How many groups before it a reader is asked about."""


def join_siblings(plan: BlockPlan) -> None:
    """Merge readers of a value that have the same domain and do not read each other."""
    find = plan.partition.find
    for value, readers in plan.readers.items():
        if len(readers) == 1 or not plan.fitness.sizes[value]:
            continue
        latest: dict[Domain, list[int]] = {}
        for reader in dict.fromkeys(map(find, readers)):
            group = plan.group(reader)
            if value in group.inputs:
                before = latest.setdefault(group.domain, [])
                if not any(_are_one(plan, other, reader) for other in reversed(before)):
                    latest[group.domain] = [*before[1 - _LAST :], reader]


def _are_one(plan: BlockPlan, first: int, second: int) -> bool:
    """Whether two nodes are in one group, or are now because their groups were siblings."""
    if plan.partition.find(first) == plan.partition.find(second):
        return True
    candidate = Candidate(plan, first, second)
    return candidate.is_sibling and not plan.shared(second, first) and plan.try_merge(candidate) is None
