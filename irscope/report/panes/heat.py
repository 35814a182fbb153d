"""The cost of every box and line, for colours: share of the time, bytes moved, bytes live, and distance from the roofline.

A box includes its contents: times and bytes are summed, live bytes take the maximum. No clock sees single ops inside a kernel:
their times are the kernel's time divided as in the run op by op, and are not added to the boxes around the kernel.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from irscope.report.view_models import ProfileView
from irscope.runtime.profile import shares

if TYPE_CHECKING:
    from irscope.runtime.profile import NodeRow, Profile

__all__ = ["Heat"]


@dataclass(slots=True)
class _Taken:
    ns: float = 0.0
    bytes: float = 0.0
    alive: float = 0.0
    roof_ns: float = 0.0

    def add(self, other: _Taken) -> None:
        self.ns += other.ns
        self.bytes += other.bytes
        self.alive = max(self.alive, other.alive)
        self.roof_ns += other.roof_ns

    def as_list(self, whole: float) -> list[float]:
        roof = min(1.0, self.roof_ns / self.ns) if self.ns and self.roof_ns else -1.0
        return [round(self.ns / whole, 6), self.bytes, self.alive, round(roof, 4)]


class Heat:
    """The heat of the boxes of one picture by one profile. `boxes` are pairs (box id, parent id), parents first."""

    def __init__(self, profile: Profile, boxes: Iterable[tuple[int, int]], way: str | None = None) -> None:
        self._profile = profile
        self._boxes = boxes
        self._way = profile.label(way)

    @cached_property
    def _whole(self) -> float:
        return sum(row.self_time.median for row in self._profile.rows(self._way)) or 1.0

    @cached_property
    def _by_id(self) -> dict[int, _Taken]:
        """The costs of nodes and of the boxes around them, by id."""
        taken: dict[int, _Taken] = {}
        inside: set[int] = set()
        for share in shares(self._profile, self._way):
            row = share.row
            if row.node.id not in taken:
                taken[row.node.id] = _of_row(row)
            if share.is_estimated and share.node.id != row.node.id:
                taken[share.node.id] = _Taken(share.ns, self._profile.cost(share.node).bytes)
                inside.add(share.node.id)
        for id, around in reversed(list(self._boxes)):
            if around and id in taken and id not in inside:
                taken.setdefault(around, _Taken()).add(taken[id])
        return taken

    def of(self, ids: Iterable[int]) -> dict[int, list[float]]:
        """The heat of some boxes and nodes, without those that cost nothing."""
        return {id: self._by_id[id].as_list(self._whole) for id in ids if id in self._by_id}

    def all(self) -> dict[int, list[float]]:
        """The heat of everything."""
        return self.of(self._by_id)

    def of_sources(self) -> dict[str, dict[int, list[float]]]:
        """The heat of each source line, by file name."""
        found: dict[str, dict[int, _Taken]] = {}
        for share in shares(self._profile, self._way):
            where = share.node.location
            if where is not None:
                row = _of_row(share.row)
                part = _Taken(share.ns, row.bytes * share.part, row.alive, row.roof_ns * share.part)
                found.setdefault(where.file, {}).setdefault(where.line, _Taken()).add(part)
        return {file: {line: taken.as_list(self._whole) for line, taken in lines.items()} for file, lines in found.items()}

    def most(self) -> list[float]:
        """The largest time, bytes, and bytes alive of one node, and 1."""
        heats = self.of(row.node.id for row in self._profile.rows(self._way)).values()
        return [*(max((values[k] for values in heats), default=0.0) for k in range(3)), 1.0]

    def put(self, view: ProfileView, files: Container[str], *, whole: bool) -> ProfileView:
        """Add the heat to a profile's view; the heat of all boxes only for a page that holds the whole program."""
        view["most"] = self.most()
        view["source_heat"] = {file: lines for file, lines in self.of_sources().items() if file in files}
        view["heat"] = self.all() if whole else {}
        return view


def _of_row(row: NodeRow) -> _Taken:
    return _Taken(row.self_time.median, row.cost.bytes, row.cost.live_bytes, row.roof_ns)
