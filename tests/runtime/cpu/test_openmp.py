"""Torch's threads run parts of a kernel: all parts, each once, however many threads there are."""

import ctypes
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import irscope as irs
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.cpu import device as cpu
from irscope.runtime.cpu.openmp import OpenMP, StallBackoff, loaded_openmp
from irscope.runtime.program import Executable, compile_graph
from tests.programs import ir

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

TEXT = ir("x y | a = relu x; b = mul a y; c = tanh b | c")


@pytest.fixture
def openmp() -> OpenMP:
    found = loaded_openmp()
    if found is None:
        pytest.skip("torch has no OpenMP library of this kind here")
    return found


def test_nothing_is_found_before_torch_is_imported() -> None:
    code = "from irscope.runtime.cpu.openmp import loaded_openmp; print(loaded_openmp())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "None"


@pytest.mark.parametrize("parts", [1, 2, 3, 17])
def test_every_part_runs_once_with_its_own_data(openmp: OpenMP, parts: int) -> None:
    seen: list[tuple[int, int, int]] = []
    lock = threading.Lock()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def kernel(data: int, dims: int) -> None:
        words = (ctypes.c_int64 * 2).from_address(data)
        with lock:
            seen.append((words[0], words[1], dims))

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    header = (openmp.thread_number, openmp.thread_count, address, parts, 2)
    dims = [1000 + part for part in range(parts)]
    data = [word for part in range(parts) for word in (part, -part)]
    block = struct.pack(f"{len(header) + 3 * parts}q", *header, *dims, *data)
    loop = CpuDevice()._team_loop
    openmp.fork(loop.address, block, 2, 0)
    assert sorted(seen) == [(part, -part, 1000 + part) for part in range(parts)]


def split_run(monkeypatch: pytest.MonkeyPatch, *args: object) -> Executable:
    """The program compiled with two threads, and with launches of any size split over torch's."""
    monkeypatch.setattr(cpu, "_TEAM_PAYS", 0.0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(cpu, "_cores", lambda: 2)
    return compile_graph(irs.fuse(irs.load(TEXT, *args)))


@pytest.mark.parametrize("shape", [(1000,), (33, 70), (5, 3, 7), (129,)])
def test_results_do_not_depend_on_who_runs_the_parts(openmp: OpenMP, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(shape), torch.randn(shape)
    alone = compile_graph(irs.fuse(irs.load(TEXT, x, y)))(x, y)
    run = split_run(monkeypatch, x, y)
    assert torch.equal(run(x, y), alone)


def test_many_python_threads_may_call_at_once(openmp: OpenMP, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(4096), torch.randn(4096)
    wanted = torch.tanh(x.relu() * y)
    run = split_run(monkeypatch, x, y)

    def work(mark: int) -> None:
        scaled = y * mark
        truth = torch.tanh(x.relu() * scaled)
        assert all(torch.allclose(run(x, scaled), truth, atol=1e-6) for _ in range(50))

    with ThreadPoolExecutor(4) as pool_of_threads:
        list(pool_of_threads.map(work, range(1, 5)))
    assert torch.allclose(run(x, y), wanted, atol=1e-6)


def test_no_more_threads_than_torch_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert CpuDevice().threads == 3 and CpuDevice(threads=5).threads == 5


def test_a_launch_that_stalls_leaves_the_team_alone_for_a_while() -> None:
    patience = StallBackoff(100e-6)
    waits = []
    for _ in range(4):
        patience.note(8e-3)
        waits.append(0)
        while patience.is_over():
            waits[-1] += 1
    assert waits == [2, 4, 8, 16], "also if the first call of all stalled"
    for _ in range(200):
        patience.note(60e-6)
    assert not patience.is_over()
    patience.note(8e-3)
    assert sum(patience.is_over() for _ in range(100)) == 2, "forgiven by and by"


def test_a_forked_process_has_no_team(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = StallBackoff(1.0)
    assert not patience.is_over()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert patience.is_over()


def test_without_the_team_all_parts_run_here(openmp: OpenMP, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(4096), torch.randn(4096)
    run = split_run(monkeypatch, x, y)
    wanted = run(x, y)
    monkeypatch.setattr(StallBackoff, "is_over", lambda self: True)
    assert torch.equal(run(x, y), wanted)
