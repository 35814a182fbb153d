"""A program recorded as one CUDA graph: a replay starts all its kernels with one call, without Python between them.

The graph reads and writes the memory that it was recorded with. Arguments of a replay are copied into it first, and the
results are the same tensors every time. A program that reads tensor elements on the host (an `if` on a tensor, `.item()`)
cannot be recorded.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from irscope.errors import ArgumentError, IrscopeError, RunError
from irscope.runtime.arrays import as_torch_on_gpu, host_array, on_processor
from irscope.runtime.cuda.launch import CaptureArena

_BEFORE: Final = 2
"""Runs before the recorded one, which create everything that is created only once."""


class Captured:
    """A recorded program; see `Executable.captured`."""

    def __init__(self, arguments: Sequence[Any], results: Any, replay: Callable[[], None], recorder: Any, kept: Sequence[Any]) -> None:
        self.results = results
        """The tensors that every replay writes."""
        self._arguments = tuple(arguments)
        self._replay = replay
        self._recorder = recorder
        self._kept = tuple(kept)  # memory between launches lives as long as the graph

    def __call__(self, *args: Any) -> Any:
        """Replays on new arguments of the same shapes and types, or, without arguments, on the previous ones."""
        if args:
            self._check(args)
            for target, value in zip(self._arguments, args, strict=True):
                if _is_array(target) and target is not value:
                    self._recorder.write(target, value)
        self._replay()
        return self.results

    def _check(self, args: Sequence[Any]) -> None:
        if len(args) != len(self._arguments):
            raise ArgumentError(f"the graph was recorded with {len(self._arguments)} arguments and got {len(args)}")
        for number, (target, value) in enumerate(zip(self._arguments, args, strict=True)):
            if not _is_array(target):
                if value != target:
                    raise ArgumentError(
                        f"argument {number} was {target!r} when the graph was recorded and is {value!r}",
                        hint="numbers are part of the recording: record again", rule="captured-number",
                    )  # fmt: skip
                continue
            same = _is_array(value) and tuple(value.shape) == tuple(target.shape)
            if not same or str(value.dtype).split(".")[-1] != str(target.dtype).split(".")[-1]:
                given = f"{tuple(value.shape)} of {value.dtype}" if _is_array(value) else type(value).__name__
                raise ArgumentError(
                    f"argument {number} was {tuple(target.shape)} of {target.dtype} when the graph was recorded, and is {given}",
                    hint="record again for other shapes", rule="captured-shape",
                )  # fmt: skip


def captured(run: Callable[..., Any], args: Sequence[Any], recorder: Any, devices: Sequence[CaptureArena]) -> Captured:
    """Records what `run` does with these arguments by a TorchRecorder or a CupyRecorder; `devices` are those whose kernels it launches.

    Raises RunError for a program that cannot be recorded.
    """
    own = [recorder.copy(value) if _is_array(value) else value for value in args]
    leases: list[Any] = []
    runs = 0

    def once() -> Any:
        nonlocal runs
        runs += 1
        leases.clear()  # only those of the recorded run belong to the graph
        return run(*own)

    for held in devices:
        held.leases = leases
    try:
        results, replay = recorder.record(once)
        for target, value in zip(own, args, strict=True):
            if _is_array(target):  # recording ran the program, which may have written its arguments
                recorder.write(target, value)
        return Captured(own, results, replay, recorder, leases)
    except Exception as error:
        if isinstance(error, IrscopeError) and runs <= _BEFORE:
            raise  # it does not run, recorded or not
        because = error.what if isinstance(error, IrscopeError) else error
        raise RunError(
            f"the program cannot be recorded as a CUDA graph: {because}",
            hint="a program that reads tensor elements during the run cannot be recorded; x(*args) runs it", rule="cuda-graph",
        ) from error  # fmt: skip
    finally:
        for held in devices:
            held.leases = None


class TorchRecorder:
    """Records graphs with torch's tensors and streams."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def copy(self, value: Any) -> Any:
        """Copies an argument into the graph's own memory; returns a number unchanged."""
        return self.torch.as_tensor(as_torch_on_gpu(value)).to("cuda", copy=True)

    def write(self, target: Any, value: Any) -> None:
        """Copies new elements into the graph's memory."""
        target.copy_(self.torch.as_tensor(as_torch_on_gpu(value)))

    def record(self, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        """Runs twice beforehand, then once while recording; returns the results, and a function that replays."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(_BEFORE):
                run()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=side, capture_error_mode="relaxed"):
            results = run()
        return results, graph.replay


class CupyRecorder:
    """The same with CuPy's arrays and streams; memory allocated while recording comes from a pool that lives with the graph."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def copy(self, value: Any) -> Any:
        return self.cupy.array(self._here(value), copy=True)

    def write(self, target: Any, value: Any) -> None:
        target[...] = self.cupy.asarray(self._here(value))

    def _here(self, value: Any) -> Any:
        """Returns arrays that CuPy accepts: its own, NumPy's, and those of other libraries on a GPU."""
        if isinstance(value, self.cupy.ndarray | np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
            return value
        return host_array(value) if on_processor(value) else self.cupy.from_dlpack(value)

    def record(self, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        cuda = self.cupy.cuda
        pool, stream, caller = cuda.MemoryPool(), cuda.Stream(non_blocking=True), cuda.get_current_stream()
        caller.synchronize()
        with stream, cuda.using_allocator(pool.malloc):
            for _ in range(_BEFORE):
                run()
            stream.synchronize()
            stream.begin_capture()
            try:
                results = run()
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()
                raise
            graph = stream.end_capture()

        def replay(pool: Any = pool) -> None:
            graph.launch(cuda.get_current_stream())

        return results, replay


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
