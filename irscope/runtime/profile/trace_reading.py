"""The profile of a program by a trace that torch's profiler wrote: the same tables, pictures and remarks, without running it.

The times are the trace's, a run for each time that the trace has the program. Traffic and arithmetic are those of the types
that the program declares, and unknown for tensors of unknown sizes. The time between ops is not in a trace of ops: a call
takes the sum of its ops.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from irscope.analysis.views import ViewAliases
from irscope.errors import ArgumentError, IrscopeError
from irscope.ir import NOT_CONSTANT, STORED_SIZE, Graph, Node, TensorType, Value, constant_of
from irscope.ops.registry import category_of
from irscope.ops.typing import contiguous_strides
from irscope.runtime.machine import describe
from irscope.runtime.measure.workload import flops_of
from irscope.runtime.profile.counting import NodeCost, TensorFacts
from irscope.runtime.profile.measuring import Measured
from irscope.runtime.profile.profile_result import Profile
from irscope.runtime.profile.stopwatch import HostWatch
from irscope.runtime.profile.traces import map_trace
from irscope.runtime.profile.way import Way
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Spread, time_words

__all__ = ["TraceReading", "read"]


class TraceReading(Profile):
    """A profile read from a trace. Its times are those of the machine and the program that wrote it."""

    times: Mapping[Node, tuple[float, ...]]
    """Nanoseconds of each call, by node."""
    unmatched: tuple[tuple[str, int], ...]
    """Ops of the trace that the graph lacks or has less often, with the number of calls."""

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
    found = map_trace(trace, graph)
    device = "cuda" if found.on_gpu else "cpu"
    warnings = [f"The trace has ops that the program has not: {', '.join(f'{op} ×{n}' for op, n in found.unmatched[:5])}."]
    ways = {"op by op": _way(graph, found.times)}
    environment = describe() | {"threads": 1, "cpu": "the trace's machine", "allocator": "torch's allocator"}
    made = TraceReading(
        Measured(
            graph, None, ways, device, True, ways["op by op"].runs, False, environment,  # type: ignore[arg-type]
            tuple(warnings if found.unmatched else ()), False, (), None,
        )
    )  # fmt: skip
    made.times, made.unmatched = found.times, found.unmatched
    return made


def _way(graph: Graph, times: Mapping[Node, tuple[float, ...]]) -> Way:
    """Returns a way that has run as the trace says."""
    plain = compile_graph(graph, use_kernels=False)
    way = Way("op by op", graph, plain, plain, HostWatch())
    way.watch.cost = 0.0
    runs = int(statistics.mode(map(len, times.values()))) if times else 1
    nodes = [node for node in way.nodes if node in times]
    busy = np.zeros((runs, len(nodes)))
    views = _views(graph)
    for place, node in enumerate(nodes):
        taken = np.array(times[node])  # a loop calls a node several times in a run
        busy[:, place] = taken.reshape(runs, -1).sum(axis=1) if len(taken) % runs == 0 else np.median(taken)
        way.counter.costs[node.id] = replace(_cost(graph, node, views), calls=max(len(taken) // runs, 1))
    way.counter.curve = [(place, 0, 0) for place in range(len(nodes))]
    way.set_runs(nodes, busy)
    return way


def _views(graph: Graph) -> ViewAliases | None:
    try:
        return ViewAliases(graph)
    except IrscopeError:  # sizes that contradict each other
        return None


def _cost(graph: Graph, node: Node, views: ViewAliases | None) -> NodeCost:
    """Returns what a node moves and computes by its declared types."""
    operands, results = tuple(map(_facts, node.inputs)), tuple(map(_facts, node.outputs))
    tensors = [value for value in (*node.inputs, *node.outputs) if isinstance(value.type, TensorType)]
    if any(facts is None for facts, value in zip((*operands, *results), (*node.inputs, *node.outputs), strict=True) if value in tensors):
        return NodeCost(is_counted=False, operands=operands, results=results)
    is_view = category_of(node) == "view" and views is not None and all(views.kind(value) == "view" for value in node.outputs)
    if is_view:
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
