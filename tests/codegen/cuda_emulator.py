"""CUDA text run on the processor: g++ compiles it as plain C++, and fibers play the threads of a block.

It stands behind the same code that launches on a GPU: `EmulatedGpu` takes the place of CuPy and `EmulatedCompiler` that
of NVRTC. Barriers, shared memory and shuffles work between fibers; a shuffle or a barrier that some thread of the warp
or block never reaches ends the run with an error. Timing and the memory model are not checked.
"""

import atexit
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.codegen.kernel.spec import LaunchPlan
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.cuda.launch import CudaPlan
from irscope.runtime.cuda.nvrtc import Compiled
from irscope.runtime.device.kernel_cache import ObjectStore

AVAILABLE: Final = shutil.which("g++") is not None

_RUNTIME, _HEAD = (Path(__file__).with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".cpp", ".h"))

_FLAGS: Final = ["-O0", "-std=c++17", "-shared", "-fPIC", "-w", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"]


@cache
def _folder() -> Path:
    """Removed by the process that made it: a forked child that ends must leave it to its parent."""
    folder, owner = Path(tempfile.mkdtemp(prefix="irscope-emulator-")), os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def _built(source: str, *more: str) -> Path:
    stem = _folder() / hashlib.sha256(source.encode()).hexdigest()[:24]
    library, path = stem.with_suffix(".so"), stem.with_suffix(f".{threading.get_ident()}.cpp")
    if not library.exists():
        path.write_text(source)
        made = path.with_suffix(".so")
        done = subprocess.run(["g++", *_FLAGS, "-o", str(made), str(path), *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        made.replace(library)  # at once: another thread may be about to load it
    return library


@cache
def _runtime() -> ctypes.CDLL:
    return ctypes.CDLL(str(_built(_RUNTIME)), mode=ctypes.RTLD_GLOBAL)


class EmulatedCompiler:
    """g++ in NVRTC's place."""

    def version(self) -> str:
        return "g++"

    def compile(self, text: str, architecture: str, *, lines: bool = False) -> Compiled:
        """The name of a shared library."""
        entries = re.findall(r'extern "C" __global__ void __launch_bounds__\(\d+, \d+\) (\w+)\(([^)]*)\)', text)
        runners = "".join(_runner(name, params.split(", ")) for name, params in entries)
        return Compiled(str(_built(_HEAD + text + runners, "-lm")).encode(), "", {})


def _runner(name: str, params: Sequence[str]) -> str:
    kinds = [param.replace("__restrict__", "").rsplit(" ", 1)[0] for param in params]
    passed = ", ".join(f"*({kind}*)args[{i}]" for i, kind in enumerate(kinds))
    return f'\nextern "C" void run_{name}(void** args) {{ {name}({passed}); }}\n'


class _Module:
    def __init__(self, code: bytes) -> None:
        _runtime()
        self.library = ctypes.CDLL(code.decode())

    def get_function(self, name: str) -> Any:
        """The address of what unpacks arguments and plays one thread."""
        return name, ctypes.cast(self.library[f"run_{name}"], ctypes.c_void_p)


class _Memory:
    def __init__(self, nbytes: int) -> None:
        self.block = np.full(nbytes + 256, 0xA5, np.uint8)
        self.ptr = self.block.ctypes.data + -self.block.ctypes.data % 256


class EmulatedGpu:
    """The processor in the GPU's place; counts what was launched."""

    def __init__(self, *, multiprocessors: int = 4, number: int = 0, count: int = 1) -> None:
        self.key = (number, "90")
        self.multiprocessors = multiprocessors
        self.count = count
        self.launched: list[tuple[str, tuple[int, int], int, int]] = []
        """Entry, grid, block and stream of each launch."""
        self.allocated: list[int] = []
        self.current_stream = 0
        self.last_blocks: int | None = None
        """If set, only so many blocks of each launch run, the last ones."""

    def skipped(self, blocks: int) -> int:
        """The number of the first block that runs."""
        return 0 if self.last_blocks is None else max(0, blocks - self.last_blocks)

    def load(self, code: bytes) -> _Module:
        return _Module(code)

    def launch(self, entry: Any, grid: tuple[int, int], block: int, args: Sequence[Any], stream: int) -> None:
        name, address = entry
        self.launched.append((name, grid, block, stream))
        words = [np.array([arg]) for arg in args]
        pointers = (ctypes.c_void_p * len(words))(*[word.ctypes.data for word in words])
        trouble = _runtime().emulator_launch(
            address, pointers, ctypes.c_uint(self.skipped(grid[0])), ctypes.c_uint(grid[0]), ctypes.c_uint(grid[1]), ctypes.c_uint(block)
        )
        assert trouble == 0, f"{name}: " + ["", "a warp waits", "a block waits", "a deadlock"][trouble]

    def selected(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stream(self, owner: str = "") -> int:
        return self.current_stream

    def memory(self, nbytes: int, owner: str = "") -> _Memory:
        self.allocated.append(nbytes)
        return _Memory(nbytes)

    def is_capturing(self, owner: str = "") -> bool:
        return False

    def owner(self, address: int) -> int:
        return self.key[0]


def emulated_device(folder: Path, *, multiprocessors: int = 4) -> CudaDevice:
    """A device whose kernels run on the processor."""
    gpu = EmulatedGpu(multiprocessors=multiprocessors)
    return CudaDevice(store=ObjectStore(folder / "cuda"), gpu=gpu, compiler=EmulatedCompiler())


class EmulatedPlan:
    """A launch plan run by the emulator, with the vector entry wherever a launcher may use it."""

    def __init__(self, plan: LaunchPlan, folder: Path, *, vector: bool, multiprocessors: int = 0) -> None:
        """Where no multiprocessor can be idle, small launches have vectors too."""
        device = emulated_device(folder, multiprocessors=multiprocessors)
        self.plan = plan
        self.prepared: CudaPlan = device.prepare(plan)
        assert isinstance(self.prepared.gpu, EmulatedGpu)
        self.gpu = self.prepared.gpu
        if not vector:
            self.prepared.steps = tuple(replace(step, aligned=None) for step in self.prepared.steps)

    @property
    def used_vectors(self) -> int:
        """How many launches used the vector entry."""
        return sum(name.endswith("_vector") for name, *_ in self.gpu.launched)

    def __call__(self, outputs: Sequence[int], inputs: Sequence[Any]) -> None:
        self.prepared(outputs, inputs)
