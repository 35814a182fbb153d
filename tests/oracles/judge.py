"""Whether a compiled program did what torch does op by op: numbers, types, layouts, writes, and the state of the generator.

Numbers that differ are held against a run in double precision, and where that does not settle it against runs with other
roundings (`tests.oracles.rounding`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tests.oracles.rounding import allowance, near, rounded_runs, spread
from tests.random_programs.torch_scripts import copied, whole

_SEED = 20
_FEW = 64
"""Units in the last place of the largest number that may be off where torch refuses to run with other roundings."""


@dataclass(frozen=True)
class Seen:
    """What a caller sees of a call."""

    results: list[Any]
    memories: list[torch.Tensor]
    """All of the memory that each tensor among the arguments lies in."""
    arguments: list[Any]
    generator: torch.Tensor

    @property
    def everything(self) -> list[Any]:
        return [*self.results, *self.memories, *self.arguments]

    @property
    def names(self) -> list[str]:
        kinds = {"result": self.results, "the memory of argument": self.memories, "argument": self.arguments}
        return [f"{kind} {index}" for kind, things in kinds.items() for index in range(len(things))]


def seen(function: Callable[..., Any], arguments: Sequence[Any]) -> Seen:
    """Call a function, with the generator in one known state."""
    torch.default_generator.manual_seed(_SEED)
    with torch.no_grad():
        results = flat(function(*arguments))
    memories = [whole(x) for x in arguments if isinstance(x, torch.Tensor)]
    return Seen(results, memories, list(arguments), torch.get_rng_state())


def flat(found: Any) -> list[Any]:
    if isinstance(found, dict):
        found = list(found.values())
    return [part for item in found for part in flat(item)] if isinstance(found, tuple | list) else [found]


def fresh(arguments: Sequence[Any], wide: bool = False) -> list[Any]:
    """Copies with the same layout, memory around the elements included; in double precision if they shall be wide."""
    return list(copied(arguments, wide=wide))


def surrounded(arguments: Sequence[torch.Tensor], filling: int) -> list[torch.Tensor]:
    """Copies with the same layout in memory that holds one number wherever no element lies, before, between and behind them."""
    found = []
    for x in arguments:
        sizes = [size if step else min(size, 1) for size, step in zip(x.shape, x.stride(), strict=True)]
        memory = torch.full((whole(x).numel() + 64,), filling, dtype=x.dtype)
        memory.as_strided(sizes, x.stride(), x.storage_offset()).copy_(x.as_strided(sizes, x.stride(), x.storage_offset()))
        found.append(memory.as_strided(x.shape, x.stride(), x.storage_offset()))
    return found


@dataclass
class Call:
    """A function of torch's with arguments: the truth that other functions are held against."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    unwritten: bool = False
    """Whether the results are memory that was never written, whose numbers say nothing."""
    wide: Callable[..., Any] | None = None
    """The function in double precision, where it names element types itself."""
    few: int | None = _FEW
    """Units that may be off where torch refuses other roundings; None: any, and the call is `unsure`."""
    unsure: bool = False
    """Whether roundings were found to decide what a number is."""

    @cached_property
    def wanted(self) -> Seen:
        return seen(self.function, fresh(self.arguments))

    @cached_property
    def exact(self) -> list[Any]:
        """Everything in double precision; empty where the function does not take such arguments."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # what numbers of no type become
        try:
            return seen(self.wide or self.function, fresh(self.arguments, wide=True)).everything
        except Exception:
            return []
        finally:
            torch.set_default_dtype(before)

    @cached_property
    def runs(self) -> list[Sequence[Any]]:
        """Everything with other roundings, several times."""
        return rounded_runs(lambda: seen(self.function, fresh(self.arguments)).everything)

    @cached_property
    def reads_beyond(self) -> bool:
        """Whether the results depend on memory in which no element of an argument lies: a defect of torch's, whose answer then is
        no truth (`native_group_norm` takes weights with steps for packed ones)."""
        one, two = (seen(self.function, surrounded(self.arguments, filling)).results for filling in (1, 0))
        of = [(real(a), real(b)) for a, b in zip(one, two, strict=True) if isinstance(a, torch.Tensor)]
        return any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in of)

    def complaint(self, found: Seen) -> str:
        """What differs from torch's; empty where nothing does."""
        if len(found.results) != len(self.wanted.results):
            return f"{len(found.results)} results, not {len(self.wanted.results)}"
        for index, (name, a, b) in enumerate(zip(found.names, found.everything, self.wanted.everything, strict=True)):
            if said := self._complaint(a, b, index):
                return f"{name}: {said}"
        if not torch.equal(found.generator, self.wanted.generator):
            return "the generator of random numbers is in another state"
        return ""

    def _complaint(self, a: Any, b: Any, index: int) -> str:
        if not isinstance(b, torch.Tensor):
            alike = type(a) is type(b) and (a == b or (a != a and b != b) or isinstance(a, float | complex))
            return "" if alike else f"{a!r}, not {b!r}"
        if not isinstance(a, torch.Tensor):
            return f"{a!r}, not a tensor"
        if _kind(a) != _kind(b):
            if any(isinstance(run[index], torch.Tensor) and _kind(run[index]) == _kind(a) for run in self.runs):
                self.unsure = True  # roundings have chosen another branch, or decide how many elements there are
                return ""
            return f"{_kind(a)}, not {_kind(b)}"
        a, b = real(a), real(b)
        return "" if self.unwritten or a.numel() == 0 or torch.equal(a, b) else self._other_numbers(a, b, index)

    def _other_numbers(self, a: torch.Tensor, b: torch.Tensor, index: int) -> str:
        c = real(self.exact[index]) if self.exact else None
        if not (isinstance(c, torch.Tensor) and c.shape == b.shape):
            c = None
        if c is not None and b.dtype.is_floating_point:
            x, y, z = a.double(), b.double(), c.double()
            same = (x == y) | (x.isnan() & y.isnan()) | ((x - z).abs() <= (y - z).abs() + 4 * allowance(z, b.dtype))
            if bool(same.all()):
                return ""
        elif bool(((a == b) | ((a != a) & (b != b))).all()):
            return ""
        runs = [real(run[index]) for run in self.runs]
        if len(runs) < 3 or any(not isinstance(run, torch.Tensor) for run in runs):
            if self.few is None:
                self.unsure = True
                return ""
            room = self.few * (torch.finfo(b.dtype).eps if b.dtype.is_floating_point else 0)
            size = float(b.double().abs().nan_to_num(0, 0, 0).max())
            return _first(a, b, ~torch.isclose(a, b, rtol=room, atol=room * size, equal_nan=True), c)
        far = spread(b, runs)
        right = near(a, b, c, far)
        if not bool(right.all()):
            return _first(a, b, ~right, c, far)
        self.unsure |= bool((far > 0.01 * (1 + b.double().nan_to_num(0, 0, 0).abs())).any())
        return ""


def _first(a: torch.Tensor, b: torch.Tensor, wrong: torch.Tensor, c: torch.Tensor | None, far: torch.Tensor | None = None) -> str:
    if not bool(wrong.any()):
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    exact = "" if c is None else f", exactly {c[at].item()}"
    moved = "" if far is None else f", which roundings move by {far[at].item():.3g}"
    return f"{a[at].item()} at {at}, not {b[at].item()}{exact}{moved}; {int(wrong.sum())} of {a.numel()}"


def _kind(x: torch.Tensor) -> tuple[Any, ...]:
    return x.dtype, tuple(x.shape), steps(x), x.layout


def real(x: Any) -> Any:
    """The numbers of a tensor in a form that torch can compare: complex ones as pairs, sparse ones with their zeros."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x if x.layout == torch.strided else x.to_dense()
    if x.is_complex():
        x = torch.view_as_real((x.to(torch.complex64) if x.dtype == torch.complex32 else x).resolve_conj())
    return x.to(torch.float32) if x.dtype.is_floating_point and x.dtype.itemsize == 1 else x


def steps(x: torch.Tensor) -> tuple[int, ...]:
    """The strides that say where an element lies."""
    if x.layout != torch.strided or not x.numel():
        return ()
    return tuple(step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1)
