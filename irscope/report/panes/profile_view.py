"""The view model of a profile: slowest nodes, icicle of modules and lines, a run, the roofline, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from irscope._base.loaded_code import loaded_lines
from irscope._base.words import byte_count, listed, time_words
from irscope.report import view_models as vm
from irscope.runtime.profile import place, shares

if TYPE_CHECKING:
    from irscope.runtime.measure import Comparison
    from irscope.runtime.profile import Instruction, NodeRow, Profile, Share

_MOST_NODES: Final = 400
_MOST_SPANS: Final = 3000
_MOST_LANES: Final = 8  # The most threads of a kernel with a lane of their own; more add nothing, as all end together.
_MOST_BOXES: Final = 400
_LEAST_SHARE: Final = 0.002  # The narrowest box drawn in the icicle, as a share of the time.
_AROUND: Final = 1  # Context lines shown before and after each line that takes time.
_MOST_LINES: Final = 60
_MOST_MARKS: Final = 60
_MOST_SELECTED: Final = 200  # The most records that one click selects.


_EVERY_ID: Final = range(1 << 62)


def profile_view(profile: Profile, known: Container[int] = _EVERY_ID) -> vm.ProfileView:
    """The view of a profile, with sources of live code only. Records that are not among `known` ids, those of the program
    shown, get the id 0 and cannot be selected."""
    return vm.ProfileView(
        title=profile.name, verdict=profile.verdict(), warnings=list(profile.warnings), caption=profile.caption(),
        ways=[_way(profile, label, known) for label in profile.ways], groups=_groups(profile), lines=_lines(profile, known),
        helps=[
            vm.HelpView(text=str(remark), selects=[node.id for node in remark.nodes if node.id in known])
            for remark in profile.remarks[:12]
        ],
        bandwidth=_per_ns(1 << 26, profile.speeds.copy_ns(1 << 26)), peak=_per_ns(1e9, profile.speeds.flops_ns(1e9)),
    )  # fmt: skip


def time_sentence(profile: Profile | None, id: int, way: str | None = None) -> str:
    """The time of a node as one line; empty if not measured."""
    row = profile.row_of(id, way) if profile is not None else None
    if row is None:
        return ""
    took = row.self_time
    copy = f", {row.copy_ns / took.median:.0%} of a copy's speed" if took.median and row.copy_ns else ""
    calls = f", {row.calls} calls" if row.calls > 1 else ""
    return (
        f"{time_words(took.median)} ({time_words(took.low)} to {time_words(took.high)}), {row.share:.1%} of the run{copy}{calls}; "
        f"{byte_count(row.cost.bytes)} moved"
    )


def _per_ns(amount: float, ns: float) -> float:
    return amount / ns if ns else 0.0


def _way(profile: Profile, label: str, known: Container[int]) -> vm.TimedWay:
    way, total = profile.ways[label], profile.total(label)
    slowest = sorted(profile.rows(label), key=lambda row: -row.self_time.median)
    steps = way.timeline()
    spans = [span for step in steps[:_MOST_SPANS] for span in _spans(profile, label, step, known)]
    memory = [[_ms(step.host_start + step.host_duration), float(step.live_bytes)] for step in steps[:_MOST_SPANS]]
    return vm.TimedWay(
        label=label, ms=total.median / 1e6, low=total.low / 1e6, high=total.high / 1e6,
        nodes=[_node(row, known) for row in slowest[:_MOST_NODES]], icicle=_icicle(profile, label, known), spans=spans,
        memory=memory, marks=[mark for row in slowest[:_MOST_MARKS] if (mark := _mark(row, known)) is not None],
    )  # fmt: skip


def _spans(profile: Profile, label: str, step: Instruction, known: Container[int]) -> Iterator[vm.TimedSpan]:
    """The spans of an instruction in its lanes; for a GPU, the launch and the work of the stream."""
    node = step.node
    id = node.id if node.id in known else 0
    if profile.device == "cuda":
        yield vm.TimedSpan(id=id, label=node.op, lane="host", start=_ms(step.host_start), duration=_ms(step.host_duration))
        yield vm.TimedSpan(id=id, label=node.op, lane="stream", start=_ms(step.start), duration=_ms(step.duration))
        return
    row = profile.row_of(node.id, label)
    lane = "kernels" if row is not None and row.launches else "host"
    for each in (lane, *(f"thread {number}" for number in range(2, min(step.threads, _MOST_LANES) + 1))):
        yield vm.TimedSpan(id=id, label=node.op, lane=each, start=_ms(step.start), duration=_ms(step.duration))


def _ms(ns: float) -> float:
    """Milliseconds, rounded to nanoseconds: thousands of numbers are a large part of a page."""
    return round(ns / 1e6, 6)


def _node(row: NodeRow, known: Container[int]) -> vm.TimedNode:
    took, where = row.self_time, place(row.node)
    return vm.TimedNode(
        id=row.node.id if row.node.id in known else 0, label=row.name, op=row.node.op,
        line=f"{where.file}:{where.line}" if where is not None else "",
        ms=took.median / 1e6, low=took.low / 1e6, high=took.high / 1e6, share=row.share,
        of_copy=row.copy_ns / took.median if took.median and row.copy_ns else None,
        of_peak=row.flops_ns / took.median if took.median and row.flops_ns else None,
        megabytes=row.cost.bytes / 1e6,
    )  # fmt: skip


def _mark(row: NodeRow, known: Container[int]) -> vm.RoofMark | None:
    cost, took = row.cost, row.self_time.median
    if not (cost.bytes and cost.flops and took):
        return None
    return vm.RoofMark(
        id=row.node.id if row.node.id in known else 0, label=f"{row.name} = {row.node.op.partition('::')[2]}",
        intensity=cost.flops / cost.bytes, gflops=cost.flops / took, share=row.share,
    )  # fmt: skip


# --- modules and lines ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """A module, line or op and its contents."""

    ns: float = 0.0
    nodes: list[int] = field(default_factory=list)
    inside: dict[str, _Part] = field(default_factory=dict)


def _icicle(profile: Profile, label: str, known: Container[int]) -> list[vm.IcicleBox]:
    """The boxes from the whole program down to ops, in program order; each level divides the one above."""
    root = _Part()
    for share in shares(profile, label):
        part = root
        id = next((node.id for node in (share.node, share.row.node) if node.id in known), 0)
        _count(part, share, id)
        for name in _path(share):
            part = part.inside.setdefault(name, _Part())
            _count(part, share, id)
    whole = root.ns or 1.0
    found: list[vm.IcicleBox] = []
    pending = [(profile.name, root, 0, 0.0)]
    while pending:
        name, part, depth, start = pending.pop()
        found.append(vm.IcicleBox(label=name, depth=depth, start=start, share=part.ns / whole, selects=list(dict.fromkeys(part.nodes))))
        for inner_name, inner in part.inside.items():
            if inner.ns / whole >= _LEAST_SHARE:
                pending.append((inner_name, inner, depth + 1, start))
            start += inner.ns / whole
    return sorted(found, key=lambda box: -box["share"])[:_MOST_BOXES]


def _count(part: _Part, share: Share, id: int) -> None:
    part.ns += share.ns
    if id and len(part.nodes) < _MOST_SELECTED:
        part.nodes.append(id)


def _path(share: Share) -> Iterator[str]:
    scope = share.node.scope or share.row.node.scope
    yield from scope.split(".") if scope else ()
    where = share.node.location or place(share.row.node)
    if where is not None:
        yield where.short
    yield share.node.op.partition("::")[2]


def _lines(profile: Profile, known: Container[int]) -> list[vm.HeatLine]:
    """The user's source lines with times, and the lines around them; the most expensive file first."""
    found: dict[tuple[str, int], list[Share]] = {}
    per_file: Counter[str] = Counter()
    live: set[str] = set()
    for share in shares(profile, "op by op"):
        where = share.node.location
        if where is not None:
            found.setdefault((where.file, where.line), []).append(share)
            per_file[where.file] += int(share.ns)
            live |= {where.file} if where.live else set()
    whole = sum(share.ns for each in found.values() for share in each) or 1.0
    made: list[vm.HeatLine] = []
    for file, _ in per_file.most_common(3):
        text = loaded_lines(file) if file in live else []
        timed = {line for name, line in found if name == file}
        around = _AROUND if text else 0  # of a file that is not shown, what runs there
        shown = sorted({near for line in timed for near in range(line - around, line + around + 1) if 0 < near <= max(len(text), line)})
        for line in shown:
            ns = sum(share.ns for share in found.get((file, line), ()))
            ops = dict.fromkeys(share.node.op.partition("::")[2] for share in found.get((file, line), ()) if share.ns)
            told = text[line - 1] if line <= len(text) else "" if text else listed(list(ops))
            made.append(
                vm.HeatLine(
                    file=file, line=line, text=told, ms=ns / 1e6, share=ns / whole,
                    selects=[
                        id for id in dict.fromkeys(share.row.node.id for share in found.get((file, line), ())) if id in known
                    ],
                )
            )  # fmt: skip
    return made[:_MOST_LINES]


def _groups(profile: Profile) -> list[vm.TimedGroup]:
    made = [
        vm.TimedGroup(
            id=row.node.id, label=row.name, before=before.median / 1e6, after=row.self_time.median / 1e6,
            verdict=row.self_time.against(before),
        )
        for row in profile.group_rows for before in [profile.group_before(row.node)]
    ]  # fmt: skip
    return sorted(made, key=lambda group: -group["before"])[:40]


# The cost of every box and line, for colours: share of the time, bytes moved, bytes live, and distance from the roofline.
#
# A box includes its contents: times and bytes are summed, live bytes take the maximum. No clock sees single ops inside a kernel:
# their times are the kernel's time divided as in the run op by op, and are not added to the boxes around the kernel.


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

    def put(self, view: vm.ProfileView, files: Container[str], *, whole: bool) -> vm.ProfileView:
        """Add the heat to a profile's view; the heat of all boxes only for a page that holds the whole program."""
        heats = self.of(row.node.id for row in self._profile.rows(self._way)).values()
        view["most"] = [*(max((values[k] for values in heats), default=0.0) for k in range(3)), 1.0]
        view["source_heat"] = {file: lines for file, lines in self.of_sources().items() if file in files}
        view["heat"] = self.of(self._by_id) if whole else {}
        return view


def _of_row(row: NodeRow) -> _Taken:
    return _Taken(row.self_time.median, row.cost.bytes, row.cost.live_bytes, row.roof_ns)


# Measurements as bars.


def timing_view(comparison: Comparison) -> vm.TimingView:
    """One bar per competitor, in milliseconds."""
    bars = [
        vm.Measured(
            label=row.label, median=row.median, low=row.low, high=row.high, compile=row.compile, kernels=row.kernels,
            error=f"{comparison.error_words(row)} {row.wrong}".rstrip(), note=row.note,
        )
        for row in comparison.rows
    ]  # fmt: skip
    return vm.TimingView(bars=bars, caption=comparison.caption, warnings=list(comparison.warnings))
