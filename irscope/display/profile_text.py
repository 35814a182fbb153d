"""A profile on one terminal screen: the time, where it goes, what fuses, what does not and why, and advice."""

from __future__ import annotations

from irscope._base.escaping import one_line
from irscope.errors import IrscopeError
from irscope.ir import GROUPS, Node
from irscope.report.words import duration
from irscope.runtime.profile import Profile
from irscope.transforms.fusion import Fusion

__all__ = ["profile_text"]

_WIDEST = 150
_MOST = 6


def profile_text(profile: Profile) -> str:
    """The profile as text; tables have at most `_MOST` rows."""
    lines = [repr(profile)]
    lines += _fused(profile)
    lines += _apart(profile)
    return "\n".join(lines)


def _fused(profile: Profile) -> list[str]:
    if "fused" not in profile.ways:
        return ["what fuses: nothing"]
    table = profile.table("group").sort_values("before ms", ascending=False)
    lines = [f"what fuses: {len(table)} group{'s' * (len(table) != 1)}"]
    for _, row in table.head(_MOST).iterrows():
        times = f"{duration(row['before ms'])} → {duration(row['after ms'])}"
        moved = f"{row['MB before']:.3g} → {row['MB after']:.3g} MB"
        lines.append(f"  {row['node']:24} {row['ops']:3} ops  {times:22} {moved:22} {row['verdict']}")
    return [*lines, *([f"  … and {len(table) - _MOST} more"] if len(table) > _MOST else [])]


def _apart(profile: Profile) -> list[str]:
    """The slowest ops outside kernels, each with the reason."""
    fusion = profile.measured.fusion
    if fusion is None:
        return []
    alone = [row for row in profile.rows() if row.node.op not in GROUPS and row.launches and not row.node.blocks]
    alone.sort(key=lambda row: -row.self_time.median)
    lines = [f"what does not fuse: {len(alone)} op{'s' * (len(alone) != 1)} with kernels of the library"] if alone else []
    for row in alone[:_MOST]:
        told = one_line(f"  {row.name} = {row.node.op}, {row.share:.0%}: {_why(fusion, row.node)}")
        lines.append(told if len(told) <= _WIDEST else f"{told[: _WIDEST - 1]}…")
    return [*lines, *([f"  … and {len(alone) - _MOST} more"] if len(alone) > _MOST else [])]


def _why(fusion: Fusion, node: Node) -> str:
    try:
        return fusion.why_alone(node).because
    except IrscopeError:  # created by the fusion's cleanups
        return "it was made after the groups"
