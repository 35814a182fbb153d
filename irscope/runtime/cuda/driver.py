"""The GPU as far as kernels need it: load code, launch, memory between launches, the stream to run on.

`CupyGpu` is the only place that talks to the driver. A test puts an object with the same methods in its place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from irscope.errors import RunError
from irscope.runtime.arrays import imported_cupy

__all__ = ["CupyGpu", "Gpu", "CaptureArena", "Lease", "Owner"]

Owner = Literal["", "cupy", "torch", "numpy"]
"""Whose arrays a kernel works on: its stream must be that on which they were made, and its memory comes from there."""


class Lease(Protocol):
    """Memory that is given back when nobody holds this."""

    @property
    def ptr(self) -> int:
        """Where it starts."""


class Gpu(Protocol):
    """One GPU; its methods may be called from many threads."""

    @property
    def key(self) -> tuple[int, str]:
        """Its number and compute capability ("90"): loaded kernels are kept apart by them."""

    @property
    def multiprocessors(self) -> int: ...

    @property
    def count(self) -> int:
        """How many GPUs the machine has."""

    def load(self, code: bytes) -> Any:
        """A module, whose `get_function(name)` gives an entry."""

    def launch(self, entry: Any, grid: tuple[int, int], block: int, args: Sequence[Any], stream: int) -> None:
        """Start an entry on a stream; does not wait."""

    def selected(self) -> AbstractContextManager[Any]:
        """While it lasts, this is the calling thread's GPU: a new thread has number 0."""

    def stream(self, owner: Owner = "") -> int:
        """The stream that the caller works on with these arrays."""

    def memory(self, nbytes: int, owner: Owner = "") -> Lease:
        """Memory for work on that stream. Raises RunError when there is not enough."""

    def is_capturing(self, owner: Owner = "") -> bool:
        """Whether launches on that stream are being recorded as a CUDA graph, whoever records them."""

    def owner(self, address: int) -> int:
        """The number of the GPU whose memory this is; -1 if it is no GPU's."""


class CaptureArena(threading.local):
    """While a CUDA graph is captured in a thread: what must live as long as the graph."""

    leases: list[Any] | None = None


class CupyGpu:
    """The current GPU through CuPy."""

    def __init__(self) -> None:
        cupy = imported_cupy()
        self.cupy = cupy
        device = cupy.cuda.Device()
        self.key = (int(device.id), str(device.compute_capability))
        self.name = str(cupy.cuda.runtime.getDeviceProperties(self.key[0])["name"].decode())
        self.multiprocessors = int(device.attributes["MultiProcessorCount"])
        self.count = int(cupy.cuda.runtime.getDeviceCount())

    def __repr__(self) -> str:
        return self.name

    def selected(self) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = self.cupy.cuda.Device(self.key[0])
        return device

    def load(self, code: bytes) -> Any:
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
        entry((*grid, 1), (block, 1, 1), tuple(args), stream=_At(stream))

    def stream(self, owner: Owner = "") -> int:
        """The current stream of the library whose arrays these are; if nobody says whose: CuPy's if one is in use, else
        torch's if torch uses the GPU, else the default one."""
        torch = self._torch(owner)
        return int(self._own_stream() if torch is None else torch.cuda.current_stream().cuda_stream)

    def _own_stream(self) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def _torch(self, owner: Owner) -> Any:
        """Torch, if it is its stream that work goes to."""
        torch = None if owner == "cupy" else sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        return torch if owner == "torch" or not self._own_stream() else None

    def is_capturing(self, owner: Owner = "") -> bool:
        torch = self._torch(owner)
        if torch is not None:
            return bool(torch.cuda.is_current_stream_capturing())
        stream = self.cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def memory(self, nbytes: int, owner: Owner = "") -> Lease:
        """From the allocator of that library, which gives it back to the stream on which it was taken."""
        cuda, torch = self.cupy.cuda, self._torch(owner)
        if torch is not None:  # its allocator also knows of graphs that are recorded
            try:
                return _TorchLease(torch.empty(nbytes, dtype=torch.uint8, device="cuda"))
            except torch.cuda.OutOfMemoryError:
                raise out_of_memory(nbytes) from None
        try:
            lease: Lease = cuda.alloc(nbytes)
            return lease
        except cuda.memory.OutOfMemoryError:
            raise out_of_memory(nbytes) from None

    def owner(self, address: int) -> int:
        found = self.cupy.cuda.runtime.pointerGetAttributes(address)
        return int(found.device) if getattr(found, "type", 2) in (2, 3) else -1  # device or managed memory


class _TorchLease:
    """A tensor's memory."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.ptr = int(tensor.data_ptr())


class _At:
    """A stream as CuPy's launch wants it: it looks at nothing but `ptr`."""

    __slots__ = ("ptr",)

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def out_of_memory(nbytes: int) -> RunError:
    """What to say when memory between launches cannot be had."""
    return RunError(
        f"the GPU has no {nbytes:,} bytes left for partial results",
        hint="free tensors, or call cupy.get_default_memory_pool().free_all_blocks() and torch.cuda.empty_cache()",
        rule="out-of-memory",
    )
