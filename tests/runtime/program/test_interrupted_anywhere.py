"""Calls and compilations that are interrupted at any line of the runtime: nothing is kept, and the next one is right.

The interrupts come from a trace function, which Python allows and nobody uses: each test has a process of its own, so that a
crash of Python is one failed test with its stack, and not the end of the others.
"""

from __future__ import annotations

import linecache
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.cpu import device as cpu
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.program.executable import compile_graph
from tests.runtime.program.small_program import OUTER, TEXT, Kept, fused, given, still_works

ROOT = Path(__file__).parents[3]


def interrupt_at(count: int, run: Callable[[], object]) -> bool:
    """Raise KeyboardInterrupt, as Ctrl-C does, when so many lines of the runtime have run; gives whether it came.

    Not at a `with`: the tracer is also there when it is about to leave, where Python itself looks for no signal. And not in
    what the collector calls, where Python ignores it.
    """
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_name == "_give_back" or "irscope/runtime" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith(
            "with "
        ):
            seen += 1
            if seen == count:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def every_place(run: Callable[[int], bool], step: int) -> int:
    """Interrupts at one line after the other until a run goes through; gives how many there were."""
    count = 1
    while run(count):
        count += step
    return count


def a_run() -> None:
    run = fused()
    still_works(run)
    assert run.pool is not None
    kept = Kept()

    def once(count: int) -> bool:
        came = interrupt_at(count, lambda: run(*map(kept, given())))
        still_works(run)
        return came

    assert every_place(once, 1) > 30
    assert kept.none()


def compiling() -> None:
    sys.unraisablehook = lambda unraisable: None  # an interrupt inside of __del__ has nowhere to go
    with tempfile.TemporaryDirectory() as folder:
        fusion = irs.fuse(irs.load(TEXT, *given()))
        store = ObjectStore(Path(folder) / "kernels")

        def once(count: int) -> bool:
            came = interrupt_at(count, lambda: compile_graph(fusion, store=store))
            still_works(compile_graph(fusion, store=store))
            store.clear()
            return came

        assert every_place(once, 7) > 50
        assert not list((Path(folder) / "kernels").glob(".new-*"))
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("irscope-compile")]


def threads_that_run_parts() -> None:
    changed: Any = cpu
    changed.loaded_openmp, changed._THREADS_PAY, changed._cores = lambda: None, 0.0, lambda: 3
    run = compile_graph(irs.fuse(irs.parse(OUTER)), store=cpu.user_store("cpu"))
    x = np.linspace(-1, 1, 60_000, dtype=np.float32).reshape(300, 200)
    wanted = np.tanh(x) * x
    np.testing.assert_allclose(run(x, x), wanted, rtol=1e-5)

    def once(count: int) -> bool:
        came = interrupt_at(count, lambda: run(x, x))
        np.testing.assert_allclose(run(x, x), wanted, rtol=1e-5)
        return came

    assert every_place(once, 1) > 10


INTERRUPTED = {work.__name__: work for work in (a_run, compiling, threads_that_run_parts)}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_interrupted_anywhere(name: str) -> None:
    if name != "a_run":
        pytest.importorskip("llvmlite")
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-m", __name__, name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "every place\n", "")


if __name__ == "__main__":
    INTERRUPTED[sys.argv[1]]()
    print("every place")
