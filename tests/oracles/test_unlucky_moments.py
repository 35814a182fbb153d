"""Programs that are compiled and called where nobody expects it: in a process that was forked while threads compile, in a
handler of signals, in a finaliser that the collector runs, and when the process ends. Each gives an answer, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
if sys.platform == "win32":
    pytest.skip("forks and signals are told as POSIX has them", allow_module_level=True)

ROOT = Path(__file__).parents[2]

PROGRAM = """
import gc, os, signal, sys, threading, time
import numpy as np
import irscope as irs
from irscope.runtime.program.executable import compile_graph

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
LAYOUT = "strides=[4, 1]"

def made(scale, layout=LAYOUT):
    text = f'''graph(%x : Float(6, 4, {layout}), %y : Float(6, 4, {layout})):
  %k : float = prim::Constant[value={scale}]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::mul(%x, %k)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::cumsum(%b, %one, %none)
  %d : Tensor = aten::mul(%c, %y)
  %e : Tensor = aten::sigmoid(%d)
  return (%e)
'''
    return compile_graph(irs.fuse(irs.parse(text)), disk_cache=False)

def check(scale, run=None):
    run = made(scale) if run is None else run
    wanted = 1 / (1 + np.exp(-np.tanh(X * np.float32(scale)).cumsum(1) * X))
    np.testing.assert_allclose(run(X, X), wanted, rtol=1e-5)

kept = made(0.5)
check(0.5, kept)
count = int(sys.argv[1])
"""

FORKED = """
ended, results = False, []

def compiling(base):
    number = base
    while not ended:
        number += 1
        check(number + 0.5)

def fork(number):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            check(0.5, kept)
            check(number + 0.25)
            check(number + 0.5)
            irs.fuse(irs.parse(str(kept.graph)))
            os._exit(0 if gc.isenabled() else 3)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    results.append(os.waitpid(child, 0)[1])

threads = [threading.Thread(target=compiling, args=(base,)) for base in (0, 10_000)]
for thread in threads:
    thread.start()
for number in range(count):
    time.sleep(0.01)
    if number % 2:
        fork(number)
    else:
        thread = threading.Thread(target=fork, args=(number,))
        thread.start()
        thread.join()
ended = True
print(set(results), len(results))
"""

HANDLED = """
from random import Random
from tests.oracles.interrupter import Interrupter

handled, ended, current = [], False, []

def handle(signum, frame):
    check(2.5, current[0])  # the program that is being called for the first time
    check(len(handled) % 7 + 0.125)
    handled.append(signum)

def work():
    run = made(2.5, "requires_grad=0")
    current[:] = [run]
    check(2.5, run)

def compiling():
    number = 0
    while not ended:
        number += 1
        check(2.5, current[0])
        check(number % 7 + 0.125)
        check(number + 0.5)

work()
interrupter = Interrupter()
most = interrupter.moments(work)
other = threading.Thread(target=compiling)
other.start()
signal.signal(signal.SIGINT, handle)
for moment in Random(0).sample(range(1, most + 1), count):
    interrupter.run(work, moment)
ended = True
other.join()
print("handled", len(handled))
"""

FINALISED = """
finalised, ended, current, busy = [], False, [], set()

class Cycle:
    "What only the collector frees; another one comes after it."

    def __init__(self):
        self.itself = self

    def __del__(self):
        if ended:
            return
        thread = threading.get_ident()
        if thread not in busy:
            busy.add(thread)
            current[0](X, X)
            check(len(finalised) % 7 + 0.125)
            finalised.append(thread)
            busy.discard(thread)
        Cycle()

gc.freeze()
gc.set_threshold(25 if count > 9 else 400, 1000, 1000)
scale = 2.5
current[:] = [kept]
Cycle()
while len(finalised) < count:
    scale += 1
    current[:] = [made(scale, "requires_grad=0")]
    check(scale, current[0])
ended = True
print("finalised")
"""

ENDING = """
import atexit
number = iter(range(1, 100))

class Last:
    def __del__(self):
        # the modules it needs may be gone, and then it says so
        try:
            check(0.5, kept)
            check(next(number) + 0.5)
            print("finaliser", flush=True)
        except Exception as error:
            print("finaliser", type(error).__name__, flush=True)

def leaving():
    check(0.5, kept)
    check(next(number) + 0.5)
    run = made(next(number) + 0.5, "requires_grad=0")
    run(X, X)
    print("leaving", flush=True)

def running():
    while True:
        check(next(number) % 9 + 0.5)

atexit.register(leaving)
last = Last()
last.itself = last
sys.modules["irscope"].last = last
threading.Thread(target=running, daemon=True).start()
time.sleep(0.05)
"""


def ran(text: str, count: int, tmp_path: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM + text, str(count)], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=60 + 3 * count, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Exception ignored" not in done.stderr, done.stderr[-4000:]
    return done.stdout


def test_a_process_that_was_forked_while_threads_compile(tmp_path: Path) -> None:
    assert ran(FORKED, 3, tmp_path) == "{0} 3\n"


def test_a_handler_of_signals_compiles_and_calls(tmp_path: Path) -> None:
    assert ran(HANDLED, 3, tmp_path) == "handled 3\n"


def test_a_finaliser_compiles_and_calls(tmp_path: Path) -> None:
    assert ran(FINALISED, 4, tmp_path) == "finalised\n"


def test_when_the_process_ends_programs_still_run(tmp_path: Path) -> None:
    assert ran(ENDING, 0, tmp_path).splitlines()[0] == "leaving"


@pytest.mark.long
@pytest.mark.parametrize(("text", "count"), [(FORKED, 200), (HANDLED, 400), (FINALISED, 300)], ids=["fork", "signal", "gc"])
def test_many_unlucky_moments(text: str, count: int, tmp_path: Path) -> None:
    ran(text, count, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(20))
def test_many_ends(turn: int, tmp_path: Path) -> None:
    ran(ENDING, 0, tmp_path)
