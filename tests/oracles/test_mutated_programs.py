"""Damaged programs: each is refused by an error of irscope's own, or everything that irscope does with a program works on it.

`tests/oracles/mutations.py` damages, `tests/oracles/schema_programs.py` calls any op with anything, `tests/oracles/everything.py`
tries. A slice runs in the suite; the whole:

    .venv/bin/python -m pytest tests/oracles/test_mutated_programs.py -m long -q     # 20,000 programs of each, twenty minutes on one core

What these runs found, cut down to what fails, is kept in `tests/oracles/test_damage_found.py`.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.oracles.counts import Counts
from tests.oracles.everything import trouble
from tests.oracles.mutations import mutated
from tests.oracles.schema_programs import schema_program

SLICE, LONG, CHUNK = 120, 20_000, 500
MOST_SECONDS = 5.0
"""Processor time that one program may take, and 40 times what any takes today; these programs have about 1 kB."""
MOST_MEMORY = 3 << 30
"""Bytes of address space more than before a chunk; a program that wants more ends in a MemoryError, which is trouble."""


_LATE = "more than"


class _TooLong(BaseException):
    """Not an Exception, so that nothing on the way takes it for an error to handle."""


@contextmanager
def _limits() -> Iterator[None]:
    """Where the system has them: a limit of processor time for what runs inside, and of memory."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong(f"{_LATE} {MOST_SECONDS} s of processor time, at {frame}")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture
def less_memory() -> Iterator[None]:
    """A MemoryError instead of a machine that swaps."""
    resource = pytest.importorskip("resource")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) if sys.platform == "linux" else 0
    before = resource.getrlimit(resource.RLIMIT_AS)
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def _told(text: str, *, compiled: bool) -> str:
    try:
        with _limits():
            return trouble(text, compiled=compiled)
    except _TooLong as late:
        return str(late)


PROGRAMS = {"damaged programs": mutated, "programs of one op": schema_program}


def _survey(name: str, first: int, count: int) -> Counts:
    found = Counts(name)
    for seed in range(first, first + count):
        told = _told(PROGRAMS[name](seed), compiled=seed % 10 == 0)
        way = "passed" if not told else "hang" if told.startswith(_LATE) else "foreign"
        found.add(way, told, f"seed {seed}")
    return found


@pytest.mark.usefixtures("less_memory")
@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_programs(name: str, tell: Callable[[Counts], None]) -> None:
    found = _survey(name, 0, SLICE)
    tell(found)
    found.assert_sound()


@pytest.mark.long
@pytest.mark.usefixtures("less_memory")
@pytest.mark.parametrize("first", range(SLICE, LONG, CHUNK))
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_damaged_programs(name: str, first: int, tell: Callable[[Counts], None]) -> None:
    found = _survey(name, first, CHUNK)
    tell(found)
    found.assert_sound()


def test_most_damage_is_seen_and_much_is_harmless() -> None:
    """The mutations reach past the reader: a fair part of the programs still load."""
    import irscope as irs

    loaded = 0
    for seed in range(SLICE):
        try:
            irs.load(mutated(seed))
            loaded += 1
        except irs.IrscopeError:
            pass
    assert SLICE * 0.12 < loaded < SLICE * 0.9
