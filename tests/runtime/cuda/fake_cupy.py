"""A CuPy whose arrays lie in ordinary memory, and a driver that writes down what it is asked: what the launcher's tests
put in CuPy's place. Kernels run in the emulator.

It refuses what CuPy refuses: an array becomes NumPy's by `asnumpy` alone and takes nothing of NumPy's but by `asarray`, the
processor's arrays do not come in by DLPack, a stream must belong to the current GPU, and while a stream records nothing may
be copied to the processor or waited for. `test_cupy_signatures.py` compares its functions' arguments with CuPy's own.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.codegen.cuda_emulator import EmulatedGpu


class Memory:
    """A piece of memory as `cupy.cuda.alloc` gives it."""

    def __init__(self, nbytes: int) -> None:
        self.block = np.zeros(nbytes + 256, np.uint8)
        self.ptr = self.block.ctypes.data + -self.block.ctypes.data % 256
        self.mem = SimpleNamespace(ptr=self.ptr, size=nbytes)

    def __add__(self, offset: int) -> Memory:
        moved = object.__new__(Memory)
        moved.block, moved.ptr, moved.mem = self.block, self.ptr + offset, self.mem
        return moved


class FakeArray:
    """An array on the GPU, and not a NumPy array."""

    __array_priority__ = 100
    owner: FakeCupy
    """Of the class: `FakeCupy` makes one of its own."""

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> None:
        dtype = np.dtype(dtype)
        self.data = memptr or Memory(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        self.host = np.ndarray(shape, dtype, self.data.block, self.data.ptr - self.data.block.ctypes.data, strides)
        """Its elements, for tests to look at."""
        self.dtype, self.shape, self.strides = self.host.dtype, self.host.shape, self.host.strides
        self.itemsize, self.size, self.nbytes, self.ndim = (
            self.host.itemsize, self.host.size, self.host.nbytes, self.host.ndim
        )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, *given: Any, **more: Any) -> Any:
        raise TypeError("the fake computes nothing but kernels")

    __array_function__ = __array_ufunc__

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        self.owner.run(lambda: self.host.__setitem__(place, value.host if isinstance(value, FakeArray) else value))

    def copy(self, order: str = "C") -> FakeArray:
        return self.owner.array(self, order=order)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
            raise ValueError(f"On CUDA, the valid stream is -1, 1, 2, or any larger value, but {stream} was provided")
        return self.host.__dlpack__()


class OutOfMemory(MemoryError):
    """As `cupy.cuda.memory.OutOfMemoryError`."""


class FakeDriverError(RuntimeError):
    """As `cupy_backends.cuda.api.runtime.CUDARuntimeError`."""


class FakeEvent:
    def __init__(self, owner: FakeCupy) -> None:
        self.owner = owner
        self.time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Its time is the stream's when all work before it is done, in milliseconds."""
        self.owner.clock += self.owner.tick
        self.time = self.owner.clock

    @property
    def done(self) -> bool:
        """Whether the work before it is."""
        return self.owner.idle


class FakeStream:
    """A stream with a number; records launches while it captures."""

    def __init__(self, owner: FakeCupy, ptr: int = 0, device_id: int = -1) -> None:
        self.owner = owner
        self.ptr = ptr
        self.device_id = device_id

    def __enter__(self) -> FakeStream:
        if self.device_id not in (-1, self.owner.here):
            raise RuntimeError(f"The device that the stream is created on ({self.device_id}) does not match")
        self.owner.stack().append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self.owner.stack().pop()

    def synchronize(self) -> None:
        self.owner.may_wait()

    def record(self, event: Any = None) -> Any:
        """An event behind all work so far; it is done when the owner says so."""
        made = event or FakeEvent(self.owner)
        made.record(self)
        return made

    def is_capturing(self) -> bool:
        return self.owner.capturing is not None

    def begin_capture(self, mode: Any = None) -> None:
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        self.owner.capturing = []

    def end_capture(self) -> Any:
        if self.owner.capturing is None:
            raise FakeDriverError("cudaErrorIllegalState")
        calls, self.owner.capturing = self.owner.capturing, None

        def launch(stream: Any = None) -> None:
            for call in calls:
                call()

        return SimpleNamespace(launch=launch)


class FakeDevice:
    def __init__(self, owner: FakeCupy, device: int | None = None) -> None:
        self.owner = owner
        self.id = owner.here if device is None else int(device)
        self.compute_capability = "90"
        self.attributes = {"MultiProcessorCount": 4}
        self._before: list[int] = []

    def synchronize(self) -> None:
        self.owner.may_wait()

    def __enter__(self) -> FakeDevice:
        self._before.append(self.owner.here)
        self.owner.here = self.id
        return self

    def __exit__(self, *raised: object) -> None:
        self.owner.here = self._before.pop()


class FakeCupy(SimpleNamespace):
    def __init__(self, *, memory_limit: int = 1 << 40, devices: int = 1) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        """What the driver was asked to do."""
        self.capturing: list[Callable[[], None]] | None = None
        self.limit = memory_limit
        self.idle = True
        """Whether all work is done."""
        self.clock = 0.0
        """The stream's clock, in milliseconds."""
        self.tick = 0.0
        """By how much it goes on from one event to the next."""
        self.ndarray = type("ndarray", (FakeArray,), {"owner": self})
        self.owners: dict[int, int] = {}
        """The GPU of addresses that are not on the first one."""
        self._threads = threading.local()
        runtime = SimpleNamespace(
            getDeviceCount=lambda: devices, getDevice=lambda: self.here, getDeviceProperties=self._properties,
            pointerGetAttributes=self._attributes,
        )  # fmt: skip
        self.cuda = SimpleNamespace(
            alloc=self._alloc, runtime=runtime, memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
            Device=lambda device=None: FakeDevice(self, device), function=SimpleNamespace(Module=lambda: FakeModule(self)),
            Event=lambda block=True, disable_timing=False, interprocess=False: FakeEvent(self),
            get_elapsed_time=self._elapsed, get_current_stream=lambda device_id=-1: self.stack()[-1],
            Stream=lambda null=False, non_blocking=False, ptds=False, priority=None: FakeStream(self, 77, self.here),
            ExternalStream=self._external, MemoryPool=lambda allocator=None: SimpleNamespace(malloc=self._alloc),
            using_allocator=self._using,
        )  # fmt: skip

    @property
    def here(self) -> int:
        """The calling thread's GPU; a new thread has the first."""
        return getattr(self._threads, "device", 0)

    @here.setter
    def here(self, number: int) -> None:
        self._threads.device = number

    def stack(self) -> list[FakeStream]:
        """The streams in use in this thread, innermost last."""
        if not hasattr(self._threads, "streams"):
            self._threads.streams = [FakeStream(self)]
        streams: list[FakeStream] = self._threads.streams
        return streams

    def may_wait(self) -> None:
        """A copy to the processor, or waiting, breaks a recording."""
        if self.capturing is not None:
            raise FakeDriverError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")

    def run(self, work: Callable[[], None]) -> None:
        """Now, or when the recording is replayed."""
        if self.capturing is None:
            work()
        else:
            self.capturing.append(work)

    def _elapsed(self, start_event: FakeEvent, end_event: FakeEvent) -> float:
        if start_event.time is None or end_event.time is None:
            raise FakeDriverError("cudaErrorInvalidResourceHandle: invalid resource handle")
        return end_event.time - start_event.time

    def _properties(self, device: int) -> dict[str, Any]:
        return {"name": b"Fake H100", "multiProcessorCount": 4}

    def _attributes(self, ptr: int) -> Any:
        return SimpleNamespace(type=2, device=self.owners.get(ptr, 0), devicePointer=ptr, hostPointer=0)

    def _external(self, ptr: int, device_id: int = -1) -> FakeStream:
        warnings.warn("ExternalStream is deprecated.", DeprecationWarning, stacklevel=2)
        return FakeStream(self, ptr, device_id)

    def _alloc(self, size: int) -> Memory:
        self.calls.append(("alloc", size, self.stack()[-1].ptr))
        if size > self.limit:
            raise OutOfMemory
        return Memory(size)

    @contextmanager
    def _using(self, allocator: Any = None) -> Iterator[None]:
        yield

    def asarray(self, a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> FakeArray:
        return a if isinstance(a, FakeArray) else self.array(a)

    def array(
        self, obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False, ndmin: int = 0, *,
        blocking: bool = False,
    ) -> FakeArray:  # fmt: skip
        """A copy, with the order of its elements in memory kept."""
        if isinstance(obj, FakeArray):
            made = self._like(obj.host)
            self.run(lambda: made.host.__setitem__(..., obj.host))
            return made
        self.may_wait()  # the copy from the processor's ordinary memory waits for the stream
        value = np.asarray(obj)
        made = self._like(value)
        made.host[...] = value
        return made

    def _like(self, value: np.ndarray[Any, Any]) -> FakeArray:
        made: FakeArray = self.ndarray(value.shape, value.dtype, None, np.empty_like(value).strides)
        return made

    def ascontiguousarray(self, a: FakeArray, dtype: Any = None) -> FakeArray:
        """The array itself if it is row-major."""
        return a if a.host.flags.c_contiguous else self.array(a, order="C")

    def asnumpy(self, a: FakeArray, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
        self.may_wait()
        return np.array(a.host, order="C")

    def from_dlpack(self, array: Any, *, device: Any = None, copy: Any = None) -> Any:
        kind, _ = array.__dlpack_device__()
        if kind not in (2, 13):
            raise TypeError("CPU arrays cannot be directly imported to CuPy.")
        array.__dlpack__(stream=self.stack()[-1].ptr or 1, max_version=(1, 0), copy=copy)
        shared = array.host
        memory = object.__new__(Memory)
        memory.block, memory.ptr = shared.reshape(-1).view(np.uint8), shared.ctypes.data
        memory.mem = SimpleNamespace(ptr=memory.ptr, size=shared.nbytes)
        return self.ndarray(shared.shape, shared.dtype, memory, shared.strides)


class FakeModule:
    """As `cupy.cuda.function.Module`: loads what the emulator's compiler made."""

    def __init__(self, owner: FakeCupy) -> None:
        self.owner = owner
        self.emulator = EmulatedGpu()

    def load(self, cubin: bytes) -> None:
        if type(cubin) is not bytes:
            raise TypeError(f"Argument 'cubin' has incorrect type (expected bytes, got {type(cubin).__name__})")
        self.owner.calls.append(("load", len(cubin)))
        self.device = self.owner.here
        self.module = self.emulator.load(cubin)

    def get_function(self, name: str) -> FakeFunction:
        return FakeFunction(self, name, self.module.get_function(name))


class FakeFunction:
    def __init__(self, module: FakeModule, name: str, entry: Any) -> None:
        self.module, self.name, self.entry = module, name, entry

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int = 0, stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        owner = self.module.owner
        if type(grid) is not tuple or type(block) is not tuple or not all(type(n) is int for n in (*grid, *block)):
            raise TypeError("grid and block must be tuples of whole numbers")
        if self.module.device != owner.here:
            raise FakeDriverError("CUDA_ERROR_INVALID_HANDLE: invalid resource handle")
        if grid[0] >= 1 << 31 or max(grid[1:]) >= 1 << 16 or block[0] > 1024:
            raise FakeDriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        for arg in args:
            if not isinstance(arg, np.generic | int | float | bool):
                raise TypeError(f"Unsupported type {type(arg)}")
        number = owner.stack()[-1].ptr if stream is None else stream.ptr
        owner.calls.append(("launch", self.name, grid, block, args, number))
        at = (max(1, grid[0]), max(1, grid[1]))
        owner.run(lambda: self.module.emulator.launch(self.entry, at, block[0], args, number))
