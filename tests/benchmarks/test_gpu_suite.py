"""The GPU suite with a torch whose GPU is the processor: what it measures, records and judges, and that neither a failing
case nor a dying process nor Ctrl-C loses the other figures.
"""

import inspect
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from irscope.errors import DeviceUnavailable
from irscope.runtime.program.executable import compile_graph
from tests.benchmarks import gpu_runs, gpu_suite
from tests.benchmarks.gpu_runs import OURS, measured
from tests.benchmarks.gpu_suite import jobs_of, judged, run_jobs, table_of
from tests.benchmarks.kernel_cases import CASES

torch = pytest.importorskip("torch")


class Event:
    """A moment on the processor's clock."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing, "torch refuses to tell the time between others"

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        assert self.at

    def elapsed_time(self, end_event: Any) -> float:
        return max(float(end_event.at - self.at), 1e-7) * 1e3


class Graph:
    """A recording that replays nothing."""

    def replay(self) -> None:
        assert self.recorded

    recorded = False


class OnTheProcessor:
    """Torch, with the GPU's names meaning the processor."""

    def __init__(self) -> None:
        stream = SimpleNamespace(wait_stream=lambda stream: None, cuda_stream=0)
        self.cuda = SimpleNamespace(
            Event=Event, CUDAGraph=Graph, Stream=lambda: stream, current_stream=lambda: stream,
            stream=lambda stream: nullcontext(), graph=self._graph, synchronize=lambda: None, empty_cache=lambda: None,
            is_available=lambda: True, mem_get_info=lambda: (1 << 30, 1 << 31),
            get_device_properties=lambda device: SimpleNamespace(
                name="Fake H100 80GB", multi_processor_count=132, total_memory=80 << 30, L2_cache_size=1 << 20
            ),
        )  # fmt: skip
        self._dynamo = SimpleNamespace(reset=lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @contextmanager
    def _graph(self, cuda_graph: Graph, stream: Any = None) -> Iterator[None]:
        yield
        cuda_graph.recorded = True

    def Generator(self, device: str) -> Any:  # noqa: N802 — torch's name
        assert device == "cuda"
        return torch.Generator()

    def randn(self, shape: Any, *, generator: Any, device: str) -> Any:
        return torch.randn(shape, generator=generator)

    def empty(self, size: int, *, device: str) -> Any:
        return torch.empty(size)

    def ones(self, size: int, *, device: str) -> Any:
        return torch.ones(size)

    def compile(self, function: Any, *, dynamic: bool) -> Any:
        assert dynamic is False
        return function


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> OnTheProcessor:
    """The suite sees a GPU."""

    def on_processor(program: Any, device: str) -> Any:
        assert device == "cuda"
        return compile_graph(program, "cpu")

    monkeypatch.setattr(gpu_runs, "compile_graph", on_processor)
    monkeypatch.setattr(gpu_runs, "_TURN", 1e-5)
    monkeypatch.setattr(gpu_runs, "_MOST_SETS", 3)
    cupy = SimpleNamespace(
        fuse=lambda function: function, from_dlpack=torch.from_dlpack, get_default_memory_pool=lambda: SimpleNamespace(
            free_all_blocks=lambda: None), tanh=torch.tanh, exp=torch.exp, sqrt=torch.sqrt, where=torch.where,
        maximum=lambda a, b: torch.clamp(a, min=b), minimum=lambda a, b: torch.clamp(a, max=b),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return OnTheProcessor()


def test_the_names_of_torchs_that_it_uses_are_torchs() -> None:
    """`torch.cuda` has its functions in a build without CUDA too."""
    for name in vars(OnTheProcessor().cuda):
        assert hasattr(torch.cuda, name), name
    assert {"cuda_graph", "stream"} <= set(inspect.signature(torch.cuda.graph).parameters)
    assert {"dynamic"} <= set(inspect.signature(torch.compile).parameters)
    assert "enable_timing" in inspect.signature(torch.cuda.Event.__new__).parameters
    assert find_spec("torch._dynamo"), "which has `reset`, and takes a second to import"
    assert torch.Generator.manual_seed


def test_a_competitor_that_fails_is_named(fake: OnTheProcessor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(gpu_runs, "compile_graph", refuse)
    run = measured(fake, CASES[0], "float32", 1 << 12, ["eager"], 2)
    assert [row["label"] for row in run["rows"]] == ["eager"]
    assert run["missing"] == [(OURS, "RuntimeError: out of memory")]
    assert all(each["met"] is None for each in judged([{"case": "k1", "dtype": "float32", "size": 1 << 26, **run}]))


# -- the record --------------------------------------------------------------------------------------------------------


def test_results_are_written_after_every_run_and_judged_when_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "fake.json"
    row = {"label": OURS, "median": 1.0, "copy_fraction": 0.95, "graph": None}
    seen: list[int] = []

    def some(*given: Any, **more: Any) -> Iterator[Any]:
        yield asked[0], {"rows": [row, {**row, "label": "torch.compile", "median": 1.3}], "missing": [], "kernels": 1}
        seen.append(len(json.loads(file.read_text())["runs"]))
        yield asked[1], {"error": "RuntimeError: no"}
        seen.append(len(json.loads(file.read_text())["runs"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_suite, "apart", some)
    asked = jobs_of(["softmax"], ["torch.compile"], quick=False)
    said: list[str] = []
    run_jobs(asked, {"suite": "gpu"}, file, said.append, until=0)
    kept = json.loads(file.read_text())
    assert seen == [1, 2]
    assert kept["interrupted"] and len(kept["left_out"]) == len(asked) - 2
    assert [each["met"] for each in kept["targets"]] == [True, True, None, None]
    assert said[1].endswith("failed: RuntimeError: no")
    assert "torch.compile's time / ours, mean ≥ 1: geometric mean 1.30 of 1, worst 1.30 (softmax float32 2^26)" in said[2]
    assert not list(tmp_path.glob("*.new"))


# -- the whole --------------------------------------------------------------------------------------------------------


def test_the_whole_suite_from_the_command_to_the_file(fake: OnTheProcessor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs run here rather than in a process of their own, which would not have the fakes."""

    def here(asked: Any, run: Any, *, until: float) -> Iterator[Any]:
        for job in asked:
            yield job, run(job)

    monkeypatch.setattr(gpu_suite, "apart", here)
    monkeypatch.setattr(gpu_suite, "_SIZES", (1 << 12, 1 << 10))
    monkeypatch.setattr(gpu_suite, "_folder", lambda: tmp_path)
    monkeypatch.setattr(gpu_suite, "import_module", lambda name: fake)
    monkeypatch.setattr(gpu_suite, "device_named", lambda name: SimpleNamespace(availability=lambda: True))
    said: list[str] = []
    found = gpu_suite.gpu_suite(quick=False, names=["k1", "sum all"], peers=None, dry=False, say=said.append)
    assert [(run["case"], run["dtype"], run["size"]) for run in found["runs"]] == [
        (case, dtype, size) for size in (1 << 12, 1 << 10) for case in ("k1", "sum all") for dtype in gpu_suite.DTYPES
    ]
    for run in found["runs"]:
        rows = {row["label"]: row for row in run["rows"]}
        assert {OURS, "eager", "torch.compile"} <= set(rows) and run["kernels"] >= 1
        assert not [label for label, _ in run["missing"] if label != "cupy.fuse"]
        for label, row in rows.items():
            assert 0 < row["low"] <= row["median"] <= row["high"] and row["copy_fraction"] > 0 and row["first"] > 0
            assert row["error"] < (1e-5 if run["dtype"] == "float32" else 0.1)
            assert label == "cupy.fuse" or row["graph"] > 0
    assert json.loads((tmp_path / "fake-h100-80gb.json").read_text()) == json.loads(json.dumps(found))
    assert not found["left_out"]
    assert said[-1] == f"wrote {tmp_path / 'fake-h100-80gb.json'}"
    compiled = found["targets"][1]
    assert compiled["cases"] == 8 and compiled["met"] is (compiled["mean"] >= 1)
    assert "not measured" in table_of(found["targets"]), "no size here is large"


def test_without_a_gpu_nothing_is_measured() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceUnavailable, match="needs a GPU, CuPy and torch with CUDA"):
        gpu_suite.gpu_suite(quick=True, names=(), peers=None, dry=False, say=print)
