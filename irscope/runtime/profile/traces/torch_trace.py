"""A trace of `torch.profiler` mapped to a graph: the node of each of its events.

Torch writes Chrome's JSON, whose events of category `cpu_op` are nested calls of ops. The outermost call of an op that the
graph has is a node. The calls of each op are in program order, as are the nodes; further runs in one trace repeat them. If
the numbers of calls and nodes do not match and torch recorded stacks (`with_stack=True`), they are matched by source file,
so that calls that the graph does not have in one file shift nothing in another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope.errors import LoadError, loading
from irscope.ir import Graph, Node
from irscope.ops.registry import category_of
from irscope.runtime.timer import Spread

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TraceReading", "read"]

_OF_PYTHON: Final = ("container", "scalar", "control")
_FRAME: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<name>.*)$")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an op outside of all other ops."""

    op: str
    start: float
    microseconds: float
    device_microseconds: float
    line: tuple[str, int] | None


@dataclass(frozen=True)
class TraceReading:
    """The events of a trace, mapped to the graph's nodes."""

    graph: Graph
    times: Mapping[Node, tuple[float, ...]]
    """Nanoseconds of each call, by node."""
    unmatched: tuple[tuple[str, int], ...]
    """Ops of the trace that the graph lacks or has less often, with the number of calls."""

    def spread(self, node: Node) -> Spread:
        """Returns the time of a node."""
        return Spread.of(self.times.get(node, ()))

    def table(self) -> pd.DataFrame:
        """Returns one row for each node of the graph that the trace has, in program order."""
        with loading("pandas"):
            import pandas as pd

        names = self.graph.names
        cells = []
        for node in self.graph.position:
            taken = self.times.get(node)
            if not taken:
                continue
            spread = Spread.of(taken)
            cells.append({
                "node": ", ".join(f"%{names[value]}" for value in node.outputs) or node.op, "op": node.op,
                "line": str(node.location or ""), "module": node.scope, "ms": spread.median / 1e6, "low ms": spread.low / 1e6,
                "high ms": spread.high / 1e6, "calls": len(taken),
            })  # fmt: skip
        return pd.DataFrame(cells, columns=["node", "op", "line", "module", "ms", "low ms", "high ms", "calls"])

    def __repr__(self) -> str:
        missing = (
            f"; not in the graph: {', '.join(f'{op} ×{n}' for op, n in self.unmatched[:5])}" if self.unmatched else ""
        )
        return f"<TraceReading: {len(self.times)} nodes of {self.graph.name!r} have times{missing}>"


def read(trace: str | Path | Mapping[str, Any], graph: Graph) -> TraceReading:
    """Maps a trace of `torch.profiler` (`prof.export_chrome_trace(path)`, or its data) to a graph.

    Raises LoadError for a file that is not such a trace.
    """
    events = _events(trace)
    calls = _outermost(events)
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
    return TraceReading(
        graph,
        {node: tuple(taken) for node, taken in times.items()},
        tuple(sorted(unmatched.items(), key=lambda e: -e[1])),
    )


def _events(trace: str | Path | Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not isinstance(trace, Mapping):
        try:
            trace = json.loads(Path(trace).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = f"{str(trace)!r} cannot be read as a trace: {error}"
            raise LoadError(what, rule="chrome-trace", hint="write one with prof.export_chrome_trace(path)") from None
    events = trace.get("traceEvents") if isinstance(trace, Mapping) else trace
    if not isinstance(events, list) or not all(isinstance(event, Mapping) for event in events):
        raise LoadError(
            "the trace has no list of events", rule="chrome-trace", hint="write one with prof.export_chrome_trace(path)"
        )
    return events


def _outermost(events: Sequence[Mapping[str, Any]]) -> list[_Call]:
    """Returns the calls of ops that are in no other op, in order of time, with the line of the innermost frame around each."""
    device = _device_times(events)
    found: list[_Call] = []
    threads: dict[Any, list[Mapping[str, Any]]] = {}
    for event in events:
        if (
            event.get("ph") == "X"
            and event.get("cat") in ("cpu_op", "python_function", "operator")
            and _is_timed(event)
        ):
            threads.setdefault((event.get("pid"), event.get("tid")), []).append(event)
    for timed in threads.values():
        timed.sort(key=lambda event: (float(event["ts"]), -float(event["dur"])))
        stack: list[tuple[float, Mapping[str, Any]]] = []
        for event in timed:
            start = float(event["ts"])
            while stack and stack[-1][0] <= start:
                stack.pop()
            is_op = event["cat"] != "python_function"
            if is_op and not any(other["cat"] != "python_function" for _, other in stack):
                found.append(
                    _Call(
                        str(event["name"]),
                        start,
                        float(event["dur"]),
                        device.get(_external_id(event), 0.0),
                        _line_of(stack),
                    )
                )
            stack.append((start + float(event["dur"]), event))
    return sorted(found, key=lambda call: call.start)


def _is_timed(event: Mapping[str, Any]) -> bool:
    return isinstance(event.get("ts"), int | float) and isinstance(event.get("dur"), int | float) and "name" in event


def _external_id(event: Mapping[str, Any]) -> Any:
    args = event.get("args")
    return args.get("External id") if isinstance(args, Mapping) else None


def _device_times(events: Sequence[Mapping[str, Any]]) -> dict[Any, float]:
    """Returns the microseconds of kernels by the op that launched them."""
    found: dict[Any, float] = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and _is_timed(event):
            key = _external_id(event)
            found[key] = found.get(key, 0.0) + float(event["dur"])
    return found


def _line_of(stack: Sequence[tuple[float, Mapping[str, Any]]]) -> tuple[str, int] | None:
    """Returns the innermost Python frame; torch reports the line where the function begins."""
    for _, event in reversed(stack):
        match = _FRAME.match(str(event["name"])) if event["cat"] == "python_function" else None
        if match is not None and "site-packages/torch" not in match["file"] and not match["file"].startswith("torch/"):
            return Path(match["file"]).name, int(match["line"])
    return None


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
