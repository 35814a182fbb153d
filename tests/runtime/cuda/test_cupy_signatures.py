"""The fake CuPy takes the arguments that CuPy takes, by the same names: where CuPy is installed, with or without a GPU."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.cuda.fake_cupy import FakeArray, FakeCupy, FakeDevice, FakeEvent, FakeFunction, FakeModule, FakeStream

FAKE = FakeCupy()

SAME: dict[str, Callable[..., Any]] = {
    "asarray": FAKE.asarray, "array": FAKE.array, "asnumpy": FAKE.asnumpy, "from_dlpack": FAKE.from_dlpack,
    "ascontiguousarray": FAKE.ascontiguousarray, "cuda.alloc": FAKE.cuda.alloc, "cuda.Stream": FAKE.cuda.Stream,
    "cuda.ExternalStream": FAKE.cuda.ExternalStream, "cuda.get_current_stream": FAKE.cuda.get_current_stream,
    "cuda.Stream.begin_capture": FakeStream.begin_capture, "cuda.Stream.end_capture": FakeStream.end_capture,
    "cuda.Stream.is_capturing": FakeStream.is_capturing, "cuda.Stream.synchronize": FakeStream.synchronize,
    "cuda.Stream.record": FakeStream.record, "cuda.MemoryPool.malloc": FAKE.cuda.MemoryPool().malloc,
    "cuda.using_allocator": FAKE.cuda.using_allocator,
    "cuda.runtime.getDeviceCount": FAKE.cuda.runtime.getDeviceCount, "cuda.runtime.getDevice": FAKE.cuda.runtime.getDevice,
    "cuda.runtime.getDeviceProperties": FAKE.cuda.runtime.getDeviceProperties,
    "cuda.runtime.pointerGetAttributes": FAKE.cuda.runtime.pointerGetAttributes,
    "cuda.function.Module.load": FakeModule.load, "cuda.function.Module.get_function": FakeModule.get_function,
    "ndarray.__dlpack__": FakeArray.__dlpack__, "ndarray.__dlpack_device__": FakeArray.__dlpack_device__,
}  # fmt: skip
"""Functions of CuPy's by what this project calls them, and the fake's."""

UNTOLD = {
    "cuda.function.Function.__call__": FakeFunction.__call__, "cuda.Device": FakeDevice, "ndarray": FakeArray,
    "cuda.graph.Graph.launch": None, "cuda.memory.OutOfMemoryError": None, "cuda.Device.__enter__": None,
    "cuda.Stream.__enter__": None, "cuda.Device.attributes": None, "cuda.Device.compute_capability": None,
    "ndarray.__array__": None, "ndarray.__array_ufunc__": None, "ndarray.__array_function__": None,
    "ndarray.strides": None, "ndarray.data": None, "cuda.memory.MemoryPointer.__add__": None,
    "cuda.memory.MemoryPointer.ptr": None, "cuda.memory.MemoryPointer.mem": None, "cuda.memory.BaseMemory.size": None,
    "cuda.Device.synchronize": None, "get_default_memory_pool": None, "cuda.MemoryPool.free_all_blocks": None,
    "ndarray.copy": None, "cuda.Event.done": None, "cuda.Event": FAKE.cuda.Event, "cuda.Event.record": FakeEvent.record,
    "cuda.get_elapsed_time": FAKE.cuda.get_elapsed_time,
}  # fmt: skip
"""What CuPy has under these names and says no arguments of."""


def named(cupy: Any, path: str) -> Any:
    """An attribute of an attribute."""
    for name in path.split("."):
        cupy = getattr(cupy, name)
    return cupy


def parameters(function: Any) -> list[str]:
    """The names of its parameters; what Cython compiled says them in the first line of its documentation."""
    try:
        found = list(inspect.signature(function).parameters.values())
        return [each.name for each in found if each.name != "self"]
    except ValueError:
        first = (function.__doc__ or "").splitlines()[0]
        inside = re.search(r"\((.*)\)", first)
        assert inside, first
        words = [word.partition("=")[0].split() for word in inside[1].split(",")]
        return [word[-1] for word in words if word and word[-1] not in ("self", "*", "/")]


@pytest.mark.parametrize("path", SAME)
def test_arguments_of_the_same_names(path: str) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; the fake is compared with it")
    assert parameters(named(cupy, path)) == parameters(SAME[path])


@pytest.mark.parametrize("path", UNTOLD)
def test_names_that_are_there(path: str) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; the fake is compared with it")
    assert named(cupy, path) is not None


def test_a_launch_may_name_its_arguments_as_here() -> None:
    """CuPy says nothing of a compiled kernel's parameters; a call without a GPU gets as far as their names."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; the fake is compared with it")
    call = cupy.cuda.function.Function.__call__
    empty = cupy.cuda.function.Function.__new__(cupy.cuda.function.Function)
    with pytest.raises(TypeError, match="unexpected keyword"):
        call(empty, (1,), (1,), (), strange=1)
    with pytest.raises(TypeError, match="tuple"):
        call(empty, [1], (1,), (), stream=FakeStream(FAKE))


def test_the_fake_refuses_what_cupy_refuses() -> None:
    import numpy as np

    array = FAKE.asarray(np.arange(4.0))
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(array)
    with pytest.raises(TypeError):
        array[...] = np.arange(4.0)
    with pytest.raises(TypeError, match="CPU arrays"):
        FAKE.from_dlpack(np.arange(4.0))
    with pytest.raises(RuntimeError, match="cannot capture on the default"):
        FAKE.cuda.get_current_stream().begin_capture()
    stream = FAKE.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    with pytest.raises(RuntimeError, match="capturing"):
        FAKE.asnumpy(array)
    stream.end_capture()
