"""A profile as a file for other viewers: a trace for Chrome and Perfetto, and a profile for speedscope."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from irscope.runtime.profile.readings import Readings, place
from irscope.runtime.profile.way import Instruction

# -- Chrome and Perfetto ----------------------------------------------------------------------------------------------

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
    """Returns the trace as plain data."""
    events: list[dict[str, Any]] = []
    for process, (label, way) in enumerate(readings.ways.items(), 1):
        is_gpu = readings.device == "cuda"
        names = {row.node.id: row for row in readings.rows(label)}
        steps = way.timeline()
        most = max((step.threads for step in steps), default=1)
        events += _metadata(process, f"{readings.name}, {label}", is_gpu, most)
        end = max((step.start + step.duration for step in steps), default=0.0)
        call = {"name": f"{readings.name} ({label})", "cat": "call", "ph": "X", "pid": process, "tid": _HOST}
        events.append(call | {"ts": 0.0, "dur": max(end, way.total.median) / 1e3, "args": {}})
        for step in steps:
            row = names.get(step.node.id)
            base = {"name": step.node.op, "cat": row.category if row else "other", "ph": "X", "pid": process}
            args = _args(step, row)
            events.append(base | {"tid": _HOST, "ts": step.host_start / 1e3, "dur": step.host_duration / 1e3, "args": args})
            for thread in range(2, step.threads + 1):
                there = {"tid": _THREADS + thread, "ts": step.start / 1e3, "dur": step.duration / 1e3, "args": args}
                events.append(base | there)
            if is_gpu:
                events.append(base | {"tid": _STREAM, "ts": step.start / 1e3, "dur": step.duration / 1e3, "args": args})
            events.append({
                "name": "bytes alive", "ph": "C", "pid": process, "tid": _HOST, "ts": (step.host_start + step.host_duration) / 1e3,
                "args": {"bytes": step.live_bytes},
            })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"environment": readings.environment}}


def _metadata(process: int, name: str, is_gpu: bool, threads: int) -> list[dict[str, Any]]:
    lanes = [(_HOST, "host")] + ([(_STREAM, "stream")] if is_gpu else [])
    lanes += [(_THREADS + thread, f"thread {thread} of kernels") for thread in range(2, threads + 1)]
    base = {"ph": "M", "pid": process, "ts": 0.0}
    return [
        base | {"name": "process_name", "tid": 0, "args": {"name": name}},
        *(base | {"name": "thread_name", "tid": lane, "args": {"name": title}} for lane, title in lanes),
    ]


def _args(step: Instruction, row: Any) -> dict[str, Any]:
    where = place(step.node)
    info: dict[str, Any] = {"module": step.node.scope, "line": str(where or "")}
    if row is not None:
        info |= {"node": row.name, "bytes": row.cost.bytes, "flops": row.cost.flops, "median ns": row.self_time.median}
    return info


# -- speedscope -------------------------------------------------------------------------------------------------------

# A run of each way in speedscope's file format: an evented profile whose stack is the modules, then the line, then the op.
#
# Source: speedscope's `file-format-spec`; `O` opens a frame and `C` closes it, in order of time and properly nested.

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


class _Frames:
    """The frames of a file, each stored once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str, int], int] = {}

    def number(self, name: str, file: str = "", line: int = 0) -> int:
        return self.known.setdefault((name, file, line), len(self.known))

    def listed(self) -> list[dict[str, Any]]:
        return [{"name": name} | ({"file": file, "line": line} if file else {}) for name, file, line in self.known]


def speedscope(readings: Readings) -> dict[str, Any]:
    """Returns the file as plain data."""
    frames = _Frames()
    profiles = [_profile(readings, label, frames) for label in readings.ways]
    return {
        "$schema": _SCHEMA, "name": readings.name, "exporter": "irscope", "activeProfileIndex": len(profiles) - 1,
        "shared": {"frames": frames.listed()}, "profiles": profiles,
    }  # fmt: skip


def _profile(readings: Readings, label: str, frames: _Frames) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    stack: list[int] = []
    now = 0.0

    def close(depth: int) -> None:
        while len(stack) > depth:
            events.append({"type": "C", "frame": stack.pop(), "at": now})

    for step in readings.ways[label].timeline():
        wanted = _stack(step, frames)
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


def _stack(step: Instruction, frames: _Frames) -> list[int]:
    """Returns the frames of a node: its modules from the outermost in, the line, the op."""
    scope, where = step.node.scope, place(step.node)
    parts = scope.split(".") if scope else []
    found = [frames.number(".".join(parts[: count + 1])) for count in range(len(parts))]
    if where is not None:
        found.append(frames.number(f"{Path(where.file).name}:{where.line}", where.file, where.line))
    found.append(frames.number(step.node.op))
    return found
