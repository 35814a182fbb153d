"""Whether a compiled program does to its caller just what torch does op by op.

Looked at: every number (against torch's, and against torch in double precision where rounding may differ), element types,
shapes, strides, which results and arguments are one memory, what is written into arguments and into the memory around
them, and that kernels write all of their results and nothing beside them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

import irscope as irs
from irscope.ir.types import TensorType
from irscope.runtime.executable import Executable, compile_graph
from irscope.runtime.memory import TorchMemory, extents
from tests.torch_programs import TorchProgram, torch_program

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
        inner = whole[_MARGIN : _MARGIN + span * dtype.itemsize].view(dtype)
        return inner.as_strided(shape, strides, inner.storage_offset())

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


def steps(x: torch.Tensor) -> tuple[int, ...]:
    """The strides that say where an element lies."""
    return tuple(step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1) if x.numel() else ()


def assert_close(
    found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None, what: str, shaken: torch.Tensor | None = None
) -> None:
    """As near to the exact numbers as torch's, give or take a few roundings; anything where they are at a jump, which is
    where arguments that differ a little give quite other numbers."""
    assert found.dtype == eager.dtype, f"{what}: {found.dtype}, not {eager.dtype}"
    assert found.shape == eager.shape, f"{what}: {found.shape}, not {eager.shape}"
    assert steps(found) == steps(eager), f"{what}: strides {found.stride()}, not {eager.stride()}"
    if torch.equal(found, eager) or found.numel() == 0:
        return
    sure = exact is None or exact.shape != eager.shape
    a, b = found.double(), eager.double()
    c = b if sure else exact.double()  # type: ignore[union-attr]
    if not eager.dtype.is_floating_point:
        wrong = (a != b) & (b == c)
        if shaken is not None and shaken.shape == eager.shape:
            wrong &= shaken.double() == b
    else:
        unit = torch.finfo(eager.dtype).eps * (400 if eager.dtype == torch.float32 else 8)
        unit = max(unit, 1e-6)
        finite = b.isfinite() & c.isfinite()
        size = c[finite].abs().max().item() if bool(finite.any()) else 1.0
        off = (b - c)[finite].abs().max().item() if bool(finite.any()) else 0.0
        room = unit * (1 + size) + 4 * off
        near = ((a - c).abs() <= room) | ((a - b).abs() <= room)
        same = near | (a == b) | (a == c) | (a.isnan() & (b.isnan() | c.isnan()))
        wrong = ~same & (
            (b - c).abs() <= 0.05 * (1 + size) if bool(finite.all()) else (b == c) | finite | (b.isnan() & c.isnan())
        )
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{what}: at {at} {a[at].item()}, torch {b[at].item()}, exactly {c[at].item()}; {int(wrong.sum())} wrong"
        )


def wholes(arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    """All of the memory that each argument lies in."""
    return [
        torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()) if isinstance(x, torch.Tensor) else torch.tensor(x)
        for x in arguments
    ]


def check_call(executable: Executable, program: TorchProgram, guard: Guard | None = None) -> None:
    """One call of the compiled program against torch."""
    function = program.eager()
    with torch.no_grad():
        given = program.fresh()
        wanted = flat(function(*given))
        exact_program = program.exact()
        exact_given = exact_program.fresh()
        try:
            exact: list[Any] = flat(exact_program.eager()(*exact_given))
        except (RuntimeError, IndexError, ValueError):
            exact, exact_given = [None] * len(wanted), (None,) * len(given)
        try:
            shaken: list[Any] = flat(function(*program.shaken()))
        except (RuntimeError, IndexError, ValueError):
            shaken = [None] * len(wanted)
    mine = program.fresh()
    found = flat(executable(*mine))
    if guard is not None:
        guard.assert_untouched()
    assert len(found) == len(wanted)
    for index, (a, b, c, d) in enumerate(zip(found, wanted, exact, shaken, strict=True)):
        assert_close(a, b, c, f"result {index}", d)
    assert sharing([*found, *mine]) == sharing([*wanted, *given]), "other results share memory than in torch"
    for index, (a, b, c) in enumerate(zip(mine, given, exact_given, strict=True)):
        if isinstance(a, torch.Tensor):
            assert_close(a, b, c, f"argument {index}")
            hidden, right, wide = (None if x is None else wholes((x,))[0] for x in (a, b, c))
            assert hidden is not None
            assert right is not None
            assert_close(hidden, right, wide, f"the memory of argument {index}")


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
    try:
        with torch.no_grad():
            other.eager()(*other.fresh())
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    return other


def is_kept_by_torch(program: TorchProgram) -> bool:
    """Whether torch's compiler leaves the program what it is: it drops writes in loops to what the next round reads."""
    with torch.no_grad():
        first, second = program.fresh(), program.fresh()
        found = [*flat(program.eager()(*first)), *first], [*flat(program.scripted()(*second)), *second]
    return all(
        not isinstance(a, torch.Tensor) or torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-3, equal_nan=True)
        for a, b in zip(*found, strict=True)
    )


def check(seed: int, *, device: str = "cpu") -> int:
    """One random program through the whole path; gives the number of its groups that have kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch_program(seed, 6 + seed % 17)
        try:
            return _check(seed, program, device)
        except AssertionError:
            if is_kept_by_torch(program):
                raise
            return 0


def _check(seed: int, program: TorchProgram, device: str) -> int:
    dynamic = seed % 3 == 0
    graph = irs.load(program.scripted(), *(() if dynamic else program.arguments))
    limits = {"max_nodes": 4 + seed % 11, "max_arguments": 5 + seed % 5} if seed % 5 == 0 else {}
    fusion = irs.fuse(graph, policy=POLICIES[seed % len(POLICIES)], **limits)
    with guarded() as guard:
        executable = compile_graph(fusion, device, disk_cache=False)
        check_call(executable, program, guard)
    if seed % 4 == 0:
        check_call(executable, program)  # a second call goes by what the first learnt
    if dynamic and (other := resized(program, seed // 3)) is not None:
        check_call(executable, other)
        check_call(executable, program)
    return len({group for kernel in executable.kernels for group in kernel.groups})
