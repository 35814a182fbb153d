"""All rules, and the order of their remarks: the largest gain comes first.

Rules look at the original program. Several may apply to the same nodes, specific ones (a copy) and general ones (the gain
of fusing, the distance from the roof): a general rule does not count again what a specific rule has claimed, and a general
remark with little left is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from irscope.ir import Node
from irscope.runtime.profile.advice.evidence import Evidence, Remark
from irscope.runtime.profile.advice.slow_ops import group_remarks, layout_remarks, roof_remarks, waiting_remarks
from irscope.runtime.profile.advice.wasted_work import copy_remarks, dtype_remarks, growing_remarks, repeated_remarks
from irscope.runtime.profile.readings import Readings

Rule = Callable[[Evidence], Iterator[Remark]]

_PARTICULAR: Final[tuple[Rule, ...]] = (copy_remarks, growing_remarks, dtype_remarks, repeated_remarks, layout_remarks, waiting_remarks)
_GENERAL: Final[tuple[Rule, ...]] = (group_remarks, roof_remarks)
_LEAST_SHARE: Final = 0.02
"""The least share of the time whose saving is worth a remark."""


def remarks_of(readings: Readings) -> tuple[Remark, ...]:
    """Returns the remarks, the largest gain first, nodes at their roof last."""
    evidence = Evidence(readings)
    least = _LEAST_SHARE * evidence.total_ns * evidence.scale
    particular = [remark for rule in _PARTICULAR for remark in rule(evidence) if _worth(remark) >= least]
    claimed: dict[Node, float] = {}
    for remark in particular:
        part = remark.gain_ns / remark.now_ns if remark.now_ns else 0.0
        for node in remark.nodes:
            claimed[node] = max(claimed.get(node, 0.0), part)
    kept = list(particular)
    ends = []
    for rule in _GENERAL:
        for remark in rule(evidence):
            if remark.rule == "at-the-roof":
                ends.append(remark)
                continue
            left = _worth(remark) * (1 - _claimed_part(evidence, remark, claimed))
            if left >= least:
                kept.append(remark)
                if remark.is_measured:
                    claimed.update(dict.fromkeys(remark.nodes, 1.0))
    kept.sort(key=lambda remark: -_worth(remark) * _left(evidence, remark, claimed, particular))
    return (*kept, *sorted(ends, key=lambda remark: -remark.now_ns)[:3])


def _worth(remark: Remark) -> float:
    return remark.gain_ns * remark.certainty


def _claimed_part(evidence: Evidence, remark: Remark, claimed: dict[Node, float]) -> float:
    """Returns the part of a remark's time that other remarks have claimed."""
    whole = evidence.sum_ns(remark.nodes)
    return sum(evidence.ns(node) * claimed.get(node, 0.0) for node in remark.nodes) / whole if whole else 0.0


def _left(evidence: Evidence, remark: Remark, claimed: dict[Node, float], particular: list[Remark]) -> float:
    """Returns 1 for a specific rule's remark, and for a general one the part that specific rules have not claimed."""
    if any(remark is each for each in particular):
        return 1.0
    own = {node for each in particular for node in each.nodes}
    return 1.0 - _claimed_part(evidence, remark, {node: part for node, part in claimed.items() if node in own})
