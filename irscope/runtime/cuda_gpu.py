"""The GPU as far as kernels need it: load code, launch, memory between launches, the stream to run on.

`CupyGpu` is the only place that talks to the driver. A test puts an object with the same methods in its place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from irscope.errors import RunError
from irscope.runtime.cuda_compiler import imported_cupy

__all__ = ["CupyGpu", "Gpu", "Held", "Lease"]


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

    def stream(self) -> int:
        """The stream that the caller works on."""

    def memory(self, nbytes: int, stream: int) -> Lease:
        """Memory for work on a stream. Raises RunError when there is not enough."""

    def is_capturing(self) -> bool:
        """Whether launches on the caller's stream are being recorded as a CUDA graph, whoever records them."""

    def owner(self, address: int) -> int:
        """The number of the GPU whose memory this is; -1 if it is no GPU's."""


class Held(threading.local):
    """While a CUDA graph is captured in a thread: what must live as long as the graph."""

    leases: list[Any] | None = None


class CupyGpu:
    """The current GPU through CuPy."""

    def __init__(self) -> None:
        cupy = imported_cupy()
        self.cupy = cupy
        device = cupy.cuda.Device()
        self.key = (int(device.id), str(device.compute_capability))
        self.multiprocessors = int(device.attributes["MultiProcessorCount"])
        self.count = int(cupy.cuda.runtime.getDeviceCount())

    def load(self, code: bytes) -> Any:
        module = self.cupy.cuda.function.Module()
        module.load(code)
        return module

    def launch(self, entry: Any, grid: tuple[int, int], block: int, args: Sequence[Any], stream: int) -> None:
        entry((*grid, 1), (block, 1, 1), tuple(args), stream=_At(stream))

    def stream(self) -> int:
        """CuPy's stream if one is in use, else torch's if torch uses the GPU, else the default one."""
        torch = self._torch()
        return int(self._own_stream() if torch is None else torch.cuda.current_stream().cuda_stream)

    def _own_stream(self) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def _torch(self) -> Any:
        """Torch, if it is its stream that work goes to."""
        torch = sys.modules.get("torch")
        return None if torch is None or self._own_stream() or not torch.cuda.is_initialized() else torch

    def is_capturing(self) -> bool:
        torch = self._torch()
        if torch is not None:
            return bool(torch.cuda.is_current_stream_capturing())
        stream = self.cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def memory(self, nbytes: int, stream: int) -> Lease:
        cuda, torch = self.cupy.cuda, self._torch()
        if torch is not None:  # whose allocator knows of its streams and of graphs that are recorded
            try:
                return _TorchLease(torch.empty(nbytes, dtype=torch.uint8, device="cuda"))
            except torch.cuda.OutOfMemoryError:
                raise out_of_memory(nbytes) from None
        try:
            with cuda.ExternalStream(stream):  # the pool gives memory back to the stream that used it
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
