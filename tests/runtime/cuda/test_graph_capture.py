"""Recording with torch's streams and graphs, and replays by themselves, on a graph that remembers torch's calls in place of a GPU's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError, RunError  # noqa: E402
from irscope.runtime.arrays import TorchMemory  # noqa: E402
from irscope.runtime.cuda import graph_capture  # noqa: E402
from irscope.runtime.cuda.graph_capture import Captured, Replays, TorchRecorder, captured, why_not_replayed  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402
from irscope.runtime.program.guard import _guard  # noqa: E402

WRITES = ir("x w n:int | a = mm x w; b = add_ a x n; c = mul_ x n; d = tanh b | d b")


class Graph(TorchDispatchMode):  # type: ignore[misc]
    """Remembers what torch does, and does it again in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, found))
        return found

    def replay(self) -> None:
        for function, args, kwargs, found in self.calls:
            found.copy_(function(*args, **kwargs))


class Stream:
    device_index = 0

    def __init__(self, name: str, events: list[str], stream_id: int | str = 1) -> None:
        self.name = self.cuda_stream = name
        self.stream_id = stream_id
        self.events = events

    def wait_stream(self, other: Stream) -> None:
        self.events.append(f"{self.name} waits for {other.name}")


class Cuda:
    """`torch.cuda` with one stream beside the current one."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.main = self.here = Stream("main", self.events)
        self.CUDAGraph = Graph
        self.gpu_seconds: float | None = 0.0
        """Between two marks; None while the GPU has not passed them."""
        self.is_capturing = self.tf32 = False
        self.uses: dict[Any, int] = {}
        """The graphs that live in a pool; of one whose last graph is gone, torch never makes another."""
        self.failed: set[Any] = set()
        """The pools of recordings that failed, into which torch 2.11 records no more."""

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        assert enable_timing
        return SimpleNamespace(
            record=lambda: None, query=lambda: self.gpu_seconds is not None, elapsed_time=lambda end: 1e3 * (self.gpu_seconds or 0.0)
        )

    def Stream(self) -> Stream:  # noqa: N802
        return Stream("side", self.events)

    def current_stream(self) -> Stream:
        return self.here

    def default_stream(self) -> Stream:
        return self.main

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.here = self.here, stream
        try:
            yield
        finally:
            self.here = before

    def ExternalStream(self, pointer: str) -> Stream:  # noqa: N802
        return Stream(pointer, self.events)

    def graph_pool_handle(self) -> tuple[int, int]:
        return (0, 1 + len(self.uses))

    @contextmanager
    def graph(self, graph: Graph, stream: Stream, capture_error_mode: str = "", pool: Any = None) -> Iterator[None]:
        """As torch's, which leaves its stream the current one where the recording fails."""
        self.events.append(f"recording on {stream.name}, {capture_error_mode}")
        before, self.here = self.here, stream
        if pool is not None:
            assert self.uses.get(pool) != 0, "INTERNAL ASSERT FAILED: use_count > 0"
            assert pool not in self.failed, "beginAllocateToPool: already recording to mempool_id"
            self.uses[pool] = self.uses.get(pool, 0) + 1
            weakref.finalize(graph, lambda: self.uses.update({pool: self.uses[pool] - 1}))
            self.failed.add(pool)
        with graph:
            yield
        self.here = before
        self.failed.discard(pool)


class There(torch.Tensor):  # type: ignore[misc]
    """What `as_tensor` gives: a tensor that moves to the GPU, which is its memory."""

    def to(self, device: str, *, copy: bool) -> Any:
        assert device == "cuda"
        assert copy
        return self.as_subclass(torch.Tensor).clone()


def torch_with(cuda: Cuda) -> Any:
    binding = SimpleNamespace(_dynamo=torch._C._dynamo, _cuda_getCurrentRawStream=lambda device: cuda.here.cuda_stream)
    binding._get_cublas_allow_tf32, binding._cuda_getDevice = lambda: cuda.tf32, lambda: 0
    names = ("empty", "empty_like", "_foreach_copy_", "Tensor", "_neg_view", "nn", "inference_mode", "no_grad")
    own = {name: getattr(torch, name) for name in names}
    given = {"as_tensor": lambda value: torch.as_tensor(value).as_subclass(There), "zeros": lambda *size, device: torch.zeros(*size)}
    return SimpleNamespace(cuda=cuda, _C=binding, **given, **own)


def recorded(text: str, *args: Any) -> tuple[Captured, Cuda]:
    cuda = Cuda()
    program = compile_graph(irs.parse(text), use_kernels=False)

    def run(*own: Any) -> Any:
        cuda.events.append(f"run on {cuda.here.name}")
        return program.run(own)

    return captured(run, args, TorchRecorder(torch_with(cuda)), []), cuda


def expected(x: Any, w: Any, n: int) -> tuple[Any, Any]:
    b = x @ w + n * x
    return torch.tanh(b), b


def pair(seed: int) -> tuple[Any, Any]:
    x, w = torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(seed))
    return x, w


def test_it_runs_twice_beside_the_callers_stream_and_records_the_third() -> None:
    _, cuda = recorded(WRITES, *pair(0), 2)
    assert cuda.events == [
        "side waits for main", "run on side", "run on side", "main waits for side", "recording on side, relaxed", "run on side",
    ]  # fmt: skip
    assert cuda.here is cuda.main


def test_a_replay_takes_new_arguments_and_writes_the_same_results() -> None:
    x, w = pair(0)
    before = x.clone()
    graph, _ = recorded(WRITES, x, w, 2)
    assert torch.equal(x, before), "the graph has memory of its own"
    first = graph(x, w, 2)
    torch.testing.assert_close(first, expected(before, w, 2))
    for seed in (1, 2):
        y, v = pair(seed)
        again = graph(y, v, 2)
        torch.testing.assert_close(again, expected(y, v, 2))
        assert all(a is b for a, b in zip(first, again, strict=True))


def test_without_arguments_it_goes_on_with_what_it_has() -> None:
    x, w = pair(3)
    graph, _ = recorded(WRITES, x, w, 2)
    torch.testing.assert_close(graph(), expected(x, w, 2))
    torch.testing.assert_close(graph(), expected(2 * x, w, 2))


def test_numbers_and_shapes_are_part_of_the_recording() -> None:
    x, w = pair(0)
    graph, _ = recorded(WRITES, x, w, 2)
    for wrong in ((x, w, 3), (x[:2], w, 2), (x.double(), w, 2), (x, w)):
        with pytest.raises(ArgumentError):
            graph(*wrong)
    torch.testing.assert_close(graph(x, w, 2), expected(x, w, 2))


def test_what_fails_while_it_is_recorded_says_so() -> None:
    runs: list[int] = []

    def run(*own: Any) -> Any:
        runs.append(1)
        if len(runs) == 3:
            raise RuntimeError("operation not permitted when stream is capturing")

    cuda = Cuda()
    with pytest.raises(RunError, match="cannot be recorded as a CUDA graph: operation not permitted"):
        captured(run, pair(0), TorchRecorder(torch_with(cuda)), [])
    assert [event for event in cuda.events if "recording" in event] == ["recording on side, relaxed", "recording on side, "], (
        "after a failure torch draws no random numbers until something is recorded"
    )
    assert cuda.here is cuda.main, "what the caller does next is in order with what it did before"


# -- replays by themselves --------------------------------------------------------------------------------------------

LAYER = ir("x w | a = mm x w; b = tanh a; c = t b | c b")
PURE = ir("x w | a = mm x w; b = relu a; c = tanh a | c b")


class Calls:
    """A program of torch's ops whose calls may be replayed, and what it ran."""

    def __init__(
        self, text: str, monkeypatch: pytest.MonkeyPatch, *, host_seconds: float = 1e-3, weight: Any = None, cuda: Cuda | None = None
    ) -> None:
        self.cuda = cuda or Cuda()
        clock = iter(range(1000))
        cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=lambda non_blocking: SimpleNamespace(ptr="recordings")))
        monkeypatch.setattr(graph_capture, "imported_cupy", lambda: cupy)
        if cuda is None or not cuda.events:
            monkeypatch.setattr(graph_capture, "_lanes", {})
        monkeypatch.setattr(graph_capture, "time", SimpleNamespace(perf_counter=lambda: next(clock) * host_seconds))
        graph = irs.parse(text)
        bound = {} if weight is None else {graph.value("w"): weight}
        program = compile_graph(replace(graph, bound=bound), use_kernels=False)._program("torch")
        self.runs = 0
        self.grads: set[bool] = set()

        def run(slots: list[Any]) -> tuple[Any, ...]:
            self.runs += 1
            self.grads.add(torch.is_grad_enabled())
            return program.computed(slots)

        self.program = program
        held = [tensor for tensor, _ in program.bound]
        self.replays = Replays(TorchRecorder(torch_with(self.cuda)), run, program.code.template, program.slots, held, list)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        slots = self.program.code.template.copy()
        for slot, arg in zip(self.program.slots, args, strict=True):
            slots[slot] = arg
        return self.replays(slots)


def test_calls_that_the_gpu_waits_for_are_replayed_into_new_results(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, kept = Calls(PURE, monkeypatch), []
    for seed in range(8):
        x, w = pair(seed)
        kept.append((calls(x, w), (torch.tanh(x @ w), torch.relu(x @ w))))
    for found, wanted in kept:  # those of earlier calls, too: no replay writes them
        torch.testing.assert_close(found, wanted)
    assert calls.runs == 1 + 2, "one that is timed, one before the recorded one, and that"
    assert calls.cuda.events == ["recording on recordings, relaxed", "recordings waits for main", "recording on recordings, relaxed"]
    assert calls.replays.is_recorded, calls.replays.because


def test_programs_are_recorded_after_all_others_are_gone_or_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    for fails in (False, False, True, False):
        calls = Calls(PURE, monkeypatch, cuda=cuda)
        run = calls.replays.run
        if fails:
            calls.replays.run = lambda slots, run=run: run(slots) if cuda.here is cuda.main else 1 / 0  # type: ignore[misc, return-value]
        for seed in range(4):
            x, w = pair(seed)
            torch.testing.assert_close(calls(x, w), (torch.tanh(x @ w), torch.relu(x @ w)))
        assert calls.replays.is_recorded is not fails, calls.replays.because
        del calls
        gc.collect()


def test_tuples_and_lists_of_results_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(
        "graph(%x : Tensor, %w : Tensor):\n  %a : Tensor = aten::mm(%x, %w)\n  %b : Tensor = aten::tanh(%a)\n"
        "  %l : Tensor[] = prim::ListConstruct(%a, %b)\n  %t : (Tensor, Tensor[]) = prim::TupleConstruct(%b, %l)\n  return (%t)",
        monkeypatch,
    )
    kept = []
    for seed in range(6):
        x, w = pair(seed)
        kept.append((calls(x, w), ((torch.tanh(x @ w), [x @ w, torch.tanh(x @ w)]),)))
    for found, wanted in kept:
        torch.testing.assert_close(found, wanted)
    assert calls.replays.is_recorded, calls.replays.because
    (first,) = kept[-1][0]
    assert first[0] is first[1][1], "one tensor is one in each call"


@pytest.mark.parametrize(
    ("gpu_seconds", "host_seconds", "because"),
    [(None, 1e-3, "the GPU takes longer"), (2e-3, 1e-3, "the GPU takes longer"), (0.0, 2e-5, "a call takes the host 20")],
)
def test_calls_that_gain_nothing_stay_direct(
    monkeypatch: pytest.MonkeyPatch, gpu_seconds: float | None, host_seconds: float, because: str
) -> None:
    calls = Calls(PURE, monkeypatch, host_seconds=host_seconds)
    calls.cuda.gpu_seconds = gpu_seconds
    for seed in range(5):
        x, w = pair(seed)
        torch.testing.assert_close(calls(x, w), (torch.tanh(x @ w), torch.relu(x @ w)))
    assert calls.runs == 5
    assert because in calls.replays.because


def test_what_a_recording_holds_for_is_compared_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = pair(0)
    calls = Calls(PURE, monkeypatch, weight=torch.nn.Parameter(weight.clone()))
    parameter = calls.program.bound[0][0]

    def check(runs: int) -> None:
        before = calls.runs
        with torch.no_grad():
            torch.testing.assert_close(calls(x)[0], torch.tanh(x @ parameter))
        assert calls.runs - before == runs

    for runs in (1, 2, 0):
        check(runs)
    with torch.no_grad():
        parameter.mul_(2)
    check(0)  # in the same place
    parameter.data = parameter.data.mT  # the same address and shape
    check(2)
    calls.cuda.tf32 = True
    check(2)
    calls.cuda.here = Stream("other", calls.cuda.events)
    check(0)
    assert calls.cuda.events[-1] == "other waits for main"
    calls.cuda.here = Stream("foreign", calls.cuda.events, "foreign")
    check(1)
    calls.cuda.here = Stream("third", calls.cuda.events)
    check(0)
    assert calls.cuda.events[-1] == "third waits for other", "the foreign one may be gone"
    calls.cuda.is_capturing = True
    check(1)
    calls.cuda.is_capturing = False
    parameter.data = weight.clone()
    check(2)
    parameter.data = weight.clone()
    check(1)
    assert "change from call to call" in calls.replays.because


def test_what_is_recorded_has_no_gradients_and_holds_in_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.inference_mode():
        x, weight = pair(0)
        calls = Calls(PURE, monkeypatch, weight=weight)
        for runs in (1, 3, 3):
            torch.testing.assert_close(calls(x)[0], torch.tanh(x @ weight))
            assert calls.runs == runs
    assert calls.grads == {False}


def test_nothing_on_another_gpu_or_flipped_or_that_cuda_does_not_time_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = TorchRecorder(torch_with(Cuda()))
    with pytest.raises(RunError, match="another GPU"):
        recorder.check_here([SimpleNamespace(device=SimpleNamespace(index=1))])
    with pytest.raises(RunError, match="flipped"):
        recorder.check_own([torch._neg_view(torch.ones(2))], [torch.ones(2)])
    calls = Calls(PURE, monkeypatch)

    def event(enable_timing: bool) -> Any:
        def query() -> bool:
            raise RuntimeError("operation not permitted when stream is capturing")

        return SimpleNamespace(record=lambda: None, query=query)

    monkeypatch.setattr(calls.cuda, "Event", event)
    for seed in range(3):
        calls(*pair(seed))
    assert calls.runs == 3


def test_results_that_are_not_the_graphs_alone_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(LAYER, monkeypatch)
    for seed in range(4):
        x, w = pair(seed)
        turned, plain = calls(x, w)
        assert turned.data_ptr() == plain.data_ptr(), "one is a view of the other, as always"
        torch.testing.assert_close(plain, torch.tanh(x @ w))
    assert "shares memory" in calls.replays.because


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (PURE, ""),
        (WRITES, "something other than tensors"),
        (ir("x w | one = 1; a = mm x w; b = add_ x a one | b"), "it writes its input %x"),
        (ir("x | one = 1; a = tanh x; b = add_ a x one | b"), ""),
        (ir("x | a = rand_like x | a"), "draws random numbers"),
        *[
            (
                f"graph(%x : Tensor):\n  %p : float = prim::Constant[value={p}]()\n  %m : NoneType = prim::Constant()\n"
                "  %c : bool = prim::Constant[value=0]()\n  %n : NoneType = prim::Constant()\n"
                "  %y : Tensor = aten::scaled_dot_product_attention(%x, %x, %x, %m, %p, %c, %n, %c)\n  return (%y)",
                because,
            )
            for p, because in (("0.", ""), ("0.1", "draws random numbers"))
        ],
        ("graph(%x : Tensor):\n  %n : float = aten::Float(%x)\n  %y : Tensor = aten::mul(%x, %n)\n  return (%y)", "reads elements"),
        (
            "graph(%x : Tensor):\n  %c : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::If(%c)\n    block0():\n      -> (%x)\n"
            "    block1():\n      %z : Tensor = aten::tanh(%x)\n      -> (%z)\n  return (%y)",
            "prim::If decides",
        ),
        *[
            (
                "graph(%x : Float(4, 4), %n : Long(4)):\n  %o : NoneType = prim::Constant()\n"
                f"  %i : int = prim::Constant[value={i}]()\n  {text}",
                because,
            )
            for i, text, because in (
                (0, "%l : Tensor[] = aten::where(%x)\n  %y : Tensor, %z : Tensor = prim::ListUnpack(%l)\n  return (%y)", "reads"),
                (0, "%y : Tensor = aten::repeat_interleave(%x, %n, %i, %o)\n  return (%y)", "reads elements"),
                (4, "%y : Tensor = aten::repeat_interleave(%n, %i)\n  return (%y)", ""),
                (4, "%y : Tensor = aten::repeat_interleave(%x, %i, %o, %o)\n  return (%y)", ""),
                (-1, "%y : Tensor = aten::one_hot(%n, %i)\n  return (%y)", "reads elements"),
                (4, "%y : Tensor = aten::one_hot(%n, %i)\n  return (%y)", ""),
                (4, "%y : Tensor = aten::to_sparse(%x)\n  return (%y)", "reads elements"),
                (0, "%s : Scalar = aten::ScalarImplicit(%x)\n  %y : Tensor = aten::mul(%n, %s)\n  return (%y)", "reads elements"),
            )
        ],
        (ir("x | a = nonzero x | a"), "reads elements"),
        ("graph(%x : Tensor):\n  %n : int = aten::dim(%x)\n  %l : int[] = prim::tolist(%x, %n, %n)\n  return (%x)", "reads elements"),
        ("graph(%x : Tensor):\n  %n : int = aten::storage_offset(%x)\n  %y : Tensor = aten::mul(%x, %n)\n  return (%y)", "asks for more"),
        (
            "graph(%x : Tensor):\n  %c : Float(2) = prim::Constant[value= 1 2 [ CPUFloatType{2} ]]()\n"
            "  %n : int = prim::Constant[value=1]()\n  %a : Tensor = aten::add_(%c, %x, %n)\n"
            "  %y : Tensor = aten::tanh(%a)\n  return (%y)",
            "it writes its constant %c",
        ),
        (
            "graph(%x : Float(4, 4), %m : Bool(4, 4)):\n  %i : Tensor?[] = prim::ListConstruct(%m)\n"
            "  %y : Tensor = aten::index(%x, %i)\n  return (%y)",
            "reads elements",
        ),
        (
            "graph(%x : Float(4, 4), %m : Long(2)):\n  %i : Tensor?[] = prim::ListConstruct(%m)\n"
            "  %y : Tensor = aten::index(%x, %i)\n  return (%y)",
            "",
        ),
        (
            "graph(%x : Float(4, 4)):\n  %n : int = prim::Constant[value=0]()\n  %r : int = aten::size(%x, %n)\n"
            "  %s : Tensor = prim::NumToTensor(%r)\n  %i : int = aten::Int(%s)\n  %y : Tensor = aten::select(%x, %n, %i)\n  return (%y)",
            "",
        ),
        ("graph(%x : Tensor):\n  %y : Tensor = prim::PythonOp(%x)\n  return (%y)", "not known to be the same"),
    ],
)  # fmt: skip
def test_programs_whose_replay_would_do_something_else_are_named(text: str, because: str) -> None:
    found = why_not_replayed(irs.parse(text))
    assert because in found
    assert bool(found) == bool(because)


def test_a_function_for_tensors_of_a_gpu_is_for_those_of_that_gpu() -> None:
    class On:
        __class__ = property(lambda self: torch.Tensor)

        def __init__(self, device: Any) -> None:
            self.device = device

        def __getattr__(self, name: str) -> Any:
            return getattr(x, name)

    x, memory, names = torch.empty(2, 3, device="meta"), TorchMemory("cuda"), dict[str, Any]()
    memory.guards = None
    condition = _guard([x], memory, names)
    assert condition is not None
    assert [eval(condition, names, {"x0": On(device)}) for device in (x.device, torch.device("cuda", 1))] == [True, False]
