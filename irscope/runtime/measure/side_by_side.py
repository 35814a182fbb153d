"""Timing of several programs in turn, each on its own arguments: ways to fuse one program, or assumptions about its inputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from irscope.ir import flatten_arguments, graph_of
from irscope.runtime.measure.argument_snapshot import ArgumentSnapshot
from irscope.runtime.program import compile_graph
from irscope.runtime.threads import threads_for, with_threads
from irscope.runtime.timer import LEAST_SECONDS, Measurement, measure

__all__ = ["side_by_side"]

_TURNS = 15


def side_by_side(
    programs: Mapping[str, Any], args: Mapping[str, Sequence[Any]], *, device: str = "cpu", seconds: float = 2.0
) -> dict[str, Measurement]:  # fmt: skip
    """Returns the times of one call of each program on its arguments; all take turns, for about `seconds`.

    What a program writes is restored before each turn, and at the end.

    >>> import irscope as irs, numpy as np
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  %z : Tensor = aten::tanh(%y)\\n  return (%z)")
    >>> x = np.zeros(9, np.float32)
    >>> sorted(side_by_side({"one": g, "other": irs.fuse(g)}, {"one": [x], "other": [x]}, seconds=0.01))
    ['one', 'other']
    """
    threads = threads_for(None)
    graphs = {name: graph_of(program, "measure") for name, program in programs.items()}
    given = [(graph, flatten_arguments(args[name], graph)) for name, graph in graphs.items()]

    def timed() -> dict[str, Measurement]:
        runs = {
            name: partial(compile_graph(program, device, threads=threads.count), *flat)
            for (name, program), (_, flat) in zip(programs.items(), given, strict=True)
        }
        for run in runs.values():
            state.watch(run)
        return measure(
            runs, turns=_TURNS, seconds=LEAST_SECONDS, before=state.restore, once=state.is_written, patience=seconds,
            alone=threads.count == 1,
        )  # fmt: skip

    torch, state = sys.modules.get("torch"), ArgumentSnapshot(*given)
    try:
        with nullcontext() if torch is None else torch.no_grad():
            return with_threads(threads.count, timed)
    finally:
        state.restore()
