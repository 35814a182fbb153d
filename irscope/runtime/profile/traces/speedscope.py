"""A run of each way in speedscope's file format: an evented profile whose stack is the modules, then the line, then the op.

Source: speedscope's `file-format-spec`; `O` opens a frame and `C` closes it, in order of time and properly nested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from irscope.runtime.profile.readings import Readings
from irscope.runtime.profile.rows import place
from irscope.runtime.profile.way import Instruction

__all__ = ["speedscope"]

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
