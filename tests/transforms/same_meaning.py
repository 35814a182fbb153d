"""What a caller can tell of a run: every number, stride and type of results and arguments, and which are one memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import irscope as irs
from irscope.ir.core import Graph
from irscope.ir.structural import same_structure
from irscope.ir.verify import verify
from irscope.transforms.base import PassRecord
from tests.analysis.alias.eager import memory_of, parts, run
from tests.random_programs.graphs import Program, random_program


def as_torch(thing: Any) -> Any:
    if isinstance(thing, list):
        return [as_torch(item) for item in thing]
    return torch.from_numpy(thing) if isinstance(thing, np.ndarray) else thing


def observed(graph: Graph, arguments: Any) -> list[Any]:
    """Run in torch, op by op; then look at everything that the caller can reach, memories numbered as they are met.

    Strides are told of dimensions of one element too: torch orders the dimensions of results by all of them.
    """
    arguments = [as_torch(argument) for argument in arguments]
    reached = parts([*run(graph, arguments).results, *arguments])[1:]
    numbers: dict[int, int] = {}
    seen = []
    for thing in reached:
        memory = memory_of(thing)
        number = None if memory is None else numbers.setdefault(memory, len(numbers))
        if isinstance(thing, torch.Tensor):
            lies = (thing.storage_offset(), thing.stride())
            seen.append((number, str(thing.dtype), tuple(thing.shape), lies, thing.detach().numpy().tobytes()))
        else:
            seen.append((number, None if memory is not None or isinstance(thing, tuple) else thing))
    return seen


def assert_same_meaning(before: Graph, after: Graph, program: Program) -> None:
    """Both graphs do the same to a caller of this program, to the last bit."""
    assert observed(before, program.fresh()) == observed(after, program.fresh())


def check_pass(
    run_pass: Callable[[Graph], PassRecord], seed: int, *, size: int = 25, idempotent: bool = True
) -> PassRecord:
    """The properties of every pass, on one random program."""
    program = random_program(seed, size=size)
    graph = irs.parse(program.text)
    record = run_pass(graph)
    verify(record.after)
    assert record.before is graph
    assert same_structure(record.after, irs.parse(str(record.after)))
    assert_same_meaning(graph, record.after, program)
    if idempotent:
        assert run_pass(record.after).after is record.after
    return record
