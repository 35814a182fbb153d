"""Many threads of many processes compile into one directory at once: each kernel once a process, every file whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from irscope.runtime.device.kernel_cache import ObjectStore

pytest.importorskip("llvmlite")

PROCESSES, THREADS, SHARED, OWN = 2, 8, 5, 2

WORK = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import irscope as irs
from irscope.runtime.cpu import compiler as cpu_compiler, device as cpu

me, threads, shared, own = map(int, sys.argv[1:])
built, lock, compiled = [], threading.Lock(), cpu_compiler.object_file

def counted(text, host):
    with lock:
        built.append(text)
    return compiled(text, host)

cpu_compiler.object_file = counted

def program(scale):
    return irs.parse(f'''graph(%x : Float(6, 4, strides=[4, 1])):
  %k : float = prim::Constant[value={scale}]()
  %a : Tensor = aten::mul(%x, %k)
  %b : Tensor = aten::tanh(%a)
  return (%b)
''')

scales = [1.5 + index for index in range(shared)] + [100.5 + 10 * me + index for index in range(own)]
x = np.random.default_rng(0).uniform(-1, 1, (6, 4)).astype(np.float32)
start = threading.Barrier(threads)

def work(thread):
    start.wait()
    for scale in scales[thread % len(scales):] + scales[:thread % len(scales)]:
        run = irs.compile(irs.fuse(program(scale)))
        assert len(run.kernels) == 1, run.remarks
        np.testing.assert_allclose(run(x), np.tanh(x * np.float32(scale)), rtol=1e-5)

with ThreadPoolExecutor(threads) as pool:
    list(pool.map(work, range(threads)))
print(len(built), len(set(built)))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    import os

    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}


def processes(environment: dict[str, str], names: range) -> list[tuple[int, int]]:
    """Runs one process for each name; gives how many kernels each compiled, and how many different ones."""
    root = Path(__file__).parents[3]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, *map(str, (name, THREADS, SHARED, OWN))], env=environment, cwd=root,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in names
    ]  # fmt: skip
    counts = []
    for process in running:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        total, distinct = map(int, output.split())
        counts.append((total, distinct))
    return counts


def test_threads_and_processes_compile_into_one_directory(environment: dict[str, str], tmp_path: Path) -> None:
    for total, distinct in processes(environment, range(PROCESSES)):
        assert total == distinct, "no kernel is compiled twice in a process"
        assert OWN <= total <= SHARED + OWN
    store = ObjectStore(tmp_path / "irscope" / "cpu")
    files = sorted(path for path in store.directory.iterdir() if path.suffix in (".o", ".aux"))
    assert not list(store.directory.glob(".new-*"))
    assert store.summary().entries == SHARED + PROCESSES * OWN == len(files), "one file a kernel, and nothing unfinished"
    whole = [file.read_bytes() for file in files]
    assert processes(environment, range(1)) == [(0, 0)], "all is there for a later process"

    files[0].write_bytes(whole[0][: len(whole[0]) // 2])
    files[1].write_bytes(whole[1][:-1] + bytes([whole[1][-1] ^ 1]))
    files[2].write_bytes(b"")
    files[3].write_bytes(whole[3].replace(b"-object-", b"-object_", 1))
    for total, distinct in processes(environment, range(PROCESSES)):
        assert total == distinct
        assert total <= 4
    assert [file.read_bytes() for file in files] == whole, "what was damaged is as it was"
