"""The share of the Python call in a library op's time: the way from Python into the op and back.

A profile times an op as a user experiences it, including the call from Python, which parses arguments and wraps the result in
an object. Other profilers' clocks start inside the op. For ops of a microsecond the call is half of the time, and it varies
between ops: a keyword argument takes longer than an operand.

It is measured by running one op many times in a row on the tensors that it had in the run, twice: as the profiled program
calls it, and in a loop of torch's own interpreter, which calls the same op without Python. Both find their operands in the
caches and do the same work, so the difference is the call. The result is kept as a share, not in nanoseconds: both runs take
turns, so the share holds even on a machine that is slower now than during the profile. One op of each equivalence class is
measured in this way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from irscope.errors import ArgumentError, IrscopeError
from irscope.ir import Graph, GraphBuilder, Node, Value
from irscope.ir.types import BOOL, INT, TENSOR, ListType, TensorType, Type
from irscope.ops.registry import effect_of
from irscope.runtime.profile.readings import Readings
from irscope.runtime.profile.rows import NodeRow, place, type_words
from irscope.runtime.program import compile_graph
from irscope.runtime.timer import Spread

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["call_shares", "calls_table"]

_LONGEST_NS: Final = 100e3
"""The longest time of an op whose call is measured: for longer ones the call is less than the spread."""
_FEW: Final = 8
_MANY: Final = 48
"""Calls in a row; the slope between the two excludes the overhead before and after."""
_ROUNDS: Final = 15
_WARM: Final = 8


def call_shares(readings: Readings) -> dict[int, float]:
    """Returns the share of the call by class number, for those classes of short torch ops that could be measured.

    Runs the program once more. Raises ArgumentError for a program that did not run op by op through torch on a processor.
    """
    measured = readings.measured
    if not measured.is_torch or measured.device != "cpu":
        what = "the call from Python can be separated from the op only where torch runs the program on a processor"
        raise ArgumentError(what, hint="p.table() has the time of each node, its call included")
    numbers = readings.class_numbers("op by op")
    first: dict[int, Node] = {}
    for row in readings.rows("op by op"):
        if row.calls and row.self_time.median / row.calls <= _LONGEST_NS and _can_be_repeated(row.node):
            first.setdefault(numbers[row.node.id], row.node)
    operands = _operands(readings, set(first.values()))
    found: dict[int, float] = {}
    for number, node in first.items():
        with suppress(IrscopeError, RuntimeError), _torch().no_grad():  # ops that torch's interpreter rejects are left out
            found[number] = _call_share(readings.graph("op by op"), node, operands[node])
    return found


def calls_table(readings: Readings, of_calls: Mapping[int, float]) -> pd.DataFrame:
    """Returns one row for each class of equal library ops, the one with the longest own time first."""
    from irscope._base.tables import Table

    numbers = readings.class_numbers("op by op")
    rows: dict[int, list[NodeRow]] = {}
    for row in readings.rows("op by op"):
        if row.launches or numbers[row.node.id] in of_calls:
            rows.setdefault(numbers[row.node.id], []).append(row)
    way, cells = readings.way("op by op"), []
    place_of = {node.id: index for index, node in enumerate(way.nodes)}
    for number, alike in rows.items():
        took = way.busy[:, [place_of[row.node.id] for row in alike]].sum(axis=1)
        share = of_calls.get(number)
        own, whole = Spread.of(took * (1.0 - (share or 0.0))), float(np.median(took))
        cells.append({
            "op": alike[0].node.op, "type": type_words(alike[0].node), "line": str(place(alike[0].node) or ""), "class": number,
            "nodes": len(alike), "calls": sum(row.calls for row in alike), "ms": whole / 1e6,
            "call ms": None if share is None else share * whole / 1e6,
            "own ms": own.median / 1e6, "low ms": own.low / 1e6, "high ms": own.high / 1e6,
        })  # fmt: skip
    columns = ["op", "type", "line", "class", "nodes", "calls", "ms", "call ms", "own ms", "low ms", "high ms"]
    return Table(cells, columns=columns).sort_values("own ms", ascending=False, kind="stable", ignore_index=True)


def _can_be_repeated(node: Node) -> bool:
    return node.op.startswith("aten::") and not node.blocks and bool(node.outputs) and effect_of(node) in ("pure", "view")


def _torch() -> Any:
    import torch

    return torch


def _operands(readings: Readings, wanted: set[Node]) -> dict[Node, list[Any]]:
    """Returns the operands that some nodes had in a run."""
    way, found = readings.way("op by op"), {}
    code = way.code
    if code is None:
        return {}

    def observer(code: Any, slots: Any) -> Callable[[int], None]:
        def after(position: int) -> None:
            node = code.nodes[position]
            if node in wanted and node not in found:
                found[node] = [slots[slot] for slot in code.reads[position]]

        return after

    code.observer = observer
    try:
        way.timed(*readings.measured.args)
    finally:
        code.observer = None
    return found


def _call_share(graph: Graph, node: Node, operands: Sequence[Any]) -> float:
    tensors = [operand for operand in operands if _type_of(operand) is not None]
    in_python = [_repeated(graph, node, operands, count) for count in (_FEW, _MANY)]
    programs = [compile_graph(each, "cpu", use_kernels=False) for each in in_python]
    torch = _torch()
    loop = torch._C._create_function_from_graph("loop", torch._C.parse_ir(str(_looped(graph, node, operands))))
    with torch.jit.optimized_execution(False):
        runs: list[Callable[[], object]] = [lambda program=program: program(*tensors) for program in programs]  # type: ignore[misc]
        runs += [lambda count=count: loop(count, *tensors) for count in (_FEW, _MANY)]  # type: ignore[misc]
        taken = np.array(_timed(runs))
    few, many, few_there, many_there = np.median(taken, axis=0)
    whole = max(many - few, 1.0)
    return float(min(max(1.0 - (many_there - few_there) / whole, 0.0), 1.0))


def _timed(runs: Sequence[Callable[[], object]]) -> list[list[int]]:
    clock = time.perf_counter_ns
    for run in runs:
        for _ in range(_WARM):
            run()
    taken = []
    for _ in range(_ROUNDS):
        row = []
        for run in runs:
            start = clock()
            run()
            row.append(clock() - start)
        taken.append(row)
    return taken


def _type_of(operand: Any) -> Type | None:
    """Returns the type of an operand that is passed to a program at each call; None for one that is part of the program."""
    is_tensor = _torch().is_tensor
    if is_tensor(operand):
        return TENSOR
    if isinstance(operand, list | tuple) and operand and all(map(is_tensor, operand)):
        return ListType(TENSOR)
    return None


def _begun(builder: GraphBuilder, graph: Graph, node: Node, operands: Sequence[Any]) -> list[Value]:
    """Returns the operands of a node as inputs and constants of a new program."""
    values = []
    for place_, (value, operand) in enumerate(zip(node.inputs, operands, strict=True)):
        type, maker = _type_of(operand), graph.producer.get(value)
        if type is not None:
            values.append(builder.input(f"a{place_}", type))
        elif maker is not None and maker.op == "prim::Constant":
            values.append(builder.op("prim::Constant", type=value.type, attrs=maker.attrs))
        else:
            values.append(builder.constant(operand))
    return values


def _repeated(graph: Graph, node: Node, operands: Sequence[Any], count: int) -> Graph:
    """Returns a graph that runs a node `count` times in a row.

    Only the last results are returned: the others die at once, as in the loop, and leave their memory to the next. With all of
    them alive, writing a result of half a megabyte took twice the time of its op."""
    builder = GraphBuilder("repeated")
    inputs = _begun(builder, graph, node, operands)
    types = [value.type for value in node.outputs]
    made = [builder.node(node.op, inputs, types, attrs=node.attrs) for _ in range(count)]
    return builder.finish(list(made[-1]))


def _looped(graph: Graph, node: Node, operands: Sequence[Any]) -> Graph:
    """Returns the same as a loop, which carries its last results so that no iteration is removed."""
    builder = GraphBuilder("looped")
    trips = builder.input("trips", INT)
    inputs = _begun(builder, graph, node, operands)
    types = [TENSOR if isinstance(value.type, TensorType) else value.type for value in node.outputs]
    first = builder.node(node.op, inputs, types, attrs=node.attrs)
    true = builder.constant(True, BOOL)
    with builder.block([("trip", INT), *[(f"last{place_}", type) for place_, type in enumerate(types)]]) as body:
        results = builder.node(node.op, inputs, types, attrs=node.attrs)
        body.returns([true, *results])
    return builder.finish(builder.structured("prim::Loop", [trips, true, *first], types, [body]))
