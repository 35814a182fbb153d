"""A trace of `torch.profiler` mapped to a graph: the node of each of its events.

Torch writes Chrome's JSON, whose events of category `cpu_op` are nested calls of ops. The outermost call of an op that the
graph has is a node. The calls of each op are in program order, as are the nodes; further runs in one trace repeat them. If
the numbers of calls and nodes do not match and torch recorded stacks (`with_stack=True`), they are matched by source file,
so that calls that the graph does not have in one file shift nothing in another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from irscope.errors import LoadError
from irscope.files import read_json
from irscope.ir import Graph, Node
from irscope.ops.registry import category_of

__all__ = ["MappedTrace", "map_trace"]

_OF_PYTHON: Final = ("container", "scalar", "control")
_FRAME: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d{1,9})\): ")
_LATEST: Final = 1e18
"""Microseconds; larger numbers are no times."""
_HINT: Final = "write one with prof.export_chrome_trace(path)"


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an op outside of all other ops."""

    op: str
    start: float
    microseconds: float
    device_microseconds: float
    line: tuple[str, int] | None


@dataclass(frozen=True)
class MappedTrace:
    """The events of a trace, mapped to a graph's nodes."""

    times: Mapping[Node, tuple[float, ...]]
    """Nanoseconds of each call, by node."""
    unmatched: tuple[tuple[str, int], ...]
    """Ops of the trace that the graph lacks or has less often, with the number of calls."""
    on_gpu: bool
    """Whether kernels of a GPU did the work."""


def map_trace(trace: str | Path | Mapping[str, Any], graph: Graph) -> MappedTrace:
    """Maps a trace of `torch.profiler` (`prof.export_chrome_trace(path)`, or its data) to a graph.

    Raises LoadError for a file that is not such a trace.
    """
    calls = _outermost(_events(trace))
    nodes: dict[str, list[Node]] = {}
    for node in graph.position:
        if node.op != "prim::Constant" and category_of(node) not in _OF_PYTHON and not node.blocks:
            nodes.setdefault(node.op, []).append(node)
    times: dict[Node, list[float]] = {}
    unmatched: dict[str, int] = {}
    by_op: dict[str, list[_Call]] = {}
    for call in calls:
        by_op.setdefault(call.op, []).append(call)
    for op, found in by_op.items():
        left = _matched(found, nodes.get(op, []), times)
        if left:
            unmatched[op] = left
    return MappedTrace(
        {node: tuple(taken) for node, taken in times.items()}, tuple(sorted(unmatched.items(), key=lambda e: -e[1])),
        any(call.device_microseconds for call in calls),
    )  # fmt: skip


def _events(trace: str | Path | Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not isinstance(trace, Mapping):
        trace = read_json(trace, hint=_HINT, kind="a trace")
    events = trace.get("traceEvents") if isinstance(trace, Mapping) else trace
    if not isinstance(events, list) or not all(isinstance(event, Mapping) for event in events):
        raise LoadError("the trace has no list of events", rule="chrome-trace", hint=_HINT)
    return events


def _outermost(events: Sequence[Mapping[str, Any]]) -> list[_Call]:
    """Returns the calls of ops that are in no other op, in order of time, with the line of the innermost frame around each.

    Linear after sorting: each event that is still open knows that line, and how many ops are open is counted."""
    device = _device_times(events)
    found: list[_Call] = []
    threads: dict[Any, list[Mapping[str, Any]]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "python_function", "operator") and _is_timed(event):
            threads.setdefault((_id(event.get("pid")), _id(event.get("tid"))), []).append(event)
    for timed in threads.values():
        timed.sort(key=lambda event: (float(event["ts"]), -float(event["dur"])))
        stack: list[tuple[float, bool, tuple[str, int] | None]] = []
        ops = 0
        for event in timed:
            start, lasted = float(event["ts"]), float(event["dur"])
            while stack and stack[-1][0] <= start:
                ops -= stack.pop()[1]
            line, is_op = stack[-1][2] if stack else None, event["cat"] != "python_function"
            if is_op and not ops:
                found.append(_Call(str(event["name"]), start, lasted, device.get(_external_id(event), 0.0), line))
            ops += is_op
            stack.append((start + lasted, is_op, line if is_op else _line_of(str(event["name"])) or line))
    return sorted(found, key=lambda call: call.start)


def _is_timed(event: Mapping[str, Any]) -> bool:
    times = event.get("ts"), event.get("dur")
    return isinstance(event.get("name"), str) and all(isinstance(time, int | float) and 0 <= time < _LATEST for time in times)


def _id(value: Any) -> Any:
    """Returns the number or name of a process, a thread or an event; others share one."""
    return value if isinstance(value, str | int | float) else None


def _external_id(event: Mapping[str, Any]) -> Any:
    args = event.get("args")
    return _id(args.get("External id")) if isinstance(args, Mapping) else None


def _device_times(events: Sequence[Mapping[str, Any]]) -> dict[Any, float]:
    """Returns the microseconds of kernels by the op that launched them."""
    found: dict[Any, float] = {}
    for event in events:
        key = _external_id(event)
        if key is not None and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and _is_timed(event):
            found[key] = found.get(key, 0.0) + float(event["dur"])
    return found


def _line_of(frame: str) -> tuple[str, int] | None:
    """Returns the file and line of a Python frame that is not torch's own; torch reports where the function begins."""
    match = _FRAME.match(frame)
    if match is None or "site-packages/torch" in match["file"] or match["file"].startswith("torch/"):
        return None
    return Path(match["file"]).name, int(match["line"])


def _matched(calls: list[_Call], nodes: list[Node], times: dict[Node, list[float]]) -> int:
    """Assigns each call to a node; returns how many were left over."""
    if not nodes:
        return len(calls)
    if len(calls) % len(nodes) == 0:  # one run after the other
        for index, call in enumerate(calls):
            times.setdefault(nodes[index % len(nodes)], []).append(_nanoseconds(call))
        return 0
    left = 0
    by_file: dict[str, list[Node]] = {}
    for node in nodes:
        by_file.setdefault(Path(node.location.file).name if node.location is not None else "", []).append(node)
    grouped: dict[str, list[_Call]] = {}
    for call in calls:
        grouped.setdefault(call.line[0] if call.line is not None else "", []).append(call)
    for file, found in grouped.items():
        wanted = by_file.get(file, [])
        if not wanted or len(found) % len(wanted):
            left += len(found)
            continue
        for index, call in enumerate(found):
            times.setdefault(wanted[index % len(wanted)], []).append(_nanoseconds(call))
    return left


def _nanoseconds(call: _Call) -> float:
    return (call.device_microseconds or call.microseconds) * 1e3
