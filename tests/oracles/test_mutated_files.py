"""Damaged files of every kind: an error of irscope's own, or a program that works; soon, with little memory, and alive.

Files are read in processes that may die of them (`tests/oracles/watched.py`). The whole, 2,000 of each kind:

    .venv/bin/python -m pytest tests/oracles/test_mutated_files.py -m long -q
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import IrscopeError
from tests.oracles.counts import Counts
from tests.oracles.damaged_files import KINDS, damaged, whole
from tests.oracles.watched import Ended, Stage, watched

SLICE, LONG, CHUNK = 4, 2000, 100
MOST_MEMORY = 1 << 30
"""Bytes of address space that reading files may take beyond what the process has."""
NEEDED = {"pt": "torch", "pt2": "torch", "onnx": "onnx", "mlir": "jaxlib", "mlirbc": "jaxlib"}

Job = tuple[str, int]


def _read(job: Job, skip: int) -> Iterator[Stage | Ended]:
    kind, seed = job
    if skip:
        return
    program = f"{kind} {seed}"
    yield Stage(program, ours=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"model.{kind}"
        path.write_bytes(damaged(kind, seed))
        _limit_memory()
        try:
            loaded = irs.load(path)
            for graph in [loaded] if isinstance(loaded, irs.Graph) else loaded.graphs.values():
                irs.fuse(irs.parse(str(graph)))
        except IrscopeError as error:
            told = str(error)
            good = len(told) < 20_000 and "Traceback" not in told
            yield Ended(program, "refused" if good else "foreign", f"{type(error).__name__}: {told[:300]}")
        except Exception as error:
            yield Ended(program, "foreign", f"{type(error).__name__}: {str(error)[:300]}")
        else:
            yield Ended(program, "passed")


_limited = False


def _limit_memory() -> None:
    """Once a process: a MemoryError, which is no error of ours, where more is wanted."""
    global _limited
    statm = Path("/proc/self/statm")
    if not _limited and statm.exists():
        import resource

        pages = int(statm.read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY, resource.RLIM_INFINITY))
        _limited = True


def survey(kind: str, first: int, count: int) -> Counts:
    """What became of so many damaged files."""
    whole(kind)  # made once, in the parent
    with tempfile.TemporaryDirectory() as folder:
        for index, content in enumerate(whole(kind)):
            path = Path(folder) / f"{index}.{kind}"
            path.write_bytes(content)
            irs.load(path)  # what a sound file needs is loaded once, in the parent
    found = Counts("files")
    for ended in watched(_read, [(kind, seed) for seed in range(first, first + count)]):
        found.add(ended.way, ended.said, ended.program)
    return found


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str, tell: Callable[[Counts], None]) -> None:
    pytest.importorskip(NEEDED[kind])
    found = survey(kind, 0, SLICE)
    tell(found)
    found.assert_sound()


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(SLICE, LONG, CHUNK))
def test_many_damaged_files(kind: str, first: int, tell: Callable[[Counts], None]) -> None:
    pytest.importorskip(NEEDED[kind])
    found = survey(kind, first, min(CHUNK, LONG - first))
    tell(found)
    found.assert_sound()
