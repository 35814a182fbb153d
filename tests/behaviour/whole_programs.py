"""Whether a compiled program does to its caller just what torch does op by op.

Looked at: every number (against torch's and torch's in double precision; what differs by more than a few units in the last
place, against how far other roundings move it: `tests.behaviour.rounding`), element types, shapes, strides, which results and
arguments are one memory, what is written into arguments and into the memory around them, and that kernels write all of
their results and nothing beside them.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import torch

import irscope as irs
from irscope.errors import IrscopeError
from irscope.ir.types import TensorType
from irscope.runtime.arrays.array_memory import TorchMemory, extents
from irscope.runtime.program.executable import Executable, compile_graph
from tests.behaviour.rounding import allowance, near, rounded_runs, spread
from tests.random_programs.torch_scripts import TorchProgram, torch_program

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


def flat(found: Any) -> list[Any]:
    return [part for item in found for part in flat(item)] if isinstance(found, tuple | list) else [found]


def sharing(things: list[Any]) -> list[int]:
    """The memories of tensors that have elements, numbered as they are met."""
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(x.untyped_storage().data_ptr(), len(numbers)) if x.numel() else -1
        for x in things
        if isinstance(x, torch.Tensor)
    ]


def twins(things: Sequence[Any]) -> set[tuple[int, int]]:
    """The places at which one tensor stands twice: a caller who resizes it there resizes it here. (Two that torch has as one
    are let pass: what was written in place is made pure, and its views are made anew.)"""
    places: dict[int, int] = {}
    tensors = [(place, x) for place, x in enumerate(things) if isinstance(x, torch.Tensor)]
    return {(places[id(x)], place) for place, x in tensors if places.setdefault(id(x), place) != place}


def steps(x: torch.Tensor) -> tuple[int, ...]:
    """The strides that say where an element lies."""
    return tuple(step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1) if x.numel() else ()


@dataclass
class Truth:
    """What torch makes of one call: its numbers, exact ones, and how far roundings move them."""

    function: Callable[..., Any]
    program: TorchProgram
    given: tuple[Any, ...] = ()
    wanted: list[Any] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    """Every result, every argument, and all of the memory that each argument lies in, as they are afterwards."""
    exact: list[Any] = field(default_factory=list)
    """The same from the program in double precision; None where that program could not run."""
    unsure: bool = False
    """Whether roundings were found to decide what a number is."""

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.given = self.program.fresh()
            self.wanted = flat(self.function(*self.given))
            self.numbers = [*self.wanted, *self.given, *wholes(self.given)]
            wide = self.program.exact()
            torch.set_default_dtype(torch.float64)  # what numbers of no type become
            try:
                self.exact = self.told(wide.eager(), wide.fresh())
            except (RuntimeError, IndexError, ValueError):
                self.exact = [None] * len(self.numbers)
            finally:
                torch.set_default_dtype(torch.float32)

    @cached_property
    def left(self) -> Truth:
        """The same of what torch's compiler left of the program."""
        return Truth(interpreted(self.program), self.program)

    def told(self, function: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
        found = flat(function(*given))
        return [*found, *given, *wholes(given)]

    @cached_property
    def runs(self) -> list[Sequence[Any]]:
        """The same with other roundings."""
        return rounded_runs(lambda: self.told(self.function, self.program.fresh()))

    def judge(self, found: list[Any], mine: tuple[Any, ...]) -> None:
        """Raises AssertionError where results or arguments are not torch's."""
        assert len(found) == len(self.wanted)
        names = [f"result {i}" for i in range(len(found))]
        names += [f"{what} {i}" for what in ("argument", "the memory of argument") for i in range(len(mine))]
        for index, (name, a) in enumerate(zip(names, [*found, *mine, *wholes(mine)], strict=True)):
            b, c = self.numbers[index], self.exact[index]
            if not isinstance(a, torch.Tensor):
                assert a == b or isinstance(a, float), f"{name}: {a!r}, not {b!r}"
                continue
            if not is_alike(a, b):  # roundings may have chosen another branch
                self.unsure = True
                if not any(is_alike(a, run[index]) for run in self.runs):
                    assert_alike(a, b, name)
            elif not is_close(a, b, c):
                self.judge_rounded(a, b, c, index, name)
        same = twins([*found, *mine])
        if not same <= twins([*self.wanted, *self.given]):
            runs = [twins(run[: len(found) + len(mine)]) for run in self.runs]
            assert any(same <= other for other in runs), "one tensor stands for two"
            self.unsure = True
        shared, wanted = sharing([*found, *mine]), sharing([*self.wanted, *self.given])
        if shared != wanted:
            assert shared in [sharing(run[: len(found) + len(mine)]) for run in self.runs], "other memory is shared"
            self.unsure = True

    def judge_rounded(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, index: int, name: str) -> None:
        if len(self.runs) < 3:
            self.unsure = True
            return
        far = spread(b, [run[index] for run in self.runs])
        wrong = ~near(a, b, c, far)
        if bool(wrong.any()):
            at = tuple(wrong.nonzero()[0].tolist())
            exact = "unknown" if c is None or c.shape != b.shape else c[at].item()
            raise AssertionError(
                f"{name}: at {at} {a[at].item()}, torch {b[at].item()}, exactly {exact}, which roundings move by "
                f"{far[at].item():.3g}; {int(wrong.sum())} wrong"
            )
        self.unsure |= bool((far > 0.01 * (1 + b.double().nan_to_num(0, 0, 0).abs())).any())


def is_alike(found: torch.Tensor, eager: torch.Tensor) -> bool:
    return (found.dtype, found.shape, steps(found)) == (eager.dtype, eager.shape, steps(eager))


def assert_alike(found: torch.Tensor, eager: torch.Tensor, what: str) -> None:
    assert found.dtype == eager.dtype, f"{what}: {found.dtype}, not {eager.dtype}"
    assert found.shape == eager.shape, f"{what}: {found.shape}, not {eager.shape}"
    assert steps(found) == steps(eager), f"{what}: strides {found.stride()}, not {eager.stride()}"


def is_close(found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None) -> bool:
    """Whether numbers are equal, or as near to the exact ones as torch's give or take a few units in the last place."""
    if torch.equal(found, eager) or found.numel() == 0:
        return True
    if not eager.dtype.is_floating_point or exact is None or exact.shape != eager.shape:
        return False
    a, b, c = found.double(), eager.double(), exact.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return bool((same | ((a - c).abs() <= (b - c).abs() + 4 * allowance(c, eager.dtype))).all())


def wholes(arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    """All of the memory that each argument lies in."""
    return [
        torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()) if isinstance(x, torch.Tensor) else torch.tensor(x)
        for x in arguments
    ]


@dataclass
class Outcome:
    """What one or many checked programs came to."""

    programs: int = 0
    groups: int = 0
    """Groups that ran as kernels."""
    unsure: int = 0
    """Programs with numbers that roundings decide (ties, norms of equal numbers): not compared there."""
    changed: int = 0
    """Programs that torch's compiler made others of (it drops writes in loops to what the next round reads, and does not know
    every index that Python takes): judged by what torch's interpreter makes of what it left."""

    def __add__(self, other: Outcome) -> Outcome:
        mine, its = (dataclasses.astuple(x) for x in (self, other))
        return Outcome(*(a + b for a, b in zip(mine, its, strict=True)))


def check_call(executable: Executable, truth: Truth, guard: Guard | None = None) -> Outcome:
    """One call of the compiled program against torch."""
    mine = truth.program.fresh()
    found = flat(executable(*mine))
    if guard is not None:
        guard.assert_untouched()
    try:
        truth.judge(found, mine)
    except AssertionError:
        left = truth.left
        if is_what_was_written(left, truth):
            raise
        left.judge(found, mine)
        return Outcome(unsure=left.unsure, changed=1)
    return Outcome(unsure=truth.unsure)


def interpreted(program: TorchProgram) -> Callable[..., Any]:
    """The scripted program, run without the passes that go by what earlier runs were given."""
    scripted = program.scripted()

    def run(*given: Any) -> Any:
        with torch.jit.optimized_execution(False):
            return scripted(*given)

    return run


def is_what_was_written(left: Truth, truth: Truth) -> bool:
    try:
        truth.judge(left.wanted, left.given)
    except AssertionError:
        return False
    return True


def whimsical(candidate: Any) -> float:
    """A score that is legal and has no sense."""
    return float((7919 * candidate.producer_index + 104729 * candidate.consumer_index) % 13 - 3)


POLICIES: tuple[Any, ...] = ("greedy", "min-bytes", "torch-legacy", whimsical)


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


def is_taken(function: Callable[..., Any], program: TorchProgram) -> bool:
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*program.fresh())
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return True


def check(seed: int, *, device: str = "cpu") -> Outcome:
    """One random program through the whole path."""
    program = torch_program(seed, 6 + seed % 17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return check_program(program, seed, device)
        except IrscopeError:
            if is_taken(interpreted(program), program):
                raise
            return Outcome(1, changed=1)


def check_program(program: TorchProgram, seed: int, device: str = "cpu") -> Outcome:
    """A program through the whole path, on the way that the seed says."""
    dynamic = seed % 3 == 0
    graph = irs.load(program.scripted(), *(() if dynamic else program.arguments))
    limits = {"max_nodes": 4 + seed % 11, "max_arguments": 5 + seed % 5} if seed % 5 == 0 else {}
    fusion = irs.fuse(graph, policy=POLICIES[seed % len(POLICIES)], **limits)
    truth = Truth(program.eager(), program)
    with guarded() as guard:
        executable = compile_graph(fusion, device, disk_cache=False)
        calls = check_call(executable, truth, guard)
        for _ in range(
            seed % 4 + seed % 2
        ):  # later calls go by what earlier ones learnt, and from the third on as Python
            calls += check_call(executable, truth, guard)
        if dynamic and (other := resized(program, seed // 3)) is not None:
            another = Truth(other.eager(), other)
            for now in (another, truth, another, another, truth)[: 1 + seed % 5]:
                calls += check_call(executable, now, guard)
    groups = len({group for kernel in executable.kernels for group in kernel.groups})
    return Outcome(1, groups, min(calls.unsure, 1), min(calls.changed, 1))
