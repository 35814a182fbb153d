"""Torch's own threads, used to run parts of a kernel.

Torch splits its large ops over the threads of an OpenMP library. Between ops these threads wait by spinning, so a second
set of threads would have to share the processors with them for milliseconds, and a kernel that follows a torch op would be
slower on two threads than on one. The same library starts its threads through `GOMP_parallel`, in two microseconds while
they spin; the parts of a kernel run there. Without such a library (torch is not imported, or was built otherwise) Python
threads are used instead, which take four times as long to start.

A block of 8-byte words describes the work to the threads: the functions that return the thread's number and the thread
count, the kernel, the number of parts, the words of data in a part; then each part's dimensions, and each part's data. A
thread takes every n-th part, so all parts run however many threads the library provides.

Spinning threads obstruct other programs, and vice versa: when another program keeps a processor busy, a thread of the
team may wait there for milliseconds while the first one spins. A launch that has stalled in this way runs its parts one
after the other for a while (`StallBackoff`), which takes no longer than one thread takes.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from irscope.codegen.llvm import FunctionBuilder

_STALL: Final = 1e-3
"""Seconds beyond eight times the best that count as a stall: only a processor busy with other work causes such a wait."""
_SHORTEST_PENALTY: Final = 2
_LONGEST_PENALTY: Final = 512

_PROCESS: Final = os.getpid()
"""The process that imported this module."""


def team_loop() -> str:
    """Returns the loop that each thread runs, as LLVM text: its symbol is `irscope_team`, its argument the block."""
    body = FunctionBuilder()
    body.lines.add("define void @irscope_team(ptr %block) {\nentry:")

    def word(number: int | str, kind: str, base: str = "%block") -> str:
        return body.value(f"load {kind}, ptr {body.value(f'getelementptr i64, ptr {base}, i64 {number}')}")

    number, count, kernel = (word(place, "ptr") for place in range(3))
    parts, words = (word(place, "i64") for place in (3, 4))
    first, step = (body.value(f"zext i32 {body.value(f'call i32 {function}()')} to i64") for function in (number, count))
    dims = body.value("getelementptr i64, ptr %block, i64 5")
    data = body.value(f"getelementptr i64, ptr {dims}, i64 {parts}")
    with body.loop(parts, start=first, step=step) as part:
        datum = body.value(f"getelementptr i64, ptr {data}, i64 {body.value(f'mul i64 {part.index}, {words}')}")
        body.add(f"call void {kernel}(ptr {datum}, ptr {word(part.index, 'ptr', dims)})")
    body.add("ret void")
    body.lines.add("}")
    return body.lines.source("irscope_team", "llvm").text


@dataclass(frozen=True)
class OpenMP:
    """An OpenMP library of this process: its threads, and the functions by which a thread finds its number."""

    thread_number: int
    """The address of `omp_get_thread_num`."""
    thread_count: int
    """The address of `omp_get_num_threads`."""
    fork: Callable[[int, bytes, int, int], None]
    """`GOMP_parallel(function, block, threads, 0)`: returns when all threads have run the function; lets other Python
    threads run meanwhile."""


class StallBackoff:
    """Decides when a launch avoids the team: for two calls after a stall, and twice as many after each further one.

    A launch without a stall for a while starts at two again: a single stall does not distinguish a busy machine from a quiet one.
    """

    def __init__(self, expected: float) -> None:
        """`expected`: the approximate seconds of one thread."""
        self._best = expected
        self._alone = 0
        self._penalty = _SHORTEST_PENALTY
        self._process = os.getpid()

    def is_over(self) -> bool:
        """Checks whether the next call should avoid the team; a forked process has no team."""
        if self._alone > 0:
            self._alone -= 1
            return True
        return os.getpid() != self._process

    def note(self, seconds: float) -> None:
        """Records the seconds of a call by the team."""
        if seconds < self._best:
            self._best = seconds
        elif seconds > 8 * self._best + _STALL:
            self._alone = self._penalty
            self._penalty = min(2 * self._penalty, _LONGEST_PENALTY)
        elif self._penalty > _SHORTEST_PENALTY:
            self._penalty -= 1


def loaded_openmp() -> OpenMP | None:
    """Returns the OpenMP library whose threads torch uses; None before torch is imported, where it has no such library, and
    in a forked process, where the library would wait for its parent's threads.
    """
    torch = sys.modules.get("torch")
    if torch is None or not sys.platform.startswith("linux") or os.getpid() != _PROCESS:
        return None
    path = _library_of(torch)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)
        addresses = [
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for name in ("omp_get_thread_num", "omp_get_num_threads", "GOMP_parallel")
        ]
    except (OSError, AttributeError):
        return None
    number, count, fork = addresses
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint)(fork)
    return OpenMP(number, count, call)


def _library_of(torch: Any) -> str | None:
    """Returns the file of the OpenMP library loaded from torch's folder, or else the only one that is loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    names = ("libgomp", "libiomp5", "libomp")
    files = {line.split(None, 5)[5] for line in lines if line.count("/") and Path(line).name.startswith(names)}
    home = str(Path(torch.__file__).parent)
    own = [file for file in files if file.startswith(home)]
    if own:
        return min(own)
    return min(files) if len(files) == 1 else None
