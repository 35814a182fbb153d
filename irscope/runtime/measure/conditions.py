"""What a measurement sees to: how many threads run, that arguments which are written are restored, that freed memory is kept, and what
the user's own function is.
"""

import ctypes
import operator
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from irscope._base.nested import by_storage, leaves
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import ArgumentError
from irscope.ir import Graph, check_count
from irscope.runtime.arrays import are_torchs, host_array, is_cupys, is_foreign, is_torch_tensor, off_the_gpu, on_processor, torch_is_there
from irscope.runtime.cpu import CpuDevice

# The number of threads that a measurement runs on: as many as usual, or one where other programs keep the processors busy.
#
# Two threads of one op wait for each other. Where another program has the processor of one of them, the other waits for the rest
# of a time slice, some milliseconds, whatever the op takes: a hundred times as long. One thread does not wait, and what others
# take of it is known (`irscope.runtime.timer`). So who measures asks first what others take, and who has one thread keeps the
# libraries to it: torch, the BLAS of NumPy, and our own kernels, which take theirs from torch or are told when compiled. JAX
# starts its threads once for the whole process.

P = ParamSpec("P")
T = TypeVar("T")

_LOOK: Final = 0.1
"""Seconds for which other programs are watched: ten ticks of the system's counter."""
_TAKEN: Final = 0.5
"""The part of a processor that others may take before it counts as taken."""
_BLAS: Final = tuple(f"{begin}openblas_{{}}_num_threads{end}" for begin in ("scipy_", "") for end in ("64_", ""))
"""The names under which OpenBLAS has its number of threads, to be read (`get`) and changed (`set`)."""


@dataclass(frozen=True, slots=True)
class Threads:
    """A number of threads, and what to say of it."""

    count: int
    warning: str = ""
    """Why the times may not be those of a quiet machine."""
    is_busy: bool = False
    """Whether other programs keep the processors busy."""
    is_asked: bool = False
    """Whether the user wants this number, whatever others do."""


def threads_for(asked: int | None) -> Threads:
    """Returns the number of threads to measure with. Raises ArgumentError for a number that is none."""
    check_threads(asked)
    usual = CpuDevice().threads
    count, processors, taken = asked or usual, len(_processors()), others()
    if taken <= max(processors - count, 0) + _TAKEN:
        return Threads(count, is_asked=asked is not None)
    busy = f"Other programs keep {taken:.1f} of {processors} processors busy"
    if asked is None and usual > 1:
        return Threads(1, f"{busy}: measured on one thread, in place of {usual}.", True)
    advice = " threads=1 is disturbed less." if count > 1 else " What they took of this thread is not counted."
    return Threads(count, f"{busy}.{advice}", True, asked is not None)


def check_threads(asked: object) -> None:
    """Raises ArgumentError for a number of threads that is none."""
    if asked is not None and (not isinstance(asked, int) or isinstance(asked, bool) or asked < 1):
        raise ArgumentError(f"there cannot be {asked!r} threads", hint="threads=1 disturbs and is disturbed least")


def others() -> float:
    """Returns how many processors other programs use now, of those that this one may use."""
    before = _busy_seconds()
    if before is None:  # a mean of the last minute, this program included
        return max(os.getloadavg()[0] - 1.0, 0.0) if hasattr(os, "getloadavg") else 0.0
    own, start = time.process_time(), time.perf_counter()
    time.sleep(_LOOK)
    own, lasted = time.process_time() - own, time.perf_counter() - start
    return min(max((_busy_seconds() or 0.0) - before - own, 0.0) / lasted, float(len(_processors())))


def _processors() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _busy_seconds() -> float | None:
    """Returns the seconds for which the processors were busy since the system started; None where it does not say."""
    here = {f"cpu{number}" for number in _processors()}
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        times = [[int(word) for word in words[1:9]] for words in lines if words and words[0] in here]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    return sum(sum(each) - each[3] - each[4] for each in times) / ticks if times else None  # without idle and waiting


def with_threads(count: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of a call during which torch and NumPy's BLAS use this many threads, whatever interrupts it.

    torch is imported first if it is there: what a program of arrays calls of it would come later, with all its threads.
    """
    torch = import_module("torch") if torch_is_there() else None
    switches = list(_blas())
    if torch is not None:
        switches.insert(0, (torch.get_num_threads, torch.set_num_threads))
    before = [get() for get, _ in switches]
    if all(each == count for each in before):
        return work(*args, **kwargs)
    try:
        for _, change in switches:
            change(count)
        return work(*args, **kwargs)
    finally:
        for (_, change), number in zip(switches, before, strict=True):
            change(number)


_Switch = tuple[Callable[[], int], Callable[[int], Any]]


def _blas() -> Iterator[_Switch]:
    """Yields those of the OpenBLAS libraries that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for path in sorted({line.split(None, 5)[5] for line in lines if "openblas" in line and line.count("/")}):
        with suppress(OSError):
            library = ctypes.CDLL(path)
            for name in _BLAS:
                if hasattr(library, name.format("set")):
                    yield getattr(library, name.format("get")), getattr(library, name.format("set"))
                    break


# Detection of the tensors that a program writes, and their restoration before the next run.


class ArgumentSnapshot:
    """The tensors passed to a program that it may write, and the saved contents of those that it does write."""

    def __init__(self, *programs: tuple[Graph, Sequence[Any]]) -> None:
        """Programs with their arguments. What the alias db says is never written is not copied, as the parameters of a model may be half of
        the memory; arguments that share memory are: what is written through one of them, the program may say of another."""
        given = []
        for graph, args in programs:
            check_count(graph, args)
            writes = alias_db_of(graph).has_writers
            held_by = [*zip(graph.free_inputs, args, strict=True), *graph.bound.items()]
            given += [held for value, held in held_by if writes(value)]
            every = dict(enumerate(leaves(args)))
            places = by_storage(every)
            shared = Counter(places.values())
            given += [every[key] for key, place in places.items() if shared[place] > 1]
        found = {id(value): value for value in leaves(given)}.values()
        held = [host_array(value) if is_foreign(value) and on_processor(value) else value for value in found]
        self.tensors = [_once(value) for value in held if _is_array(value) or str(getattr(value, "layout", "")) == "torch.strided"]
        self.saved: list[tuple[Any, Any]] = []

    @property
    def is_written(self) -> bool:
        return bool(self.saved)

    def watch(self, run: Callable[[], T]) -> T:
        """Runs once, finds out what was written, by this run or one before, and restores it; returns the result of the run."""
        before = [(tensor, copied(tensor)) for tensor in self.tensors]
        try:
            return run()
        finally:
            known = {id(tensor) for tensor, _ in self.saved}
            self.saved += [(tensor, copy) for tensor, copy in before if id(tensor) not in known and not _same(tensor, copy)]
            self.restore()

    def restore(self) -> None:
        for tensor, copy in self.saved:
            if _is_array(tensor):
                # one of NumPy that is read-only was written through another, which is restored
                if not isinstance(tensor, np.ndarray) or tensor.flags.writeable:
                    tensor[...] = copy
            else:
                tensor.detach().copy_(copy)


def _once(tensor: Any) -> Any:
    """Returns the elements of an expanded tensor as a view that has each of them once, and can be written."""
    strides = tensor.strides if _is_array(tensor) else tensor.stride()
    return tensor[tuple([slice(1) if stride == 0 else slice(None) for stride in strides])] if 0 in strides else tensor


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_cupys(value)


def copied(value: Any) -> Any:
    """Returns a copy of a tensor, with its strides where torch or NumPy keep them; anything else as it is."""
    if _is_array(value):
        return value.copy("K") if isinstance(value, np.ndarray) else value.copy()
    return value.detach().clone() if is_torch_tensor(value) else value


def _same(tensor: Any, copy: Any) -> bool:
    if _is_array(tensor):
        return np.array_equal(off_the_gpu(tensor), off_the_gpu(copy), equal_nan=tensor.dtype.kind in "fc")
    return bool(((tensor == copy) | ((tensor != tensor) & (copy != copy))).all())


# Settings of the C library's allocator that keep freed memory while competitors are measured.
#
# glibc returns a freed block of more than 32 MiB to the system, and the next one costs a page fault every 4 KiB: more than a
# fused kernel takes to fill it. A competitor with more temporaries would then lose more, for a reason outside of it. While
# memory is kept, each competitor reuses what the previous one has freed.

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_LARGEST_THRESHOLD: Final = 32 << 20
"""The limit of glibc's own adjustment of its thresholds, which stops for good when one of them is set."""
_DEFAULTS: Final = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: _LARGEST_THRESHOLD, _TRIM_THRESHOLD: 2 * _LARGEST_THRESHOLD}
"""The values set afterwards, in this order."""


def with_kept_memory(work: Callable[[bool], T]) -> T:
    """Returns the result of a call during which freed memory is kept; its argument says whether that works here (Linux with
    glibc). Afterwards the memory returns to the system and allocation is as before.
    """
    libc: Any = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    if not hasattr(libc, "gnu_get_libc_version") or not hasattr(libc, "mallopt"):
        return work(False)
    try:
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        return work(True)
    finally:
        deque(map(libc.mallopt, _DEFAULTS, _DEFAULTS.values()), 0)  # in C: an interrupt between the two would last
        libc.malloc_trim(0)


def no_gradients() -> AbstractContextManager[object]:
    """Returns the context in which torch, if it is there, records no gradients."""
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None and hasattr(torch, "no_grad") else nullcontext()


# What the user wrote, as a competitor: the NumPy function itself, `jax.jit` of a JAX function, a torch model in eager mode.


class OwnFunction:
    """The function or model that a program was read from, called with the arguments as the user passed them."""

    def __init__(self, label: str, function: Callable[..., Any], given: Sequence[Any], flat: Sequence[Any]) -> None:
        self.label = label
        self.function = function
        self._nested = None if len(given) == len(flat) and all(map(operator.is_, given, flat)) else tuple(given)

    def __call__(self, *flat: Any) -> Any:
        return self.function(*(flat if self._nested is None else self._nested))


def own_function(graph: Graph, given: Sequence[Any], flat: Sequence[Any]) -> OwnFunction | None:
    """Returns what the user wrote, for arguments as they were given and flattened; None for a program from elsewhere."""
    function = None if graph.origin is None else graph.origin.function
    if function is None:
        return None
    if graph.functional == "StableHLO":
        jax = sys.modules.get("jax")
        if jax is None:
            return None
        jitted = jax.jit(function)
        return OwnFunction("jax.jit", lambda *args: jax.block_until_ready(jitted(*args)), given, flat)
    return OwnFunction("eager" if are_torchs([*flat, *graph.bound.values()]) else "NumPy", function, given, flat)
