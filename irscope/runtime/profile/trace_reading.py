"""The profile of a program by a trace that torch's profiler wrote: the same tables, pictures and remarks, without running it.

The times are the trace's, a run for each time that the trace has the program. Traffic and arithmetic are those of the types
that the program declares, and unknown for tensors of unknown sizes. The time between ops is not in a trace of ops: a call
takes the sum of its ops.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from irscope._base.loaded_code import file_of
from irscope._base.nested import grouped
from irscope._base.words import time_words
from irscope.analysis.views import ViewAliases
from irscope.errors import ArgumentError, IrscopeError, LoadError
from irscope.files import read_json
from irscope.ir import NOT_CONSTANT, STORED_SIZE, Graph, Node, TensorType, Value, constant_of
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import category_of
from irscope.ops.type_rules import contiguous_strides
from irscope.runtime.machine import describe
from irscope.runtime.measure.workload import flops_of
from irscope.runtime.profile.costs import NodeCost, TensorFacts
from irscope.runtime.profile.measuring import Measured
from irscope.runtime.profile.profile_result import Profile
from irscope.runtime.profile.way import Stopwatch, Way
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Spread

# A trace of `torch.profiler` mapped to a graph: the node of each of its events.
#
# Torch writes Chrome's JSON, whose events of category `cpu_op` are nested calls of ops. The outermost call of an op that the
# graph has is a node. The calls of each op are in program order, as are the nodes; further runs in one trace repeat them. If
# the numbers of calls and nodes do not match and torch recorded stacks (`with_stack=True`), they are matched by source file,
# so that calls that the graph does not have in one file shift nothing in another.

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


Times = Mapping[Node, tuple[float, ...]]
"""Nanoseconds of each call, by node."""
Unmatched = tuple[tuple[str, int], ...]
"""Ops of a trace that the graph lacks or has less often, with the number of calls."""


def map_trace(trace: str | Path | Mapping[str, Any], graph: Graph) -> tuple[Times, Unmatched, bool]:
    """Maps a trace of `torch.profiler` (`prof.export_chrome_trace(path)`, or its data) to a graph; the last result says whether
    kernels of a GPU did the work.

    Raises LoadError for a file that is not such a trace.
    """
    if not isinstance(trace, Mapping):
        trace = read_json(trace, hint=_HINT, kind="a trace")
    events = trace.get("traceEvents") if isinstance(trace, Mapping) else trace
    if not isinstance(events, list) or not all(isinstance(event, Mapping) for event in events):
        raise LoadError("the trace has no list of events", rule="chrome-trace", hint=_HINT)
    calls = _outermost(events)
    plain = (node for node in graph.position if node.op != "prim::Constant" and not node.blocks)
    nodes = grouped((node.op, node) for node in plain if category_of(node) not in PYTHON_CATEGORIES)
    times: dict[Node, list[float]] = {}
    unmatched: dict[str, int] = {}
    for op, found in grouped((call.op, call) for call in calls).items():
        if left := _match(found, nodes.get(op, []), times):
            unmatched[op] = left
    most_first = tuple(sorted(unmatched.items(), key=lambda e: -e[1]))
    return {node: tuple(taken) for node, taken in times.items()}, most_first, any(call.device_microseconds for call in calls)


def _outermost(events: Sequence[Mapping[str, Any]]) -> list[_Call]:
    """Returns the calls of ops that are in no other op, in order of time, with the line of the innermost frame around each.

    Linear after sorting: each event that is still open knows that line, and how many ops are open is counted."""
    device: dict[Any, float] = {}
    for event in events:  # the microseconds of kernels, by the op that launched them
        key = _external_id(event)
        if key is not None and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and _is_timed(event):
            device[key] = device.get(key, 0.0) + float(event["dur"])
    found: list[_Call] = []
    kinds = ("cpu_op", "python_function", "operator")
    shown = (event for event in events if event.get("ph") == "X" and event.get("cat") in kinds and _is_timed(event))
    for timed in grouped(((_id(event.get("pid")), _id(event.get("tid"))), event) for event in shown).values():
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


def _line_of(frame: str) -> tuple[str, int] | None:
    """Returns the file and line of a Python frame that is not torch's own; torch reports where the function begins."""
    match = _FRAME.match(frame)
    if match is None or "site-packages/torch" in match["file"] or match["file"].startswith("torch/"):
        return None
    return Path(match["file"]).name, int(match["line"])


def _match(calls: list[_Call], nodes: list[Node], times: dict[Node, list[float]]) -> int:
    """Assigns each call to a node; returns how many were left over."""
    parts = [(calls, nodes)]
    if nodes and len(calls) % len(nodes):  # not one run after the other: file by file
        by_file: dict[str, tuple[list[_Call], list[Node]]] = {}
        for call in calls:
            by_file.setdefault("" if call.line is None else call.line[0], ([], []))[0].append(call)
        for node in nodes:
            file = Path(file_of(node.location.file)).name if node.location is not None else ""
            by_file.setdefault(file, ([], []))[1].append(node)
        parts = list(by_file.values())
    left = 0
    for found, wanted in parts:
        if not wanted or len(found) % len(wanted):
            left += len(found)
            continue
        for index, call in enumerate(found):
            times.setdefault(wanted[index % len(wanted)], []).append((call.device_microseconds or call.microseconds) * 1e3)
    return left


# -- the profile of a trace -------------------------------------------------------------------------------------------


class TraceReading(Profile):
    """A profile read from a trace. Its times are those of the machine and the program that wrote it."""

    times: Times
    unmatched: Unmatched

    def spread(self, node: Node) -> Spread:
        """Returns the time of a node's calls."""
        return Spread.of(self.times.get(node, ()))

    def verdict(self) -> str:
        return f"{time_words(self.total().median)} of ops in a run of the trace"

    def caption(self) -> str:
        runs = self.way().runs
        return (
            f"Times of a trace of torch.profiler, medians and quartiles of {runs} run{'s' * (runs != 1)}, with what profiling took; "
            f"bytes and arithmetic by the program's types. {self.order()[0].upper()}{self.order()[1:]}."
        )

    def try_(self, *given: Any, **options: Any) -> NoReturn:
        """Raises ArgumentError: there are no arguments to run it on."""
        raise ArgumentError("a trace has no arguments to try a remark with", hint="irs.profile(program, x).try_(0)")


def read(trace: str | Path | Mapping[str, Any], graph: Graph) -> TraceReading:
    """Returns the profile of a graph by a trace of `torch.profiler`. Raises LoadError for a file that is not such a trace."""
    times, unmatched, on_gpu = map_trace(trace, graph)
    warnings = [f"The trace has ops that the program has not: {', '.join(f'{op} ×{n}' for op, n in unmatched[:5])}."]
    way = _way(graph, times)
    environment = describe() | {"threads": 1, "cpu": "the trace's machine", "allocator": "torch's allocator"}
    made = TraceReading(
        Measured(
            graph, None, {"op by op": way}, "cuda" if on_gpu else "cpu", True, way.runs, False, environment,
            tuple(warnings if unmatched else ()), (), None,
        )
    )  # fmt: skip
    made.times, made.unmatched = times, unmatched
    return made


def _way(graph: Graph, times: Times) -> Way:
    """Returns a way that has run as the trace says."""
    plain = compile_graph(graph, use_kernels=False)
    way = Way("op by op", graph, plain, plain, Stopwatch())
    way.watch.cost = 0.0
    runs = int(statistics.mode(map(len, times.values()))) if times else 1
    nodes = [node for node in way.nodes if node in times]
    busy = np.zeros((runs, len(nodes)))
    views: ViewAliases | None = None
    with suppress(IrscopeError):  # sizes that contradict each other
        views = ViewAliases(graph)
    for place, node in enumerate(nodes):
        taken = np.array(times[node])  # a loop calls a node several times in a run
        busy[:, place] = taken.reshape(runs, -1).sum(axis=1) if len(taken) % runs == 0 else np.median(taken)
        way.counter.costs[node.id] = replace(_cost(graph, node, views), calls=max(len(taken) // runs, 1))
    way.counter.curve = [(place, 0, 0) for place in range(len(nodes))]
    way.set_runs(nodes, busy)
    return way


def _cost(graph: Graph, node: Node, views: ViewAliases | None) -> NodeCost:
    """Returns what a node moves and computes by its declared types."""
    operands, results = tuple(map(_facts, node.inputs)), tuple(map(_facts, node.outputs))
    tensors = [value for value in (*node.inputs, *node.outputs) if isinstance(value.type, TensorType)]
    if any(facts is None for facts, value in zip((*operands, *results), (*node.inputs, *node.outputs), strict=True) if value in tensors):
        return NodeCost(is_counted=False, operands=operands, results=results)
    made = [value for value in node.outputs if value in tensors]  # a list of views has no buffer of its own
    if category_of(node) == "view" and views is not None and all(views.kind(value) == "view" for value in made):
        return NodeCost(operands=operands, results=results, shares_memory=True)
    given = [facts or constant_of(graph, value) for facts, value in zip(operands, node.inputs, strict=True)]
    flops = None if NOT_CONSTANT in given else flops_of(node, given, results[0] if len(results) == 1 else results)
    read, written = (sum(facts.bytes for facts in sides if facts is not None) for sides in (operands, results))
    return NodeCost(0, read, written, flops or 0, flops is not None, operands=operands, results=results)


def _facts(value: Value) -> TensorFacts | None:
    """Returns the layout that a value declares, without strides a dense one; None for one of unknown sizes."""
    kind = value.type
    if not isinstance(kind, TensorType) or kind.shape is None or kind.dtype is None:
        return None
    shape = tuple(size for size in kind.shape if isinstance(size, int))
    if len(shape) != len(kind.shape):
        return None
    strides = kind.strides or contiguous_strides(shape)
    if not all(isinstance(step, int) for step in strides):
        return None
    return TensorFacts(kind.dtype, shape, strides, STORED_SIZE.get(kind.dtype, 1))
