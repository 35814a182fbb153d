"""The profile of a program, node by node, with its tables and remarks, and as a file for other viewers: a trace for Chrome and
Perfetto, and a profile for speedscope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from irscope._base.results import Drawn
from irscope._base.words import byte_count, plural, time_words
from irscope.errors import ArgumentError, new_table, public
from irscope.files import write_file
from irscope.ir import Node
from irscope.runtime.profile.evidence import Evidence, Remark, Remarks
from irscope.runtime.profile.measuring import unsure
from irscope.runtime.profile.readings import BY, By, Readings, enclosing_modules, group_table, node_table, place, summed_table
from irscope.runtime.profile.slow_ops import group_remarks, layout_remarks, roof_remarks, waiting_remarks
from irscope.runtime.profile.wasted_work import copy_remarks, dtype_remarks, growing_remarks, repeated_remarks

if TYPE_CHECKING:
    import pandas as pd

    from irscope.runtime.profile.differences import ProfileDifference, Trial


class Profile(Readings, Drawn):
    """The time, traffic and memory of a program by node; `irs.profile` returns it.

    `p.table(by="line")` sums, `p.top(10)` has the slowest nodes, `p.remarks` suggests improvements, `p.try_(remark)` tries one,
    `p.diff(q)` compares two, `p.save("x.json")` writes a trace. Times are medians over runs, with their quartiles, less
    what a time stamp costs by itself.
    """

    # -- tables -------------------------------------------------------------------------------------------------------

    @public
    def table(self, by: By = "node", *, way: str | None = None) -> pd.DataFrame:
        """Returns a tidy table of one way (`"op by op"` or `"fused"`), a row for each node, fusion group, op, module, line or class.

        Raises ArgumentError for another `by`, or for a way that was not run.
        """
        if by not in BY:
            raise ArgumentError(f"there is no table by {by!r}", hint=f"the tables are by {', '.join(BY)}")
        label = self.label(way)
        if by == "node":
            return node_table(self, label)
        return group_table(self) if by == "group" else summed_table(self, label, by)

    def top(self, count: int = 10, *, way: str | None = None) -> pd.DataFrame:
        """Returns the slowest nodes; `.attrs["order"]` says whether their order is sure."""
        if not hasattr(count, "__index__") or getattr(count, "shape", ()) != () or count < 0:
            raise ArgumentError(f"{count!r} is not a number of nodes", hint="p.top(10) has the ten slowest")
        table = self.table("node", way=way).sort_values("ms", ascending=False, kind="stable").head(count)
        table.attrs["order"] = self.order(way)
        return table

    def order(self, way: str | None = None) -> str:
        """Says in a sentence whether the order of the ten slowest nodes is sure."""
        measured = self.way(way)
        doubtful = unsure(measured.busy)
        shown = min(10, len(measured.nodes))
        if shown < 2:
            return f"one node took the time, in {plural(measured.runs, 'run')}"
        if not doubtful:
            return f"the order of the {plural(shown, 'slowest node')} is sure, after {plural(measured.runs, 'run')}"
        rows = self.rows(way)
        names_text = ", ".join(rows[index].name for index in doubtful[:3])
        more = f" and {len(doubtful) - 3} more" if len(doubtful) > 3 else ""
        return f"the order is not sure after {plural(measured.runs, 'run')}: {names_text}{more} may come after the next; measure longer"

    @property
    def parts(self) -> pd.DataFrame:
        """The parts of each way's time, in ms: compiling, the first call, warming up, a call; within the call its entry, nodes,
        gaps and end; and what a time stamp costs by itself."""
        cells = {}
        for label, way in self.ways.items():
            nodes = sum(row.self_time.median for row in self.rows(label))
            cells[label] = {
                "compile ms": way.plain.compile_seconds * 1e3, "first call ms": way.first_ns / 1e6,
                "warm-up ms": way.warm_ns / 1e6, "call ms": way.total.median / 1e6, "low ms": way.total.low / 1e6,
                "high ms": way.total.high / 1e6, "entry ms": way.entry.median / 1e6, "nodes ms": nodes / 1e6,
                "idle ms": float(np.median(way.idle.sum(axis=1))) / 1e6, "end ms": way.leave.median / 1e6,
                "parts of call": way.parts_of_call,
                "measuring µs a node": way.watch.cost / 1e3, "runs": way.runs, "peak MB": way.counter.peak_bytes / 1e6,
            }  # fmt: skip
        return new_table(cells).T.rename_axis(self.name)

    # -- what would help ----------------------------------------------------------------------------------------------

    @cached_property
    def remarks(self) -> Remarks:
        """Possible improvements, the largest gain first: each with a number, the evidence and its line."""
        return Remarks(_remarks_of(self))

    @public
    def try_(self, remark: Remark | int, *, seconds: float = 1.0) -> Trial:
        """Applies a remark (or the one of this number) to the program and measures both in turn. Raises ArgumentError for one
        that only the author of the source can follow."""
        from irscope.runtime.profile.differences import try_remark

        if not isinstance(remark, Remark):
            if not hasattr(remark, "__index__"):
                raise ArgumentError(f"{remark!r} is not a remark", hint="p.try_(0) tries the first of p.remarks")
            if not 0 <= remark < len(self.remarks):
                raise ArgumentError(f"there is no remark {remark}", hint=f"there are {len(self.remarks)}, from 0")
            remark = self.remarks[remark]
        return try_remark(self, remark, seconds)

    @public
    def diff(self, other: Profile, *, way: str | None = None) -> ProfileDifference:
        """Returns the classes of nodes that are slower or faster in another profile: of another version, machine or policy."""
        from irscope.runtime.profile.differences import compare_profiles

        return compare_profiles(self, other, way)

    # -- for other tools ----------------------------------------------------------------------------------------------

    @public
    def save(self, path: str | Path) -> Path:
        """Writes a trace that Chrome and Perfetto open: a run of each way, with its lanes and its memory."""
        return write_file(path, json.dumps(chrome_trace(self)))

    def to_speedscope(self, path: str | Path | None = None) -> dict[str, Any]:
        """Returns a run of each way in speedscope's format: modules and lines as the stack; writes it to a file if one is named."""
        made = speedscope(self)
        if path is not None:
            write_file(path, json.dumps(made))
        return made

    # -- words --------------------------------------------------------------------------------------------------------

    def caption(self) -> str:
        """Returns the machine and the settings of the measurement."""
        here = self.environment
        costs = max((way.watch.cost for way in self.ways.values()), default=0.0)
        runs = ", ".join(f"{plural(way.runs, 'run')} {label}" for label, way in self.ways.items())
        sums = ", ".join(f"{way.parts_of_call:.2f} {label}" for label, way in self.ways.items())
        ends = {label: way.entry.median + way.leave.median for label, way in self.ways.items()}
        around = ""
        if any(ends[label] > _MUCH_AROUND * way.total.median for label, way in self.ways.items()):
            told = " and ".join(f"{time_words(ns)} {label}" for label, ns in ends.items())
            around = f", with {told} before the first node and after the last"
        peak = ", ".join(f"{byte_count(way.counter.peak_bytes)} {label}" for label, way in self.ways.items())
        threads = ""
        if self.device == "cpu" and int(here["threads"]) > 1:
            most = max((step.threads for way in self.ways.values() for step in way.timeline()), default=1)
            ours = f"Kernels run on up to {plural(most, 'thread')}" if most > 1 else "Kernels run on one thread"
            threads = f"{ours}; how the library splits its own ops is unknown. "
        stopped = "Interrupted: fewer runs than wanted. " if self.is_interrupted else ""
        return (
            f"{stopped}{here['cpu']}, {plural(int(here['threads']), 'thread')}, {here['allocator']}. Medians and quartiles of {runs}; "
            f"peak of memory {peak}. A time stamp by itself takes {costs:.0f} ns, which is taken off each node: "
            f"the parts sum to {sums} of a call{around}. {threads}{self.order()[0].upper()}{self.order()[1:]}."
        )

    def __repr__(self) -> str:
        lines = [*self.warnings, f"{self.name} on {self.device}: {self.verdict()}"]
        rows = sorted(self.rows(), key=lambda row: -row.self_time.median)[:10]
        lines.append(f"{'':2}{'median':>10}{'quartiles':>22}{'share':>8}{'of copy':>9}{'of peak':>9}  {self.main}")
        for row in rows:
            took = row.self_time
            copy = f"{row.copy_ns / took.median:.0%}" if took.median and row.copy_ns else ""
            peak = f"{row.flops_ns / took.median:.0%}" if took.median and row.flops_ns else ""
            where = place(row.node)
            text = f"{row.name} = {row.node.op}" + (f"  {where.short}" if where else "")
            spread = f"{time_words(took.low)} – {time_words(took.high)}"
            lines.append(f"{'':2}{time_words(took.median):>10}{spread:>22}{row.share:>8.1%}{copy:>9}{peak:>9}  {text}")
        lines += ["what would help"] if self.remarks else []
        lines += [f"  {number}. {remark}" for number, remark in enumerate(self.remarks[:5])]
        return "\n".join([*lines, self.caption()])

    def verdict(self) -> str:
        """Returns the first answer: the time of a call, and the effect of fusing."""
        before, own = self.total("op by op"), self.measured.own
        plain = "op by op" if self.measured.is_torch else "op by op in irscope"
        words = [] if own is None else [f"{time_words(own[1].median)} a call in {own[0]}"]
        if own is None or len(self.ways) == 1:
            words.append(f"{time_words(before.median)} a call {plain}")
        if len(self.ways) > 1:
            after, (name, other) = self.total("fused"), own or ("op by op", before)
            ratio = after.ratio_words(other, name)
            words.append(f"{time_words(after.median)} fused ({ratio})")
        return ", ".join(words)


# Rules look at the original program. Several may apply to the same nodes, specific ones (a copy) and general ones (the gain of
# fusing, the distance from the roof): a general rule does not count again what a specific rule has claimed, and a general remark
# with little left is dropped.

_Rules = tuple[Callable[[Evidence], Iterator[Remark]], ...]
_PARTICULAR: Final[_Rules] = (copy_remarks, growing_remarks, dtype_remarks, repeated_remarks, layout_remarks, waiting_remarks)
_GENERAL: Final[_Rules] = (group_remarks, roof_remarks)
_MUCH_AROUND: Final = 0.2
"""The part of a call around its nodes, such as arrays of JAX that are passed on, from which on it is told."""
_LEAST_SHARE: Final = 0.02
"""The least share of the time whose saving is worth a remark."""


def _remarks_of(readings: Readings) -> tuple[Remark, ...]:
    """Returns the remarks, the largest gain first, nodes at their roof last."""
    evidence = Evidence(readings)
    least = _LEAST_SHARE * evidence.total_ns * evidence.scale
    particular = [remark for rule in _PARTICULAR for remark in rule(evidence) if remark.worth_ns >= least]
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
            left = remark.worth_ns * (1 - _claimed_part(evidence, remark, claimed))
            if left >= least:
                kept.append(remark)
                if remark.is_measured:
                    claimed.update(dict.fromkeys(remark.nodes, 1.0))
    own = {node for each in particular for node in each.nodes}
    by_particular = {node: part for node, part in claimed.items() if node in own}
    left_of = {id(remark): 1.0 - _claimed_part(evidence, remark, by_particular) for remark in kept[len(particular) :]}
    kept.sort(key=lambda remark: -remark.worth_ns * left_of.get(id(remark), 1.0))
    takes = [{node for node in each.nodes if evidence.ns(node) and each.rule != "waits-for-python"} for each in kept]  # which is idle time
    told = [replace(remark, beside=tuple(k for k in range(place) if takes[k] & takes[place])) for place, remark in enumerate(kept)]
    ends = [remark for remark in ends if not any(remark.node in nodes for nodes in takes)]  # of which something can be gained
    return (*told, *sorted(ends, key=lambda remark: -remark.now_ns)[:3])


def _claimed_part(evidence: Evidence, remark: Remark, claimed: dict[Node, float]) -> float:
    """Returns the part of a remark's time that other remarks have claimed."""
    whole = evidence.sum_ns(remark.nodes)
    return sum(evidence.ns(node) * claimed.get(node, 0.0) for node in remark.nodes) / whole if whole else 0.0


# A run of each way as a trace that Chrome and Perfetto open.
#
# There is one process per way; its lanes are the host, the GPU's stream if there is one or else the further threads of our
# kernels (those of library ops are unknown), and a counter of the bytes alive.
# Times are microseconds, as the format requires. (Trace Event Format, "complete" events `X`, counters `C`, metadata `M`.)

_HOST: Final = 1
_STREAM: Final = 2
_THREADS: Final = 10
"""The second thread of a kernel has lane 12, and so on."""


def chrome_trace(readings: Readings) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    for process, (label, way) in enumerate(readings.ways.items(), 1):
        is_gpu = readings.device == "cuda"
        names = {row.node.id: row for row in readings.rows(label)}
        steps = way.timeline()
        most = max((step.threads for step in steps), default=1)
        titles = {_HOST: "host"} | ({_STREAM: "stream"} if is_gpu else {})
        titles |= {_THREADS + thread: f"thread {thread} of kernels" for thread in range(2, most + 1)}
        about = {"ph": "M", "pid": process, "ts": 0.0}
        events.append(about | {"name": "process_name", "tid": 0, "args": {"name": f"{readings.name}, {label}"}})
        events += [about | {"name": "thread_name", "tid": lane, "args": {"name": title}} for lane, title in titles.items()]
        end = max((step.start + step.duration for step in steps), default=0.0)
        call = {"name": f"{readings.name} ({label})", "cat": "call", "ph": "X", "pid": process, "tid": _HOST}
        events.append(call | {"ts": 0.0, "dur": max(end, way.total.median) / 1e3, "args": {}})
        for step in steps:
            row = names.get(step.node.id)
            args: dict[str, Any] = {"module": step.node.scope, "line": str(place(step.node) or "")}
            if row is not None:
                args |= {"node": row.name, "bytes": row.cost.bytes, "flops": row.cost.flops, "median ns": row.self_time.median}
            base = {"name": step.node.op, "cat": row.category if row else "other", "ph": "X", "pid": process, "args": args}
            events.append(base | {"tid": _HOST, "ts": step.host_start / 1e3, "dur": step.host_duration / 1e3})
            lanes = [*(_THREADS + thread for thread in range(2, step.threads + 1)), *([_STREAM] if is_gpu else [])]
            events += [base | {"tid": lane, "ts": step.start / 1e3, "dur": step.duration / 1e3} for lane in lanes]
            events.append({
                "name": "bytes alive", "ph": "C", "pid": process, "tid": _HOST, "ts": (step.host_start + step.host_duration) / 1e3,
                "args": {"bytes": step.live_bytes},
            })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"environment": readings.environment}}


# A run of each way in speedscope's file format: an evented profile whose stack is the modules, then the line, then the op.
#
# Source: speedscope's `file-format-spec`; `O` opens a frame and `C` closes it, in order of time and properly nested.

_Frames = dict[tuple[str, str, int], int]
"""The number of each frame, by name, file and line."""


def speedscope(readings: Readings) -> dict[str, Any]:
    frames: _Frames = {}
    profiles = [_profile(readings, label, frames) for label in readings.ways]
    listed = [{"name": name} | ({"file": file, "line": line} if file else {}) for name, file, line in frames]
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json", "name": readings.name,
        "exporter": "irscope", "activeProfileIndex": len(profiles) - 1,
        "shared": {"frames": listed}, "profiles": profiles,
    }  # fmt: skip


def _profile(readings: Readings, label: str, frames: _Frames) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    stack: list[int] = []
    now = 0.0

    def close(depth: int) -> None:
        while len(stack) > depth:
            events.append({"type": "C", "frame": stack.pop(), "at": now})

    for step in readings.ways[label].timeline():
        where = place(step.node)
        names = [(scope, "", 0) for scope in enclosing_modules(step.node.scope)]
        names += [(where.short, where.file, where.line)] if where is not None else []
        wanted = [frames.setdefault(name, len(frames)) for name in (*names, (step.node.op, "", 0))]
        shared = 0
        while shared < min(len(stack), len(wanted) - 1) and stack[shared] == wanted[shared]:
            shared += 1
        close(shared)
        now = max(now, step.start)
        for frame in wanted[shared:]:
            stack.append(frame)
            events.append({"type": "O", "frame": frame, "at": now})
        now += step.duration
        close(len(wanted) - 1)
    close(0)
    return {
        "type": "evented", "name": f"{readings.name}, {label}", "unit": "nanoseconds", "startValue": 0.0, "endValue": now,
        "events": events,
    }  # fmt: skip
