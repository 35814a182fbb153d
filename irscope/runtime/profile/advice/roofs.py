"""The distance of each slow op from its memory and arithmetic limits: the rule for ops that no other rule covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope._base.words import byte_count
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.runtime.profile.rows import NodeRow
from irscope.runtime.timer import time_words

__all__ = ["roof_remarks"]

_LEAST_SHARE: Final = 0.05
_AT_THE_ROOF: Final = 0.7
_CERTAINTY: Final = {
    "matmul": 0.05, "convolution": 0.05, "pointwise": 0.5, "reduction": 0.5, "normalization": 0.4, "view": 0.6, "memory": 0.6,
}  # fmt: skip
"""The chance to improve an op that is far from its roof: low for a library's matrix product."""
_OF_A_FUNCTION: Final = 0.2
"""The factor for pointwise functions: the peak is of multiplications and additions in parallel, while `tanh` and `exp` are
steps that depend on each other, and no layout helps."""


def roof_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on the distance of each slow op from its roof; none where irscope's interpreter is what takes the time."""
    if evidence.scale < 1.0:
        return
    for row in sorted(evidence.rows, key=lambda each: -each.self_time.median)[:20]:
        if row.share >= _LEAST_SHARE and row.launches:
            yield _remark(evidence, row)


def _remark(evidence: Evidence, row: NodeRow) -> Remark:
    took, roof = row.self_time.median, row.roof_ns
    name = row.node.op.partition("::")[2]
    part = roof / took if took else 0.0
    bound = "arithmetic" if row.flops_ns > row.copy_ns else "memory"
    if part >= _AT_THE_ROOF:
        what = "of the arithmetic peak" if bound == "arithmetic" else "of a copy's speed"
        because = f"{name} runs at {min(part, 1.0):.0%} {what}: nothing to gain except by computing less"
        return evidence.remark("at-the-roof", [row.node], 0.0, because, "", certainty=0.0)
    each = took / max(row.calls, 1)
    if each < 4 * evidence.call_ns:
        because = f"{name} is so small that the call takes most of its {time_words(each)}"
        return evidence.remark("small", [row.node], took - roof, because, "do more in one op", certainty=0.1)
    known = "" if row.cost.is_counted else ", though its arithmetic is unknown"
    least = (
        f"moving {byte_count(row.cost.bytes)} takes {time_words(row.copy_ns)}"
        if row.copy_ns
        else "it moves almost nothing"
    )
    if bound == "arithmetic":
        least = f"its {row.cost.flops / 1e6:.3g} MFLOP take {time_words(row.flops_ns)} at the machine's peak"
    certainty = _CERTAINTY.get(row.category, 0.35) * (1.0 if row.cost.is_counted else 0.7)
    if bound == "arithmetic" and row.category == "pointwise":
        certainty *= _OF_A_FUNCTION
    return evidence.remark(
        "below-the-roof", [row.node], took - max(roof, evidence.call_ns) / _AT_THE_ROOF,
        f"{name} runs at {part:.0%} of what {bound} allows: {least}{known}",
        "another layout or another op may be faster", certainty=certainty,
    )  # fmt: skip
