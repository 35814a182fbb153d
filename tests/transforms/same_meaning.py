"""What a caller can tell of a run: every number, stride and type of results and arguments, and which are one memory."""

from collections.abc import Callable
from typing import Any

import torch

import irscope as irs
from irscope.ir.core import Graph
from irscope.ir.structural import same_structure
from irscope.ops.node_check import verify
from irscope.transforms.base import PassRecord, check_types
from tests.analysis.alias.eager import memory_of, parts, run
from tests.random_programs.graphs import FEATURES, Program, random_program
from tests.transforms.fusion.judges import as_torch
from tests.transforms.places import check_places, with_places

TYPED = frozenset({"types", "joins"})


def observed(graph: Graph, arguments: Any) -> list[Any]:
    """Run in torch, op by op; then look at everything that the caller can reach, memories numbered as they are met.

    Strides are compared of dimensions of one element too: torch orders the dimensions of results by all of them.
    """
    arguments = as_torch(arguments)
    torch.default_generator.manual_seed(0)
    reached = parts([*run(graph, arguments).results, *arguments])[1:]
    numbers: dict[int, int] = {}
    seen = []
    for thing in reached:
        memory = memory_of(thing)
        number = None if memory is None else numbers.setdefault(memory, len(numbers))
        if isinstance(thing, torch.Tensor):
            lies = (thing.storage_offset(), thing.stride())
            elements = thing.detach().float() if thing.dtype == torch.bfloat16 else thing.detach()
            seen.append((number, str(thing.dtype), tuple(thing.shape), lies, elements.numpy().tobytes()))
        else:
            seen.append((number, None if memory is not None or isinstance(thing, tuple) else thing))
    return seen


def assert_same_meaning(before: Graph, after: Graph, program: Program) -> None:
    """Both graphs do the same to a caller of this program, to the last bit."""
    assert observed(before, program.fresh()) == observed(after, program.fresh())


def check_pass(
    run_pass: Callable[[Graph], PassRecord], seed: int, *, size: int = 25, idempotent: bool = True, of_types: bool = False
) -> PassRecord:
    """The properties of every pass, on one random program; `of_types`: of all element types, with the types of its arguments."""
    program = random_program(seed, size=size, features=FEATURES | TYPED) if of_types else random_program(seed, size=size)
    graph = irs.parse(with_places(program.with_types().text if of_types else program.text))
    record = run_pass(graph)
    check_types(record)
    check_places(record)
    verify(record.after)
    assert record.before is graph
    assert same_structure(record.after, irs.parse(str(record.after)))
    assert_same_meaning(graph, record.after, program)
    if idempotent:
        assert run_pass(record.after).after is record.after
    return record
