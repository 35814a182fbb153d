"""A CuPy whose arrays lie in ordinary memory, and a driver that writes down what it is asked: what the launcher's tests
put in CuPy's place. Kernels run in the emulator.
"""

from __future__ import annotations

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


class FakeArray(np.ndarray[Any, Any]):
    """An array with `data.ptr`."""

    def __new__(cls, shape: Any, dtype: Any, memptr: Any = None, strides: Any = None) -> FakeArray:
        memory = memptr or Memory(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.ndarray.__new__(cls, shape, dtype, memory.block, memory.ptr - memory.block.ctypes.data, strides)

    @property
    def data(self) -> Any:  # type: ignore[override]
        """Where it lies."""
        return SimpleNamespace(ptr=self.ctypes.data)


class OutOfMemory(MemoryError):
    """As `cupy.cuda.memory.OutOfMemoryError`."""


class FakeStream:
    """A stream with a number; records launches while it captures."""

    def __init__(self, owner: FakeCupy, ptr: int = 0, non_blocking: bool = False) -> None:
        self.owner = owner
        self.ptr = ptr

    def __enter__(self) -> FakeStream:
        self.owner.streams.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self.owner.streams.pop()

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def is_capturing(self) -> bool:
        """Whether launches are written down."""
        return self.owner.capturing is not None

    def begin_capture(self) -> None:
        """Launches are written down from now on, and not run."""
        self.owner.capturing = []

    def end_capture(self) -> Any:
        """What was written down."""
        calls, self.owner.capturing = self.owner.capturing or [], None

        def launch(stream: Any) -> None:
            for call in calls:
                call()

        return SimpleNamespace(launch=launch)


class FakeCupy(SimpleNamespace):
    """The module."""

    def __init__(self, *, memory_limit: int = 1 << 40, devices: int = 1) -> None:
        super().__init__()
        self.streams: list[FakeStream] = [FakeStream(self)]
        self.calls: list[tuple[Any, ...]] = []
        """What the driver was asked to do."""
        self.capturing: list[Callable[[], None]] | None = None
        self.limit = memory_limit
        self.ndarray = FakeArray
        self.owners: dict[int, int] = {}
        """The GPU of addresses that are not on the first one."""
        runtime = SimpleNamespace(
            getDeviceCount=lambda: devices, getDevice=lambda: 0,
            getDeviceProperties=lambda number: {"name": b"Fake H100", "multiProcessorCount": 4},
            pointerGetAttributes=lambda address: SimpleNamespace(type=2, device=self.owners.get(address, 0)),
        )  # fmt: skip
        self.cuda = SimpleNamespace(
            alloc=self._alloc, runtime=runtime, memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
            Device=lambda: SimpleNamespace(id=0, compute_capability="90", attributes={"MultiProcessorCount": 4}),
            function=SimpleNamespace(Module=lambda: FakeModule(self)), get_current_stream=lambda: self.streams[-1],
            Stream=lambda non_blocking=False: FakeStream(self, 77),
            ExternalStream=lambda ptr: FakeStream(self, ptr), MemoryPool=lambda: SimpleNamespace(malloc=self._alloc),
            using_allocator=self._using,
        )  # fmt: skip

    def _alloc(self, nbytes: int) -> Memory:
        self.calls.append(("alloc", nbytes, self.streams[-1].ptr))
        if nbytes > self.limit:
            raise OutOfMemory
        return Memory(nbytes)

    @contextmanager
    def _using(self, allocator: Any) -> Iterator[None]:
        yield

    def asarray(self, value: Any) -> FakeArray:
        """A copy on the GPU."""
        if isinstance(value, FakeArray):
            return value
        value = np.asarray(value)
        made = FakeArray(value.shape, value.dtype)
        made[...] = value
        return made

    def array(self, value: Any, copy: bool = True) -> FakeArray:
        """A copy."""
        made = FakeArray(np.shape(value), value.dtype)
        made[...] = value
        return made

    def asnumpy(self, value: FakeArray) -> np.ndarray[Any, Any]:
        """A copy that is not on the GPU."""
        return np.array(value)

    def from_dlpack(self, value: Any) -> Any:
        """The same memory as an array of the GPU's."""
        return np.from_dlpack(value).view(FakeArray)


class FakeModule:
    """As `cupy.cuda.function.Module`: loads what the emulator's compiler made."""

    def __init__(self, owner: FakeCupy) -> None:
        self.owner = owner
        self.emulator = EmulatedGpu()

    def load(self, code: bytes) -> None:
        """Load compiled code."""
        self.owner.calls.append(("load", len(code)))
        self.module = self.emulator.load(code)

    def get_function(self, name: str) -> Callable[..., None]:
        """An entry that is called as CuPy's are."""
        entry = self.module.get_function(name)

        def run(grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], stream: Any) -> None:
            self.owner.calls.append(("launch", name, grid, block, args, stream.ptr))
            start = lambda: self.emulator.launch(entry, grid[:2], block[0], args, stream.ptr)  # noqa: E731
            if self.owner.capturing is not None:
                self.owner.capturing.append(start)
            else:
                start()

        return run
