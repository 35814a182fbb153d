"""A launch plan on a GPU: the entry, the number of blocks, and the arguments as the driver takes them.

All but the pointers is laid out when a plan is prepared. A call checks the pointers' alignment, which decides between the
entry for vectors and the one for any alignment, and passes each launch to the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from irscope.codegen.cuda import Schedule, alignments, grid_of, stride_arguments
from irscope.codegen.kernel import ITEM_SIZE, Launch, LaunchPlan, Operand, SplitReduction, is_float
from irscope.errors import ArgumentError, CodegenError, IrscopeError, RunError
from irscope.runtime.arrays import NO_MEMORY
from irscope.runtime.cuda.driver import CaptureArena, Gpu, Lease, Owner
from irscope.runtime.device import OnlyLaunch

__all__ = ["CudaPlan", "Step", "laid_out"]

_ALIGNMENT: Final = 256
_MOST_BLOCKS: Final = 2**31 - 1
_STREAMS: Final = 8
"""The number of streams for which a plan keeps its temporary memory."""


@dataclass(frozen=True, eq=False)
class Step:
    """One launch with everything laid out except the pointers."""

    kernel: Any
    """Has `any_entry` and `vector_entry`."""
    launch: Launch
    block: int
    grid: tuple[int, int]
    vector_grid: tuple[int, int]
    aligned: tuple[int, ...] | None
    """For results and operands, the alignment in bytes that the vector entry requires; None if it must not be used."""
    items: tuple[int, ...]
    """For results and operands, the bytes of an element; 0 for a number or an index."""
    numbers: tuple[Any, ...]
    """The arguments after the operands, for the entry that takes any alignment."""
    vector_numbers: tuple[Any, ...]
    """The arguments after the operands, for the vector entry."""
    mask: int
    """The bits that no aligned address has set; -1 where operands must be checked one by one."""

    def arguments(self, outputs: Sequence[int], inputs: Sequence[float]) -> tuple[bool, tuple[Any, ...]]:
        """Returns whether the vector entry may be used, and all arguments; Python integers are 64 bits for CuPy."""
        launch = self.launch
        if self.mask >= 0:
            words: list[Any] = [outputs[i] for i in launch.writes]
            words += [inputs[i] for i in launch.reads]
            if 0 in words:
                self._check_memory(words)
            together = 0
            for word in words:
                together |= word
            if not together & self.mask:
                vector = self.aligned is not None
                return vector, (*words, *(self.vector_numbers if vector else self.numbers))
        return self._one_by_one(outputs, inputs)

    def _one_by_one(self, outputs: Sequence[int], inputs: Sequence[float]) -> tuple[bool, tuple[Any, ...]]:
        launch = self.launch
        words: list[float] = [outputs[i] for i in launch.writes]
        words += [inputs[i] if i >= 0 else 0 for i in launch.reads]
        self._check_memory(words)
        if launch.offsets:
            moves = zip(words, launch.offsets, self.items, strict=True)
            words = [word + offset * (item or 1) if offset else word for word, offset, item in moves]
        vector = self.aligned is not None
        for slot, (word, item) in enumerate(zip(words, self.items, strict=True)):
            if item:
                if vector and self.aligned is not None and word % self.aligned[slot]:
                    vector = False
                if word % item:
                    raise _misaligned(launch, slot, int(word), item)
        count = len(launch.writes)
        args: list[Any] = [int(word) for word in words[:count]]
        for operand, word in zip(launch.spec.inputs, words[count:], strict=True):
            args.append(_packed(operand, word))
        return vector, (*args, *(self.vector_numbers if vector else self.numbers))

    def _check_memory(self, words: Sequence[float]) -> None:
        """Refuses a tensor without memory where elements are read: after an invalid address the GPU runs nothing more."""
        if self.launch.elements and any(item and not word for word, item in zip(words, self.items, strict=True)):
            raise ArgumentError(NO_MEMORY, hint="pass a tensor that has elements", rule="no-memory")


def laid_out(kernel: Any, launch: Launch, schedule: Schedule, part: tuple[int, int] = (1, 0)) -> Step:
    """Returns a step; for a partial launch, `part` has the number of parts and the elements of one part's results."""
    spec = launch.spec
    grid = grid_of(launch, schedule, vector=False, parts=part[0])
    vector_grid = grid_of(launch, schedule, vector=True, parts=part[0])
    if max(grid[0], vector_grid[0]) > _MOST_BLOCKS:
        raise CodegenError(
            f"a launch over {launch.elements:,} points needs more blocks than a GPU has", rule="codegen-size"
        )
    numbers: list[Any] = [np.int64(size) for size in launch.sizes]
    numbers += [np.int64(launch.strides[slot][loop]) for slot, loop in stride_arguments(spec)]
    items = [ITEM_SIZE[result.dtype] for result in spec.outputs]
    items += [ITEM_SIZE[operand.dtype] if operand.kind == "tensor" else 0 for operand in spec.inputs]
    aligned = alignments(launch) if schedule.width > 1 else None
    mask = -1 if launch.offsets or not all(items) else max(items + list(aligned or ())) - 1
    return Step(
        kernel, launch, schedule.block, grid, vector_grid, aligned, tuple(items),
        (*numbers, *_of_parts(launch, schedule, part, 1)), (*numbers, *_of_parts(launch, schedule, part, schedule.width)),
        mask,
    )  # fmt: skip


def _of_parts(launch: Launch, schedule: Schedule, part: tuple[int, int], width: int) -> tuple[Any, ...]:
    """Returns the steps of a part, enough vectors that all parts together cover the reduced loops, and its results' size."""
    if not schedule.partial:
        return ()
    points = prod(launch.sizes[loop] for loop in launch.spec.reduced)
    if not launch.spec.by_columns:
        points //= width
    return np.int64(-(-points // part[0])), np.int64(part[1])


class CudaPlan:
    """A launch plan ready to run on the current stream; safe to call from many threads."""

    def __init__(
        self, plan: LaunchPlan, kernels: tuple[Any, ...], steps: Sequence[Step], temporaries: Sequence[int],
        gpu: Gpu | None, held: CaptureArena, unavailable: IrscopeError | None = None,
    ) -> None:  # fmt: skip
        """`temporaries`: bytes of each piece of temporary memory. Without a GPU a call raises `unavailable`."""
        self.plan = plan
        self.kernels = kernels
        self.steps = tuple(steps)
        self.threads = 1
        self.gpu = gpu
        self.held = held
        self.unavailable = unavailable
        self.owner: Owner = ""
        self.single: OnlyLaunch | None = None
        self.starts = [0]
        for nbytes in temporaries:
            self.starts.append(self.starts[-1] + -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
        self._leases: dict[int, Lease] = {}
        self._of_graphs: list[Lease] = []
        """Memory of graphs that another library recorded, never freed: their end of life is not observable."""
        self._launch_lock = threading.Lock()
        """Threads share a stream, and with it the temporary memory: the launches of one call must stay together."""

    def on(self, owner: Owner) -> CudaPlan:
        """Returns the same plan for arrays of this library: on its current stream, with memory from its allocator."""
        found = copy(self)
        found.owner, found._leases = owner, {}
        return found

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Launches on device addresses (and numbers); see `irscope.runtime.device.protocol.PreparedPlan`. Does not wait.

        Raises DeviceUnavailable without a GPU, ArgumentError for invalid addresses, RunError when memory
        is short or the driver refuses.
        """
        gpu = self.gpu
        if gpu is None:
            assert self.unavailable is not None
            raise self.unavailable
        if gpu.count > 1:
            self._check_owner(gpu, outputs, inputs)
            with gpu.selected():
                self._run(gpu, outputs, inputs)
        else:
            self._run(gpu, outputs, inputs)

    def _run(self, gpu: Gpu, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        stream = gpu.stream(self.owner)
        if len(self.starts) == 1:
            self._launch(gpu, stream, outputs, inputs)
            return
        with self._launch_lock:
            lease = self._memory(gpu, stream)
            own = [lease.ptr + start for start in self.starts[:-1]]
            self._launch(gpu, stream, [*outputs, *own], [*inputs, *own])

    def _launch(self, gpu: Gpu, stream: int, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        for step in self.steps:
            vector, args = step.arguments(outputs, inputs)
            entry = step.kernel.vector_entry if vector else step.kernel.any_entry
            grid = step.vector_grid if vector else step.grid
            try:
                gpu.launch(entry, grid, step.block, args, stream)
            except IrscopeError:
                raise
            except Exception as error:
                raise RunError(
                    f"the driver refuses to launch {step.launch.spec.name}: {error}",
                    hint="an earlier kernel may have failed: CUDA reports errors late; a new process starts clean",
                    rule="cuda-launch",
                ) from error

    def _memory(self, gpu: Gpu, stream: int) -> Lease:
        """Returns temporary memory: one piece for each stream, whose launches run in order; a graph has its own."""
        graphs = self._of_graphs if self.held.leases is None else self.held.leases
        if self.held.leases is not None or gpu.is_capturing(self.owner):
            graphs.append(gpu.memory(self.starts[-1], self.owner))
            return graphs[-1]
        kept = self._leases.get(stream)
        if kept is None:
            kept = gpu.memory(self.starts[-1], self.owner)
            if len(self._leases) < _STREAMS:
                self._leases[stream] = kept
        return kept

    def _check_owner(self, gpu: Gpu, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        tensors = {i for launch in self.plan.launches for i, operand in zip(launch.reads, launch.spec.inputs, strict=True)
                   if operand.kind == "tensor"}  # fmt: skip
        here = gpu.key[0]
        for what, address in [
            *(("a result", at) for at in outputs),
            *((f"input {i}", inputs[i]) for i in sorted(tensors)),
        ]:
            owner = gpu.owner(int(address)) if address else here
            if owner != here:
                where = f"GPU {owner}" if owner >= 0 else "no GPU's memory"
                raise ArgumentError(
                    f"{what} lies in {where}, and the kernel runs on GPU {here}", hint="move it with .to('cuda'), or "
                    "select the GPU with torch.cuda.set_device before compiling", rule="wrong-device",
                )  # fmt: skip


def _packed(operand: Operand, word: float) -> Any:
    if operand.kind == "tensor":
        return int(word)
    return np.float64(word) if operand.kind == "scalar" and is_float(operand.dtype) else np.int64(word)


def _misaligned(launch: Launch, slot: int, address: int, item: int) -> ArgumentError:
    results = len(launch.writes)
    what = f"result {launch.writes[slot]}" if slot < results else f"input {launch.reads[slot - results]}"
    return ArgumentError(
        f"{what} starts at {address:#x}, which is not aligned to its elements of {item} bytes",
        hint="copy it into a tensor of its own", rule="misaligned",
    )  # fmt: skip


def temporaries_of(split: SplitReduction) -> list[int]:
    """Returns the bytes of each temporary between the launches of a split one."""
    return [elements * ITEM_SIZE[dtype] for dtype, elements in split.temporaries]
