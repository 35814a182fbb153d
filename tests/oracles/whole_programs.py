"""Whether a compiled program does to its caller just what torch does op by op.

Looked at, besides what `tests.oracles.judge` compares: which results and arguments are one tensor or one memory, and that
kernels write all of their results and nothing beside them. A program that torch's own compiler makes another of is judged by
what torch's interpreter makes of what was left.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any
from unittest.mock import patch

import torch

import irscope as irs
from irscope.ir.types import TensorType
from irscope.runtime.arrays import TorchMemory, extents
from irscope.runtime.device import ObjectStore
from irscope.runtime.program.executable import Executable, compile_graph
from tests.oracles.judge import Call, Seen, seen
from tests.random_programs.torch_scripts import TorchProgram

_MARGIN = 64
"""Bytes on both sides of each result of a kernel."""
_FILL = 0xA5


@dataclass
class Guard:
    """Memory for the results of kernels with a margin on both sides."""

    buffers: list[torch.Tensor] = field(default_factory=list)

    def maker(self, memory: TorchMemory, type: TensorType) -> Callable[[], torch.Tensor]:
        return partial(self.make, extents(type), type.strides, memory.dtypes[type.dtype or ""])

    def make(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
        whole = torch.full((span * dtype.itemsize + 2 * _MARGIN,), _FILL, dtype=torch.uint8)
        self.buffers.append(whole)
        if span == 0:
            return whole[:0].view(dtype).as_strided(shape, strides)
        inner = torch.frombuffer(whole.numpy(), dtype=dtype, count=span, offset=_MARGIN)  # its own storage, as torch's results have
        return inner.as_strided(shape, strides)

    def assert_untouched(self) -> None:
        for whole in self.buffers:
            margins = torch.cat([whole[:_MARGIN], whole[-_MARGIN:]])
            assert bool((margins == _FILL).all()), "a kernel wrote beside its result"


@contextmanager
def guarded() -> Iterator[Guard]:
    """Kernels that are made ready inside get guarded memory for their results."""
    guard = Guard()
    with patch.object(TorchMemory, "maker", lambda memory, type: guard.maker(memory, type)):
        yield guard


def sharing(things: Sequence[Any]) -> list[int]:
    """The memories of tensors that have elements, numbered as they are met."""
    numbers: dict[int, int] = {}
    tensors = [x for x in things if isinstance(x, torch.Tensor)]
    return [numbers.setdefault(x.untyped_storage().data_ptr(), len(numbers)) if x.numel() else -1 for x in tensors]


def repeated(things: Sequence[Any]) -> set[tuple[int, int]]:
    """The places at which one tensor stands twice: a caller who resizes it there resizes it here. (Two that torch has as one
    are let pass: what was written in place is made pure, and its views are made again.)"""
    places: dict[int, int] = {}
    tensors = [(place, x) for place, x in enumerate(things) if isinstance(x, torch.Tensor)]
    return {(places[id(x)], place) for place, x in tensors if places.setdefault(id(x), place) != place}


class Truth(Call):
    """What torch makes of one call of a program, or of what its compiler left of it."""

    def __init__(self, function: Callable[..., Any], program: TorchProgram) -> None:
        super().__init__(function, program.arguments, wide=program.exact().eager(), few=None)
        self.program = program

    @cached_property
    def left(self) -> Truth:
        """The same of what torch's compiler left of the program."""
        return Truth(interpreted(self.program), self.program)

    def complaint(self, found: Seen) -> str:
        said = super().complaint(found)
        if said:
            return said
        mine, its = ([*one.results, *one.arguments] for one in (found, self.wanted))
        runs = lambda: [[*run[: len(found.results)], *run[-len(found.arguments) :]] for run in self.runs]  # noqa: E731
        same = repeated(mine)
        if not same <= repeated(its):
            if not any(same <= repeated(run) for run in runs()):
                return "one tensor stands for two"
            self.unsure = True
        if sharing(mine) != sharing(its):
            if sharing(mine) not in map(sharing, runs()):
                return "other memory is shared"
            self.unsure = True
        return ""


def check_call(executable: Executable, truth: Truth, guard: Guard | None = None) -> Counter[str]:
    """One call of the compiled program against torch: `unsure` if roundings decide a number, `changed` if torch's compiler makes
    another program of it (it drops writes in loops to what the next round reads, and does not know every index that Python takes)."""
    found = seen(executable, truth.program.fresh())
    if guard is not None:
        guard.assert_untouched()
    said = truth.complaint(found)
    if not said:
        return Counter(unsure=int(truth.unsure))
    left = truth.left
    assert truth.complaint(left.wanted), said
    other = left.complaint(found)
    assert not other, other
    return Counter(unsure=int(left.unsure), changed=1)


def interpreted(program: TorchProgram) -> Callable[..., Any]:
    """The scripted program, run without the passes that go by what earlier runs were given."""

    scripted = cache(program.scripted)

    def run(*given: Any) -> Any:
        with torch.jit.optimized_execution(False):
            return scripted()(*given)

    return run


def is_taken(function: Callable[..., Any], program: TorchProgram) -> bool:
    """Whether torch runs the function with the program's arguments."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*program.fresh())
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return True


def arbitrary(candidate: Any) -> float:
    """A score that is legal and has no sense."""
    return float((7919 * candidate.producer_index + 104729 * candidate.consumer_index) % 13 - 3)


POLICIES: tuple[Any, ...] = ("greedy", "min-bytes", "torch-legacy", arbitrary)


def resized(program: TorchProgram, seed: int) -> TorchProgram | None:
    """The program with arguments of another size along one dimension, if torch takes them."""
    sizes = sorted({size for x in program.arguments if isinstance(x, torch.Tensor) for size in x.shape if size != 1})
    if not sizes:
        return None
    old, new = sizes[seed % len(sizes)], (2, 7, 9, 1, 0)[seed % 5]
    make = torch.Generator().manual_seed(seed)
    arguments = []
    for x in program.arguments:
        if isinstance(x, torch.Tensor) and old in x.shape:
            numbers = torch.rand([new if size == old else size for size in x.shape], generator=make) * 4 - 2
            x = numbers.to(x.dtype) if x.dtype != torch.bool else numbers > 0
        arguments.append(x)
    other = TorchProgram(program.text, tuple(arguments))
    return other if is_taken(other.eager(), other) and is_taken(interpreted(other), other) else None


def check_program(program: TorchProgram, seed: int) -> Counter[str]:
    """A program through the whole path, on the way that the seed says; later calls go by what earlier ones learnt."""
    dynamic = seed % 3 == 0
    graph = irs.load(program.scripted(), *(() if dynamic else program.arguments))
    limits = {"max_nodes": 4 + seed % 11, "max_arguments": 5 + seed % 5} if seed % 5 == 0 else {}
    fusion = irs.fuse(graph, policy=POLICIES[seed % len(POLICIES)], **limits)
    truth = Truth(program.eager(), program)
    with guarded() as guard:
        executable = compile_graph(fusion, store=ObjectStore(None))
        calls = Counter[str]()
        for _ in range(1 + seed % 4 + seed % 2):
            calls += check_call(executable, truth, guard)
        if dynamic and (other := resized(program, seed // 3)) is not None:
            another = Truth(other.eager(), other)
            for now in (another, truth, another, another, truth)[: 1 + seed % 5]:
                calls += check_call(executable, now, guard)
    groups = len({group for kernel in executable.kernels for group in kernel.groups})
    return Counter(programs=1, groups=groups, unsure=min(calls["unsure"], 1), changed=min(calls["changed"], 1))
