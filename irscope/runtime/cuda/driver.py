"""The GPU functions that kernels need: code loading, launches, temporary memory, and the stream to run on.

Only `CupyGpu` talks to the driver. A test replaces it by an object with the same methods.
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
"""The library of the arrays: a kernel uses the stream on which they were created, and memory from its allocator."""


class Lease(Protocol):
    """Memory that is returned when the last reference to this object is dropped."""

    @property
    def ptr(self) -> int:
        """The start address."""


class Gpu(Protocol):
    """One GPU; its methods may be called from many threads."""

    @property
    def key(self) -> tuple[int, str]:
        """Its number and compute capability ("90"), which are part of the key of loaded kernels."""

    @property
    def multiprocessors(self) -> int: ...

    @property
    def count(self) -> int:
        """The number of GPUs in the machine."""

    def load(self, code: bytes) -> Any:
        """Returns a module, whose `get_function(name)` returns an entry."""

    def launch(self, entry: Any, grid: tuple[int, int], block: int, args: Sequence[Any], stream: int) -> None:
        """Launches an entry on a stream; does not wait."""

    def selected(self) -> AbstractContextManager[Any]:
        """Makes this the calling thread's GPU for a time: a new thread starts with number 0."""

    def stream(self, owner: Owner = "") -> int:
        """Returns the stream that the caller works on with these arrays."""

    def memory(self, nbytes: int, owner: Owner = "") -> Lease:
        """Allocates memory for work on that stream. Raises RunError when there is not enough."""

    def is_capturing(self, owner: Owner = "") -> bool:
        """Checks whether launches on that stream are being recorded as a CUDA graph, by any library."""

    def owner(self, address: int) -> int:
        """Returns the number of the GPU that has this memory; -1 if no GPU does."""


class CaptureArena(threading.local):
    """The memory that must live as long as the CUDA graph that a thread is capturing."""

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
        """Returns the current stream of the library that owns the arrays; if the owner is unknown, CuPy's if one is in use,
        else torch's if torch uses the GPU, else the default one."""
        torch = self._torch(owner)
        return int(self._own_stream() if torch is None else torch.cuda.current_stream().cuda_stream)

    def _own_stream(self) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def _torch(self, owner: Owner) -> Any:
        """Returns torch if work runs on its stream, else None."""
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
        """Allocates from that library's allocator, which reuses the memory on the stream of the allocation."""
        cuda, torch = self.cupy.cuda, self._torch(owner)
        if torch is not None:  # its allocator also handles graph capture
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
    """A stream for CuPy's launch, which reads only `ptr`."""

    __slots__ = ("ptr",)

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def out_of_memory(nbytes: int) -> RunError:
    """Returns the error for temporary memory that cannot be allocated."""
    return RunError(
        f"the GPU has no {nbytes:,} bytes left for partial results",
        hint="free tensors, or call cupy.get_default_memory_pool().free_all_blocks() and torch.cuda.empty_cache()",
        rule="out-of-memory",
    )
