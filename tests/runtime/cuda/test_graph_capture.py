"""Recording with torch's streams and graphs, on a graph that remembers torch's calls in place of a GPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError, RunError  # noqa: E402
from irscope.runtime.cuda.graph_capture import Captured, TorchRecorder, captured  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402

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
    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events

    def wait_stream(self, other: Stream) -> None:
        self.events.append(f"{self.name} waits for {other.name}")


class Cuda:
    """`torch.cuda` with one stream beside the current one."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.main = self.here = Stream("main", self.events)
        self.CUDAGraph = Graph

    def Stream(self) -> Stream:  # noqa: N802
        return Stream("side", self.events)

    def current_stream(self) -> Stream:
        return self.here

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.here = self.here, stream
        yield
        self.here = before

    @contextmanager
    def graph(self, graph: Graph, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        self.events.append(f"recording on {stream.name}, {capture_error_mode}")
        with self.stream(stream), graph:
            yield


class There(torch.Tensor):  # type: ignore[misc]
    """What `as_tensor` gives: a tensor that moves to the GPU, which is its memory."""

    def to(self, device: str, *, copy: bool) -> Any:
        assert device == "cuda"
        assert copy
        return self.as_subclass(torch.Tensor).clone()


def torch_with(cuda: Cuda) -> Any:
    return SimpleNamespace(cuda=cuda, as_tensor=lambda value: torch.as_tensor(value).as_subclass(There))


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

    with pytest.raises(RunError, match="cannot be recorded as a CUDA graph: operation not permitted"):
        captured(run, pair(0), TorchRecorder(torch_with(Cuda())), [])
