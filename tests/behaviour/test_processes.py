"""Processes that are forked, killed, short of memory or disk, or share one directory of kernels."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from irscope.runtime.device.kernel_cache import ObjectStore

pytest.importorskip("llvmlite")
if sys.platform == "win32":
    pytest.skip("signals, forks and limits are told as POSIX has them", allow_module_level=True)

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, sys
import numpy as np
import irscope as irs
from irscope.errors import IrscopeError
from irscope.runtime.program.executable import compile_graph

def program(scale):
    return irs.fuse(irs.parse(f'''graph(%x : Float(6, 4, strides=[4, 1])):
  %k : float = prim::Constant[value={scale}]()
  %a : Tensor = aten::mul(%x, %k)
  %b : Tensor = aten::tanh(%a)
  return (%b)
'''))

def right(scale, run=None):
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
    run = run or compile_graph(program(scale), share_kernels=False)
    np.testing.assert_allclose(run(x), np.tanh(x * np.float32(scale)), rtol=1e-5)
"""

FORKED = """
import torch
large = irs.compile(irs.fuse(irs.parse('''graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %y)
  return (%b)
''')))
x = np.linspace(-1, 1, 1 << 20, dtype=np.float32)
given = torch.from_numpy(x)
wanted = np.asarray(large(given, given))
for child in range(2):
    found = os.fork()
    if found == 0:
        try:
            assert (np.asarray(large(given, given)) == wanted).all()
            right(7.5)
            again = irs.compile(irs.fuse(large.graph))
            assert (np.asarray(again(given, given)) == wanted).all()
        except BaseException as error:
            print(repr(error))
            os._exit(1)
        os._exit(0)
    assert os.waitpid(found, 0)[1] == 0
assert (np.asarray(large(given, given)) == wanted).all()
"""

SCARCE = """
import gc, resource
from irscope.runtime.device import ObjectStore
right(0.5)
for extra in (0, 1 << 16, 1 << 20, 1 << 23, 1 << 25, 1 << 27):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, resource.RLIM_INFINITY))
    try:
        made = [compile_graph(program(extra + index + 1.5), store=ObjectStore(None)) for index in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for index, run in enumerate(made):
        right(extra + index + 1.5, run)
        assert run.kernels or run.remarks[0].rule == "no-memory", run.remarks
right(0.25)
"""

TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
from irscope.runtime.cpu import compiler

built, compiled = [], compiler.object_file
compiler.object_file = lambda text, host: built.append(text) or compiled(text, host)
scales = [1.5, 2.5, 3.5, 100.5 + int(sys.argv[1])]
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda scale: right(scale, irs.compile(program(scale))), scales + scales[::-1]))
assert len(built) == len(set(built)), "a kernel is compiled twice"
print(len(built))
"""
"""Threads that compile the same kernels, and one that only this process has; prints how many were compiled."""


def ran(text: str, tmp_path: Path, *arguments: str, **more: str) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **more}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + text, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_a_forked_process_compiles_and_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ran(FORKED, tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space are Linux's")
def test_without_memory_for_the_compiler_groups_run_one_by_one(tmp_path: Path) -> None:
    ran(SCARCE, tmp_path, OPENBLAS_NUM_THREADS="1")


def test_processes_that_are_killed_leave_no_torn_file(tmp_path: Path) -> None:
    text = "import itertools\nfor index in itertools.count():\n    right(index % 9 + 0.5)\n    print('.', flush=True)\n"
    chance = random.Random(0)
    directory = tmp_path / "irscope" / "cpu"
    for _ in range(3):
        running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + text], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, cwd=ROOT,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
        store = ObjectStore(directory)
        assert all(store._read(file.name) for file in directory.glob("*.o"))
    ran("for index in range(9):\n    right(index + 0.5)\n", tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of files are told as Linux does")
def test_a_full_disk_is_an_empty_cache(tmp_path: Path) -> None:
    text = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
run = compile_graph(program(1.5), share_kernels=False)
right(1.5, run)
assert run.remarks[0].rule == "no-disk-cache", run.remarks
"""
    ran(text, tmp_path)
    names = [file.name for file in (tmp_path / "irscope" / "cpu").iterdir()]
    assert not [name for name in names if name.endswith(".o") or name.startswith(".new-")]


def test_processes_compile_into_one_directory_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda me: int(ran(TOGETHER, tmp_path, me)), "01"))
    assert min(counts) >= 1 and sum(counts) >= 5 and max(counts) <= 4
    store = ObjectStore(tmp_path / "irscope" / "cpu")
    files = sorted(path for path in store.directory.iterdir() if path.suffix in (".o", ".aux"))
    assert store.summary().entries == len(files) == 5 and not list(store.directory.glob(".new-*"))
    assert int(ran(TOGETHER, tmp_path, "0")) == 0, "all is there for a later process"
