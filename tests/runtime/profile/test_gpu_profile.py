"""Profiles of a GPU: events on the stream, and gaps in which it waits for the host; on the fake CuPy, whose clock the tests
drive, and on a real GPU where there is one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.measure import side_by_side
from irscope.runtime.profile.way import Stopwatch, TorchHold
from tests.codegen.cuda_emulator import AVAILABLE
from tests.runtime.cuda.fake_cupy import FakeCupy
from tests.runtime.cuda.test_device import CountingCompiler, installed

emulated = pytest.mark.skipif(not AVAILABLE, reason="the emulator needs g++")


class Clocks:
    """A host and a stream, each with times that a test says beforehand: of the first stamp, and of those after it."""

    def __init__(self, host_us: list[float], done_us: list[float]) -> None:
        self.host, self.done = [int(time * 1000) for time in host_us], list(done_us)
        self.count = 0

    def event(self) -> int:
        self.count += 1
        return self.count - 1

    def watch(self) -> Stopwatch:
        watch = Stopwatch(event=self.event, elapsed=lambda a, b: (self.done[b] - self.done[a]) / 1000)
        watch.start()
        self.count = 0
        for time in self.host:
            watch.stamp[0](time)
        watch.cost = 0.0
        return watch


def test_work_that_queues_up_is_timed_by_events_alone() -> None:
    """The host is far ahead: each piece starts when the one before is done."""
    found = Clocks([0, 1, 2, 3], [0, 100, 150, 400]).watch().read()
    assert found.busy.tolist() == pytest.approx([100e3, 50e3, 250e3])
    assert found.idle.tolist() == [0, 0, 0] and found.host.tolist() == [1000, 1000, 1000]


def test_a_stream_that_waits_for_the_host_is_idle_not_busy() -> None:
    """The host needs 50 µs a launch, the work 2: the stream cannot have begun before the host came."""
    found = Clocks([0, 50, 100, 150], [0, 52, 102, 152]).watch().read()
    assert found.busy.tolist() == pytest.approx([52e3, 50e3 + 2e3, 50e3 + 2e3], rel=0.1)
    late = Clocks([0, 50, 100, 150], [0, 10, 60, 110]).watch().read()
    assert late.idle.tolist() == pytest.approx([0, 40e3, 40e3])
    assert late.busy.tolist() == pytest.approx([10e3, 10e3, 10e3])
    assert float(late.busy.sum() + late.idle.sum()) == pytest.approx(110e3), "together they are the stream's time"


def driven(*holds: tuple[float, float]) -> tuple[Any, Any]:
    """Events of holds that take so many µs, with so many between the two after them."""
    times = iter([time for took, event in holds for time in (0.0, took, took + event)])

    class Event:
        def __init__(self) -> None:
            self.us = next(times)

        def elapsed_time(self, other: "Event") -> float:
            return (other.us - self.us) / 1000

    return Event, lambda cycles: None


def test_a_held_stream_tells_work_from_launches() -> None:
    """Two µs of work each, which a host that needs 50 launches one by one, and a held stream does one after the other."""
    free = Clocks([0, 50, 100, 150], [0, 52, 102, 152]).watch().read()
    watch = Clocks([200, 250, 300, 350], [900, 903, 906, 909]).watch()
    watch.hold = hold = TorchHold(*driven((4000, 1), (2000, 1)))
    hold(2e6)
    assert hold.event_ns == 1000
    hold(2e6)
    assert hold._cycles == 1e6, "half a cycle in a nanosecond"
    held = watch.read_held(free)
    assert held.busy.tolist() == pytest.approx([2e3, 2e3, 2e3])
    assert (held.busy + held.idle).tolist() == pytest.approx((free.busy + free.idle).tolist())
    assert held.host.tolist() == free.host.tolist()
    other = Clocks([0, 50], [0, 2]).watch()
    other.hold = hold
    assert other.read_held(free) is free, "a loop made other turns"


@emulated
def test_a_profile_on_the_fake_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cupy = installed(FakeCupy(), monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("irscope.runtime.cuda.device.Nvrtc", CountingCompiler)
    cupy.tick = 5.0
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)

    def program(a: Any) -> Any:
        return np.sort(np.tanh(np.exp(a))) * 2 + a

    p = irs.profile(program, x, device="cuda", seconds=0.05)
    fused = p.table("node", way="fused")
    assert p.device == "cuda" and {"prim::FusionGroup", "aten::sort"} <= set(fused["op"])
    assert (fused["host ms"] >= 0).all() and (fused["idle ms"] >= 0).all()
    assert (fused["ms"] > 0).any() and fused["ms"].sum() <= cupy.clock, "the stream's clock bounds them"
    trace = p.save(tmp_path / "x.json").read_text()
    assert '"stream"' in trace and '"host"' in trace
    rules = {remark.rule for remark in p.remarks}
    idle = sum(row.idle_ns for row in p.rows("fused"))
    assert ("waits-for-python" in rules) <= (idle > 0)
    assert fused["of copy"].isna().all(), "the limits of a GPU are not measured"


@emulated
def test_what_lies_on_the_gpu_is_measured_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cupy = installed(FakeCupy(), monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("irscope.runtime.cuda.device.Nvrtc", CountingCompiler)
    x = np.ones((8, 64), np.float32)
    graph = irs.load(lambda a: np.tanh(np.exp(a)), x)
    assert irs.profile(graph, x, seconds=0.05).device == "cpu"
    assert irs.profile(graph, cupy.asarray(x), seconds=0.05).device == "cuda"
    assert "Fake H100" in irs.compare(graph, cupy.asarray(x), repeats=1).caption
    taken = side_by_side({"host": graph, "gpu": graph}, {"host": [x], "gpu": [cupy.asarray(x)]}, seconds=0.01)
    assert set(taken) == {"host", "gpu"}


def test_a_gpu_whose_events_lie_no_time_apart_gets_no_share_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(FakeCupy(), monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("irscope.runtime.cuda.device.Nvrtc", CountingCompiler)

    def program(a: Any) -> Any:
        for _ in range(12):
            a = np.sort(np.flip(a, 0), axis=-1)
        return a

    p = irs.profile(program, np.ones((4, 8), np.float32), device="cuda", seconds=1)
    assert (p.table("node", way="op by op")["ms"] == 0).all() and "on cuda" in repr(p)
    assert not [remark for remark in p.remarks if "calls, not work" in remark.because]
    assert "waits-for-python" in {remark.rule for remark in p.remarks} and all(remark.share <= 1 for remark in p.remarks)


@pytest.mark.cuda
def test_a_profile_on_a_gpu(torch: Any) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    x = torch.randn(1 << 22, device="cuda")
    p = irs.profile(lambda a: torch.sort(torch.tanh(a) * 2 + a)[0], x, device="cuda", seconds=0.5)
    assert 0.5 < p.ways["op by op"].parts_of_call < 1.5 and p.table("node", way="op by op")["ms"].max() > 0
