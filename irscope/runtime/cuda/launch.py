"""A launch plan on a GPU: the driver's functions, the entry, the number of blocks, and the arguments as the driver takes them.

All but the pointers is laid out when a plan is prepared. A call checks the pointers' alignment, which decides between the
entry for vectors and the one for any alignment, and passes each launch to the driver.
"""

import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from types import SimpleNamespace
from typing import Any, Final, Literal

from irscope.codegen.cuda import Schedule, alignments, grid_of, stride_arguments
from irscope.codegen.kernel import ITEM_SIZE, Launch, LaunchPlan, is_float
from irscope.errors import ArgumentError, CodegenError, IrscopeError, RunError
from irscope.runtime.arrays import imported_cupy
from irscope.runtime.device import NO_MEMORY, PreparedPlan

Owner = Literal["", "cupy", "torch", "numpy"]
"""The library of the arrays: a kernel uses the stream on which they were created, and memory from its allocator."""
Lease = Any
"""Memory from the address `ptr` on, which is returned when the last reference to this object is dropped."""


class CaptureArena(threading.local):
    """The memory that must live as long as the CUDA graph that a thread is capturing."""

    leases: list[Any] | None = None


class CupyGpu:
    """The current GPU through CuPy: what kernels need of it, from many threads. Only this talks to the driver; a test replaces it by an
    object with the same methods."""

    def __init__(self) -> None:
        cupy = imported_cupy()
        self.cupy = cupy
        device = cupy.cuda.Device()
        self.key = (int(device.id), str(device.compute_capability))
        """Its number and compute capability ("90"), which are part of the key of loaded kernels."""
        self.name = str(cupy.cuda.runtime.getDeviceProperties(self.key[0])["name"].decode())
        self.multiprocessors = int(device.attributes["MultiProcessorCount"])
        self.count = int(cupy.cuda.runtime.getDeviceCount())
        """The number of GPUs in the machine."""

    def __repr__(self) -> str:
        return self.name

    def selected(self) -> AbstractContextManager[Any]:
        """Makes this the calling thread's GPU for a time: a new thread starts with number 0."""
        device: AbstractContextManager[Any] = self.cupy.cuda.Device(self.key[0])
        return device

    def load(self, code: bytes) -> Any:
        """Returns a module, whose `get_function(name)` returns an entry."""
        module = self.cupy.cuda.function.Module()
        try:
            with self.selected():
                module.load(code)
        except Exception as error:
            raise RunError(
                f"the driver does not load code for compute capability {self.key[1]}: {error}",
                hint="a driver older than NVRTC refuses its code: update the driver, or install the NVRTC of its CUDA",
                rule="cuda-load",
            ) from error
        return module

    def launch(self, entry: Any, grid: tuple[int, int], block: int, args: Sequence[Any], stream: int) -> None:
        """Launches an entry on a stream; does not wait."""
        entry((*grid, 1), (block, 1, 1), tuple(args), stream=SimpleNamespace(ptr=stream))  # all that CuPy reads

    def stream(self, owner: Owner = "") -> int:
        """Returns the current stream of the library that owns the arrays; if the owner is unknown, CuPy's if one is in use,
        else torch's if torch uses the GPU, else the default one."""
        torch = self._torch(owner)
        if torch is None:
            return self._own_stream()
        stream: int = torch._C._cuda_getCurrentRawStream(self.key[0])  # `current_stream()` makes an object, in 4 µs
        return stream

    def _own_stream(self) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def _torch(self, owner: Owner) -> Any:
        """Returns torch if work runs on its stream, else None."""
        torch = None if owner == "cupy" else sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        return torch if owner == "torch" or not self._own_stream() else None

    def is_capturing(self, owner: Owner = "") -> bool:
        """Checks whether launches on that stream are being recorded as a CUDA graph, by any library."""
        torch = self._torch(owner)
        if torch is not None:
            return bool(torch.cuda.is_current_stream_capturing())
        stream = self.cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def memory(self, nbytes: int, owner: Owner = "") -> Lease:
        """Allocates from that library's allocator, which reuses the memory on the stream of the allocation. Raises RunError when there
        is not enough."""
        cuda, torch = self.cupy.cuda, self._torch(owner)
        try:
            if torch is None:
                return cuda.alloc(nbytes)
            tensor = torch.empty(nbytes, dtype=torch.uint8, device="cuda")  # its allocator also handles graph capture
            return SimpleNamespace(ptr=int(tensor.data_ptr()), tensor=tensor)
        except (cuda.memory if torch is None else torch.cuda).OutOfMemoryError:
            raise RunError(
                f"the GPU has no {nbytes:,} bytes left for partial results",
                hint="free tensors, or call cupy.get_default_memory_pool().free_all_blocks() and torch.cuda.empty_cache()",
                rule="out-of-memory",
            ) from None

    def owner(self, address: int) -> int:
        """Returns the number of the GPU that has this memory; -1 if no GPU does."""
        found = self.cupy.cuda.runtime.pointerGetAttributes(address)
        return int(found.device) if getattr(found, "type", 2) in (2, 3) else -1  # device or managed memory


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
        launch, count = self.launch, len(self.launch.writes)
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
                    what = f"result {launch.writes[slot]}" if slot < count else f"input {launch.reads[slot - count]}"
                    raise ArgumentError(
                        f"{what} starts at {int(word):#x}, which is not aligned to its elements of {item} bytes",
                        hint="copy it into a tensor of its own", rule="misaligned",
                    )  # fmt: skip
        args: list[Any] = [int(word) for word in words[:count]]
        for operand, word in zip(launch.spec.inputs, words[count:], strict=True):
            is_number = operand.kind == "scalar" and is_float(operand.dtype)
            args.append(float(word) if is_number else int(word))
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
        raise CodegenError(f"a launch over {launch.elements:,} points needs more blocks than a GPU has", rule="codegen-size")
    numbers: list[Any] = [*launch.sizes, *[launch.strides[slot][loop] for slot, loop in stride_arguments(spec)]]
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
    return -(-points // part[0]), part[1]


class CudaPlan(PreparedPlan):
    """A launch plan ready to run on the current stream; safe to call from many threads."""

    def __init__(
        self, plan: LaunchPlan, kernels: tuple[Any, ...], steps: Sequence[Step], temporaries: Sequence[int],
        gpu: CupyGpu | None, held: CaptureArena, unavailable: IrscopeError | None = None,
    ) -> None:  # fmt: skip
        """`temporaries`: bytes of each piece of temporary memory. Without a GPU a call raises `unavailable`."""
        self.plan = plan
        self.kernels = kernels
        self.steps = tuple(steps)
        self.gpu = gpu
        self.held = held
        self.unavailable = unavailable
        self.owner: Owner = ""
        self.starts = [0, *accumulate(-(-nbytes // _ALIGNMENT) * _ALIGNMENT for nbytes in temporaries)]
        self._leases: dict[int, Lease] = {}
        self._of_graphs: list[Lease] = []
        """Memory of graphs that another library recorded, never freed: their end of life is not observable."""
        self._launch_lock = threading.Lock()
        """Threads share a stream, and with it the temporary memory: the launches of one call must stay together."""

    def on(self, owner: Owner) -> "CudaPlan":
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

    def _run(self, gpu: CupyGpu, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        stream = gpu.stream(self.owner)
        if len(self.starts) == 1:
            self._launch(gpu, stream, outputs, inputs)
            return
        with self._launch_lock:
            lease = self._memory(gpu, stream)
            own = [lease.ptr + start for start in self.starts[:-1]]
            self._launch(gpu, stream, [*outputs, *own], [*inputs, *own])

    def _launch(self, gpu: CupyGpu, stream: int, outputs: Sequence[int], inputs: Sequence[float]) -> None:
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

    def _memory(self, gpu: CupyGpu, stream: int) -> Lease:
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

    def _check_owner(self, gpu: CupyGpu, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        tensors = {i for launch in self.plan.launches for i, operand in zip(launch.reads, launch.spec.inputs, strict=True)
                   if operand.kind == "tensor"}  # fmt: skip
        here = gpu.key[0]
        for what, address in [*(("a result", at) for at in outputs), *((f"input {i}", inputs[i]) for i in sorted(tensors))]:
            owner = gpu.owner(int(address)) if address else here
            if owner != here:
                where = f"GPU {owner}" if owner >= 0 else "no GPU's memory"
                raise ArgumentError(
                    f"{what} lies in {where}, and the kernel runs on GPU {here}", hint="move it with .to('cuda'), or "
                    "select the GPU with torch.cuda.set_device before compiling", rule="wrong-device",
                )  # fmt: skip
