"""One launch on the processor with everything laid out except the pointers: its parts, the threads they run on, and the time
that it is likely to take, which decides whether threads pay off and whether stores bypass the caches.

A part of an iteration space is a separate call with other pointers and extents. Kept loops are cut so that each part
has its own results; reduced loops are cut for launches that `irscope.codegen.kernel.launches` has prepared for it.
"""

import ctypes
import os
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import add
from typing import Any, Final

from irscope.codegen.kernel import ITEM_SIZE, TILE_ROWS, Launch, Operand, SplitReduction, is_float
from irscope.codegen.kernel.loops import loop_nest
from irscope.ops.expr import cycles_of
from irscope.runtime.cpu.openmp import OpenMP, StallBackoff
from irscope.runtime.device import NO_MEMORY

_HERTZ: Final = 3.0e9
_BYTES_PER_SECOND: Final = {"cache": 50.0e9, "memory": 8.0e9}
_LAST_LEVEL_CACHE: Final = 32 << 20
_LONG_ROW: Final = 2048
"""Bytes of a result's row from which its ends are negligible."""

_LINE: Final = 64
"""Bytes to which memory between launches is aligned."""

Function = Callable[[bytes, int], None]
"""A compiled kernel, called with the data block and the address of extents and strides; it keeps its machine code alive."""


class LaunchCall:
    """One launch with everything laid out except the pointers. Callers may call its kernel themselves, by
    `function(pack(*words), dims_address)`: words are addresses and numbers in the kernel's own order."""

    def __init__(self, function: Function, launch: Launch, ranges: "tuple[Range, ...]") -> None:
        self.function = function
        self.launch = launch
        self.ranges = ranges
        self.threads = len(ranges)
        self.moved = ranges[0].offsets
        """The bytes from each address to its first element."""
        self.dims_address = ranges[0].dims_address
        results, operands = len(launch.writes), launch.spec.inputs
        kinds = ["d" if operand.kind == "scalar" and is_float(operand.dtype) else "q" for operand in operands]
        self.pack: Callable[..., bytes] = struct.Struct("q" * results + "".join(kinds)).pack
        """Packs the kernel's arguments, with offsets added, into the block that it reads: floats as float64 and all else as int64."""
        tensors = [*range(results), *(place for place, operand in enumerate(operands, results) if operand.kind == "tensor")]
        self.addresses = tuple(tensors) if launch.elements else ()
        """The arguments, by position, that must not be 0: a kernel would crash the process by reading there. None where no element is
        read, since empty tensors have no memory either."""

    @cached_property
    def address(self) -> int:
        """The address of the kernel's machine code."""
        return ctypes.cast(self.function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        words = self._words(outputs, inputs)
        self.function(self.pack(*map(add, words, self.moved)), self.dims_address)

    def _words(self, outputs: Sequence[int], inputs: Sequence[float]) -> list[float]:
        """Returns the kernel's arguments before offsets are added: addresses and numbers; 0 for an index. Raises ValueError
        where a tensor has no memory."""
        launch = self.launch
        words = [*[outputs[i] for i in launch.writes], *[inputs[i] if i >= 0 else 0 for i in launch.reads]]
        if not all(words[place] for place in self.addresses):
            raise ValueError(NO_MEMORY)
        return words


class PoolCall(LaunchCall):
    """A launch on Python threads."""

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        words, function = self._words(outputs, inputs), self.function
        left = deque([(self.pack(*map(add, words, part.offsets)), part.dims_address) for part in self.ranges])

        def help() -> None:
            with suppress(IndexError):  # when no part is left
                while True:
                    function(*left.popleft())

        futures: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # no thread can be started: there is no memory for it, or the process ends
                futures.extend(_threads(os.getpid()).submit(help) for _ in self.ranges[1:])
            help()
        finally:
            left.clear()
            try:
                wait(futures)
            except KeyboardInterrupt:  # the caller may free the memory afterwards
                wait(futures)
                raise


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Returns the threads that run parts; a forked process has none of its parent's, and gets its own."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="irscope")


class TeamCall(LaunchCall):
    """A launch on torch's threads; see `irscope.runtime.cpu.openmp` for the block that they read."""

    def __init__(
        self, function: Function, launch: Launch, ranges: "tuple[Range, ...]", kernel: int, openmp: OpenMP,
        loop: Any, patience: StallBackoff,
    ) -> None:  # fmt: skip
        super().__init__(function, launch, ranges)
        words = len(launch.writes) + len(launch.reads)
        header = (openmp.thread_number, openmp.thread_count, kernel, len(ranges), words)
        self.head = struct.pack(f"{len(header) + len(ranges)}q", *header, *(part.dims_address for part in ranges))
        self.fork = openmp.fork
        self.loop, self.owner = loop.address, loop.machine
        self.patience = patience

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        pack, words = self.pack, self._words(outputs, inputs)
        data = [pack(*map(add, words, part.offsets)) for part in self.ranges]
        if self.patience.is_over():
            for datum, part in zip(data, self.ranges, strict=True):
                self.function(datum, part.dims_address)
            return
        start = time.perf_counter()
        self.fork(self.loop, b"".join((self.head, *data)), len(self.ranges), 0)
        self.patience.note(time.perf_counter() - start)


class SplitCall:
    """A launch that was split into several; memory for the values passed between them is allocated at each call."""

    def __init__(self, split: SplitReduction, kernels: tuple[Any, ...], calls: tuple[LaunchCall, ...]) -> None:
        self.kernels = kernels
        self.calls = calls
        self.threads = max((call.threads for call in calls), default=1)
        self.starts = [0, *accumulate(-(-elements * ITEM_SIZE[dtype] // _LINE) * _LINE for dtype, elements in split.temporaries)]

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        memory = (ctypes.c_uint8 * (self.starts[-1] + _LINE))()
        first = -(-ctypes.addressof(memory) // _LINE) * _LINE
        own = [first + start for start in self.starts[:-1]]
        for call in self.calls:
            call([*outputs, *own], [*inputs, *own])


@dataclass(frozen=True, eq=False)
class Range:
    """A part of an iteration space: the offset of each pointer in bytes (of an index in steps), and the block of extents
    and strides."""

    offsets: tuple[int, ...]
    dims: Any

    @property
    def dims_address(self) -> int:
        return ctypes.addressof(self.dims)


def split_kept(launch: Launch, parts: int, width: int) -> list[Range]:
    """Cuts the longest kept loop into about equal parts: the innermost loop only at multiples of the vector width, and rows
    that are computed in tiles only between the tiles."""
    kept = [loop for loop in range(len(launch.sizes)) if loop not in launch.spec.reduced]
    if not kept:
        return [Range(_moved(launch, 0, 0), _dims(launch, 0, launch.sizes[0]))]
    loop = max(kept, key=lambda loop: launch.sizes[loop])
    grain, least = 1, 1
    if loop == len(launch.sizes) - 1:
        grain, least = width * 4, width
    elif loop == len(launch.sizes) - 2 and launch.spec.is_turned:
        grain, least = TILE_ROWS, TILE_ROWS
    length = launch.sizes[loop]
    cuts = {length * part // parts // grain * grain for part in range(parts)}
    cuts = {cut for cut in cuts if cut + least <= length} | {0, length}
    return [Range(_moved(launch, loop, start), _dims(launch, loop, stop - start)) for start, stop in pairwise(sorted(cuts))]


def gather_cuts(launch: Launch, parts: int) -> list[int]:
    """Returns the cuts of the longest reduced loop, such that no part is short and blocks of rows stay whole."""
    loop = max(launch.spec.reduced, key=lambda loop: launch.sizes[loop])
    length = launch.sizes[loop]
    grain = 1024 if loop == launch.spec.rank - 1 else 16 if loop == launch.spec.reduced[-1] else 1
    return sorted({length * part // parts // grain * grain for part in range(parts)} | {length})


def gather_ranges(launch: Launch, parts: int, part_elements: int) -> tuple[Range, ...]:
    """Returns the parts of a reduced loop, each with its own results."""
    loop = max(launch.spec.reduced, key=lambda loop: launch.sizes[loop])
    ranges = []
    for number, (start, stop) in enumerate(pairwise(gather_cuts(launch, parts))):
        moved = list(_moved(launch, loop, start))
        for slot, result in enumerate(launch.spec.outputs):
            moved[slot] += number * part_elements * ITEM_SIZE[result.dtype]
        ranges.append(Range(tuple(moved), _dims(launch, loop, stop - start)))
    return tuple(ranges)


def _moved(launch: Launch, loop: int, start: int) -> tuple[int, ...]:
    """Returns each pointer's offset from the start of its tensor at the first point of a part."""
    offsets = launch.offsets or (0,) * len(launch.strides)
    found = []
    for tensor, strides, offset in zip(launch.spec.tensors, launch.strides, offsets, strict=True):
        unit = 1 if isinstance(tensor, Operand) and tensor.kind == "index" else ITEM_SIZE[tensor.dtype]
        found.append((offset + start * strides[loop]) * unit if strides else 0)
    return tuple(found)


def _dims(launch: Launch, loop: int, size: int) -> Any:
    """Returns the block of extents and strides of a part, which has this extent along a loop."""
    sizes = (*launch.sizes[:loop], size, *launch.sizes[loop + 1 :])
    rows = [stride for strides in launch.strides for stride in strides]
    return (ctypes.c_int64 * (len(sizes) + len(rows)))(*sizes, *rows)


def estimated_seconds(launch: Launch, vector_bytes: int) -> float:
    """Returns the time on one core, within a factor of two or three."""
    moved = launch.bytes_moved
    rate = _BYTES_PER_SECOND["memory" if moved > _LAST_LEVEL_CACHE else "cache"]
    return _compute_seconds(launch, vector_bytes) + moved / rate


def stores_should_stream(launch: Launch, vector_bytes: int) -> bool:
    """Checks whether results exceed the caches, memory rather than arithmetic bounds the speed, and rows are long: a cache
    line that bypasses the caches only in part costs far more than streaming saves."""
    spec = launch.spec
    everywhere = [result for result in spec.outputs if not spec.is_reduced(result)]
    if any(launch.sizes[-1] * ITEM_SIZE[result.dtype] < _LONG_ROW for result in everywhere):
        return False
    written = sum(ITEM_SIZE[result.dtype] for result in everywhere) * launch.elements
    if written <= _LAST_LEVEL_CACHE:
        return False
    return _compute_seconds(launch, vector_bytes) < 1.5 * launch.bytes_moved / _BYTES_PER_SECOND["memory"]


def _compute_seconds(launch: Launch, vector_bytes: int) -> float:
    inner_stage = map(launch.spec.instructions.__getitem__, loop_nest(launch.spec).stages[launch.spec.rank])
    cycles = 1.0 + sum(cycles_of(code.op, code.dtype) for code in inner_stage)  # of as many elements as a register has in float32
    return cycles * launch.elements * 4 / vector_bytes / _HERTZ
