"""A program recorded as one CUDA graph: a replay starts all its kernels with one call, without Python between them.

The graph reads and writes the memory that it was recorded with. Arguments of a replay are copied into it first, and the
results are the same tensors every time. A program that reads tensor elements on the host (an `if` on a tensor, `.item()`)
cannot be recorded.

`Replays` does so by itself where a caller sees no difference but the time: results are copied out of the graph's memory, and a
recording holds for the arguments' layouts, the places and layouts of the parameters, and the switches of torch that choose
kernels. Each of these is compared at each call. Programs that write memory of their caller, draw random numbers, choose their
way by numbers, read elements on the host, or return what they were given are not replayed.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np

from irscope._base.nested import leaves, map_leaves, torch_guards
from irscope._base.words import plural, time_words
from irscope.analysis.alias import AliasDb
from irscope.errors import ArgumentError, IrscopeError, RunError
from irscope.ir import BOOL, FLOAT, GROUPS, INT, NUMBER, Graph, ListType, TensorType, TupleType, Type
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import constant_arguments, effect_of, may_be_on_gpu, reads_on_host
from irscope.ops.traits import OF_THE_TENSOR, SHAPE_READERS
from irscope.runtime.arrays import as_torch_on_gpu, host_array, imported_cupy, on_processor
from irscope.runtime.cuda.launch import CaptureArena
from irscope.runtime.foreign_ops import runs_in

_BEFORE: Final = 2
"""Runs before the recorded one of `captured`, which create everything that is created only once."""
_LEAST: Final = 60e-6
"""Seconds of the host from which on a call is replayed: a replay takes 20 to 30 µs, with the copies of arguments and results."""
_SWITCHES: Final = (
    "_cuda_getDevice", "_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction",
    "_get_cublas_allow_fp16_accumulation", "_get_cudnn_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic",
    "_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only", "_get_deterministic_fill_uninitialized_memory",
    "_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled", "_get_cudnn_sdp_enabled",
    "_get_blas_preferred_backend", "_get_linalg_preferred_backend",
)  # fmt: skip
"""The functions of torch that say what its ops on a GPU are chosen by, besides their operands and the precision of float32."""
_CHECKED: Final = ("aten::_assert_tensor_metadata",)
"""Ops that do nothing where they have done nothing before, for the same layouts."""
_NUMBERS: Final = (INT, FLOAT, BOOL, NUMBER, ListType(INT), ListType(FLOAT), ListType(BOOL))
_PRECISIONS: Final = ("_get_cublas_allow_tf32", "_get_cudnn_allow_tf32", "_get_float32_matmul_precision")
"""Those for the precision of float32, before torch 2.9; later versions have one function for all, and warn of these."""
_SLACK: Final = 1.25
"""How much longer the GPU may take for a call than the host, which it waits for."""
_MOST: Final = 4
"""Recordings for one signature: after so many, something changes at each call."""


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
            raise ArgumentError(f"the graph was recorded with {plural(len(self._arguments), 'argument')} and got {len(args)}")
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
    runs = 0

    def once() -> Any:
        nonlocal runs
        runs += 1
        leases.clear()  # only those of the recorded run belong to the graph
        return run(*own)

    try:
        with _leasing(devices) as leases:
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


@contextmanager
def _leasing(arenas: Sequence[CaptureArena]) -> Iterator[list[Any]]:
    """The list of the memory that this thread's kernels take between their launches meanwhile, for the graph that records them."""
    leases: list[Any] = []
    for arena in arenas:
        arena.leases = leases
    try:
        yield leases
    finally:
        for arena in arenas:
            arena.leases = None


def why_not_replayed(graph: Graph) -> str:
    """Returns why a replay of a recorded run would not do what a run does; empty if it does, for tensors of the same layouts."""
    if not all(isinstance(value.type, TensorType) for value in graph.free_inputs):
        return "it takes something other than tensors"
    if not all(_is_of_tensors(value.type) for value in graph.outputs):
        return "it returns something other than tensors"
    if not all(hasattr(held, "dtype") for held in graph.bound.values()):
        return "it holds lists of parameters"
    for node in graph.nodes():
        reads = any(may_be_on_gpu(graph, value) for value in node.inputs)
        gives_number = any(value.type in _NUMBERS for value in node.outputs)
        if node.blocks and node.op not in GROUPS:
            return f"{node.op} decides during the run what to do"
        if draws_random_numbers(node.op, constant_arguments(graph, node)):
            return f"{node.op} draws random numbers"
        if (effect_of(node) == "opaque" and node.op not in _CHECKED) or runs_in(node):
            return f"what {node.op} does is not known to be the same each time"
        if reads_on_host(graph, node) or (reads and gives_number and node.op not in SHAPE_READERS):
            return f"{node.op} reads elements on the host"
    db = AliasDb(graph, distinct_inputs=True)  # a write through another input that shares its memory is that input's
    for node in graph.nodes():
        if node.op in OF_THE_TENSOR and any(db.may_alias(node.inputs[0], value) for value in graph.free_inputs):
            return f"{node.op} asks for more of an argument than its elements and layout"
    made = [value for node in graph.nodes() if node.op == "prim::Constant" for value in node.outputs if isinstance(value.type, TensorType)]
    for kind, values in (("input", graph.inputs), ("constant", made)):
        written = next((value for value in values if db.has_writers(value)), None)
        if written is not None:
            return f"it writes its {kind} %{graph.names[written]}"
    return ""


def _is_of_tensors(type: Type) -> bool:
    """Whether values of this type are tensors, or tuples and lists of them."""
    if isinstance(type, TupleType):
        return all(map(_is_of_tensors, type.elements))
    return isinstance(type.element if isinstance(type, ListType) else type, TensorType)


class _Lane:
    """Where all recordings of a process run on one GPU: one after the other, in the same memory, whatever the streams of their callers.

    cuBLAS keeps a workspace for each stream, which whoever empties torch's caches frees, torch.compile's CUDA graphs for one. So the
    stream is used for recording alone: its workspace is in the memory of recordings, which goes back to no allocator.
    """

    def __init__(self, recorder: "TorchRecorder") -> None:
        cuda = recorder.torch.cuda
        self._owner = imported_cupy().cuda.Stream(non_blocking=True)
        self.stream = cuda.ExternalStream(self._owner.ptr)
        self.pool: Any = None
        """The memory of the next recording."""
        self.kept: list[Callable[[], None]] = []
        """A recording in each pool that lasts: torch gives up a pool with the last graph in it, and never records into it again."""
        self.last = cuda.default_stream()
        """The stream of the last replay: one of torch's, which are never destroyed."""
        self.lock = threading.RLock()

    def enter(self, recorder: "TorchRecorder") -> bool:
        """Makes the current stream wait for the last replay; the caller holds the lock. Returns whether it may replay: not on a stream
        of another library, which is destroyed without a word, so that later ones could not wait for it."""
        if recorder.torch._C._cuda_getCurrentRawStream(self.last.device_index) != self.last.cuda_stream:
            current = recorder.torch.cuda.current_stream()
            if current.stream_id and current.stream_id == current.cuda_stream:  # torch numbers others' streams by their addresses
                return False
            current.wait_stream(self.last)
            self.last = current
        return True


_lanes: dict[int, _Lane] = {}
"""By the number of the GPU."""
_lanes_lock = threading.Lock()


class Replays:
    """The runs of a program on tensors of one signature: direct ones, until the GPU is seen to wait for the host, then replays.

    The first run is timed on both sides. If the GPU is done when the next one comes, and took no longer than the host, the host sets
    the pace, and a replay takes its place; else the runs stay direct. Safe to call from many threads, on any streams; only in the
    milliseconds in which it records, no other thread may wait for the whole GPU (`torch.cuda.synchronize`), as CUDA refuses it.
    """

    def __init__(
        self, recorder: "TorchRecorder", run: Callable[[list[Any]], tuple[Any, ...]], template: list[Any], places: Sequence[int],
        bound: Sequence[Any], arenas: Callable[[], Sequence[CaptureArena]],
    ) -> None:  # fmt: skip
        """`run` runs the program on slots, which are a copy of `template` with the arguments at `places`. `bound`: the tensors among
        the others. `arenas`: those of the devices whose kernels it launches."""
        self.recorder = recorder
        self.run = run
        self.template, self.places = template, places
        self.bound = bound
        self.arenas = arenas
        self.is_recorded = False
        self.because = "it has not run often enough"
        """Why calls are replayed, or why they are not."""
        self._call: Callable[[list[Any]], tuple[Any, ...]] = self._timed
        self._recording: _Recording | None = None
        self._recordings = 0

    def __call__(self, slots: list[Any]) -> tuple[Any, ...]:
        """Returns the results of a run on slots that hold the arguments; gradients are not recorded here."""
        return self.run(slots) if self.recorder.is_capturing() else self._call(slots)

    def _timed(self, slots: list[Any]) -> tuple[Any, ...]:
        start, end = self.recorder.event(), self.recorder.event()
        start.record()
        began = time.perf_counter()
        results = self.run(slots)
        host = time.perf_counter() - began
        end.record()
        self._call = lambda slots: self._decided(slots, host, start, end)
        return results

    def _decided(self, slots: list[Any], host: float, start: Any, end: Any) -> tuple[Any, ...]:
        try:
            gpu = start.elapsed_time(end) * 1e-3 if end.query() else inf
        except RuntimeError:  # CUDA answers nobody while another thread records
            gpu = inf
        if gpu > _SLACK * host:
            return self._directly(slots, "the GPU takes longer than the host")
        if host < _LEAST:
            return self._directly(slots, f"a call takes the host {time_words(1e9 * host)}, and a replay hardly less")
        self.because = f"a call took the host {time_words(1e9 * host)}, and the GPU was done {time_words(1e9 * gpu)} after it began"
        self._call = self._replayed
        return self._replayed(slots)

    def _directly(self, slots: list[Any], because: str) -> tuple[Any, ...]:
        self._recording, self._call = None, self.run
        self.is_recorded, self.because = False, because
        return self.run(slots)

    def _replayed(self, slots: list[Any]) -> tuple[Any, ...]:
        given = [slots[place] for place in self.places]
        lane = self.recorder.lane()
        with lane.lock:
            if not lane.enter(self.recorder):
                return self.run(slots)
            recording = self._recording
            if recording is not None and recording.fits():
                return recording(given)
            self._recordings += 1
            if self._recordings <= _MOST:
                try:
                    self._recording = self._recorded(given, lane)
                    self.is_recorded = True
                    return self._recording(given)
                except Exception as error:  # if the program is the reason, the run says so
                    lines = str(error).strip().splitlines()
                    because = f"it cannot be recorded: {lines[0] if lines else type(error).__name__}"
            else:
                because = "its parameters or torch's switches change from call to call"
        return self._directly(slots, because)

    def _recorded(self, given: Sequence[Any], lane: _Lane) -> "_Recording":
        recorder = self.recorder
        fits = recorder.same(self.bound)
        held = [leaf for leaf in leaves(self.template) if isinstance(leaf, recorder.torch.Tensor)]
        recorder.check_here([*given, *held])
        slots = self.template.copy()

        def once() -> tuple[Any, ...]:
            leases.clear()  # only those of the recorded run belong to the graph
            return self.run(slots.copy())

        with _leasing(self.arenas()) as leases, recorder.outside_inference():
            own = recorder.own(lane, given)
            recorder.copy_all(own, given)
            for place, tensor in zip(self.places, own, strict=True):
                slots[place] = tensor
            results, replay = recorder.record_in(lane, once)
        recorder.check_own(list(leaves(results)), [*own, *held])
        return _Recording(recorder, own, results, replay, fits, leases)


class _Recording:
    """One recorded run, with the memory of its arguments and results."""

    def __init__(
        self, recorder: "TorchRecorder", own: Sequence[Any], results: Sequence[Any], replay: Callable[[], None],
        fits: Callable[[], bool], kept: Sequence[Any],
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self.own = own
        self.results = results
        self.tensors = list({id(tensor): tensor for tensor in leaves(results)}.values())
        self.replay = replay
        self.fits = fits
        """Checks whether all that was fixed by recording is as it was."""
        self.kept = kept

    def __call__(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Replays on new arguments, in its lane; returns results in memory of their own."""
        recorder = self.recorder
        if self.own:
            recorder.copy_all(self.own, given)
        self.replay()
        fresh = {id(tensor): recorder.like(tensor) for tensor in self.tensors}
        recorder.copy_all(list(fresh.values()), self.tensors)
        found: tuple[Any, ...] = map_leaves(lambda tensor: fresh[id(tensor)], self.results)
        return found


class TorchRecorder:
    """Records graphs with torch's tensors and streams; whatever recorded programs ask of torch goes through here."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def is_capturing(self) -> bool:
        """Checks whether somebody records what runs on this stream."""
        return bool(self.torch.cuda.is_current_stream_capturing())

    def event(self) -> Any:
        """Returns a mark in a stream that tells the time at which the GPU passes it."""
        return self.torch.cuda.Event(enable_timing=True)

    def lane(self) -> _Lane:
        """Returns the lane of the current GPU."""
        number = self.torch._C._cuda_getDevice()
        if number not in _lanes:
            with _lanes_lock:
                if number not in _lanes:
                    _lanes[number] = _Lane(self)
        return _lanes[number]

    @contextmanager
    def outside_inference(self) -> Iterator[None]:
        """Makes tensors that can be written outside of torch's inference mode, which records no gradients as before."""
        with self.torch.inference_mode(False), self.torch.no_grad():  # without the mode, torch would record them
            yield

    def check_here(self, tensors: Sequence[Any]) -> None:
        """Checks that tensors lie on the current GPU, whose stream alone is recorded. Raises RunError."""
        here = self.torch._C._cuda_getDevice()
        if any(tensor.device.index not in (None, here) for tensor in tensors):
            raise RunError("its tensors lie on another GPU than the current one")

    def own(self, lane: _Lane, tensors: Sequence[Any]) -> list[Any]:
        """Returns memory for tensors which, once it is free again, no other stream gets: a replay may not be done yet."""
        with self.torch.cuda.stream(lane.stream):
            return [self.like(tensor) for tensor in tensors]

    def like(self, tensor: Any) -> Any:
        """Returns new memory for a tensor, with the same strides. Raises RunError where elements share their place or leave gaps."""
        made = self.torch.empty_like(tensor)
        if made.stride() != tensor.stride():
            raise RunError(f"a tensor of strides {tuple(tensor.stride())} has no memory of its own")
        return made

    def copy_all(self, targets: Sequence[Any], values: Sequence[Any]) -> None:
        """Copies the elements of some tensors into others of the same layouts."""
        self.torch._foreach_copy_(targets, values)

    def same(self, tensors: Sequence[Any]) -> Callable[[], bool]:
        """Returns a check whether these tensors lie where they lie now, with the same layouts, and torch would choose the same kernels.
        Raises RunError where torch has no quick comparison of layouts."""
        guards = torch_guards(self.torch)
        if guards is None:
            raise RunError("this torch does not compare the layouts of many tensors at once")
        binding, address = self.torch._C, self.torch.Tensor.data_ptr
        newer = getattr(binding, "_get_fp32_precision_getter", None)
        names = _SWITCHES if newer else _SWITCHES + _PRECISIONS
        switches = [getattr(binding, name) for name in names if hasattr(binding, name)]
        switches += [partial(newer, "cuda", kind) for kind in ("matmul", "conv", "rnn")] if newer else []
        laid_out: Callable[..., bool] = guards(tensors, True) if tensors else lambda *tensors: True

        def now() -> tuple[list[int], list[Any]]:
            return list(map(address, tensors)), [switch() for switch in switches]

        before = now()
        return lambda: laid_out(*tensors) and now() == before

    def check_own(self, results: Sequence[Any], others: Sequence[Any]) -> None:
        """Checks that results share no memory with other tensors or each other, and lie where those do. Raises RunError."""
        taken = {place for tensor in others if (place := tensor.untyped_storage().data_ptr())}
        where = {tensor.device for tensor in others}
        for result in {id(result): result for result in results}.values():
            self.like(result)
            place = result.untyped_storage().data_ptr()
            if place in taken or result.device not in where:
                raise RunError("a result shares memory with what lasts or with another result, or lies on another device")
            if result.is_conj() or result.is_neg():
                raise RunError("a result is stored with the sign of its elements, or of their imaginary parts, flipped")
            taken |= {place} if place else set()

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
        return self._recorded(run, side, cuda.graph_pool_handle())

    def record_in(self, lane: _Lane, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        """Runs once on the current stream, then once while recording; returns the results, and a function that replays."""
        if lane.pool is None:
            pool = self.torch.cuda.graph_pool_handle()
            lane.kept.append(self._recorded(lambda: self.torch.zeros(1, device="cuda"), lane.stream, pool)[1])
            lane.pool = pool
        run()
        lane.stream.wait_stream(self.torch.cuda.current_stream())
        try:
            return self._recorded(run, lane.stream, lane.pool)
        except BaseException:
            lane.pool = None  # into which torch 2.11 records nothing more, as its allocator of host memory is not told of the end
            raise

    def _recorded(self, run: Callable[[], Any], stream: Any, pool: Any) -> tuple[Any, Callable[[], None]]:
        cuda = self.torch.cuda
        graph = cuda.CUDAGraph()
        try:
            # where a recording fails, `cuda.graph` leaves its stream the current one, on which the caller's work would be out of order
            with cuda.stream(cuda.current_stream()), cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="relaxed"):
                results = run()
        except BaseException:
            # after a recording that fails, torch allocates for it still, and its random numbers are in the state of recording until one
            # succeeds
            with suppress(Exception):
                self.torch._C._cuda_endAllocateToPool(self.torch._C._cuda_getDevice(), pool)
            with suppress(Exception), cuda.graph(cuda.CUDAGraph(), stream=cuda.Stream()):
                self.torch.zeros(1, device="cuda")
            raise
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
