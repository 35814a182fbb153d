"""Damaged files of one kind, and damaged programs, read in processes that may die of them: what became of each.

    .venv/bin/python -m tests.oracles.files_run onnx --count 10000 --json onnx.json

prints the counts at the end or at Ctrl-C, and keeps those so far in a file. Only MLIR's own parser, for which irscope starts a
Python every time, runs in the fork itself, which has loaded the parser: with the same code and limits, in a tenth of the time.
"""

import argparse
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import irscope as irs
from irscope.errors import IrscopeError
from tests.oracles.counts import Counts, table
from tests.oracles.damaged_files import KINDS as FILES
from tests.oracles.damaged_files import damaged, whole
from tests.oracles.everything import trouble
from tests.oracles.mutations import mutated, schema_program
from tests.oracles.watched import Ended, Stage, watched

PROGRAMS: Final = {"damaged programs": mutated, "programs of one op": schema_program}
KINDS: Final = (*FILES, *PROGRAMS)
_MOST_SECONDS: Final = dict.fromkeys(FILES, 2.0) | dict.fromkeys(PROGRAMS, 5.0)
"""Processor time that reading one file may take, or everything that is done with a program: 40 times what any takes today."""
_MOST_MEMORY: Final = dict.fromkeys(FILES, 1 << 30) | dict.fromkeys(PROGRAMS, 3 << 30)
"""Bytes of address space that this may take beyond what the process has; where more is wanted, a MemoryError, which is not ours."""
_TOLD: Final = 50
"""Files between two writings of the counts."""

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
        if kind in FILES:
            path.write_bytes(damaged(kind, seed))
        _limit_memory(_MOST_MEMORY[kind])
        start = time.process_time()
        ended = _ended(path, program) if kind in FILES else _followed(PROGRAMS[kind](seed), program, compiled=seed % 10 == 0)
        seconds = time.process_time() - start
    late = f"{seconds:.1f} s of processor time; {ended.said}"
    yield Ended(program, "hang", late) if seconds > _MOST_SECONDS[kind] else ended


def _ended(path: Path, program: str) -> Ended:
    try:
        loaded = irs.load(path)
        for graph in [loaded] if isinstance(loaded, irs.Graph) else loaded.graphs.values():
            irs.fuse(irs.parse(str(graph)))
    except IrscopeError as error:
        told = str(error)
        good = 0 < len(told) < 20_000 and "Traceback" not in told
        return Ended(program, "refused" if good else "foreign", f"{type(error).__name__}: {told[:300]}")
    except Exception as error:
        return Ended(program, "foreign", f"{type(error).__name__}: {str(error)[:300]}")
    return Ended(program, "passed")


def _followed(text: str, program: str, *, compiled: bool) -> Ended:
    told = trouble(text, compiled=compiled)
    return Ended(program, "foreign" if told else "passed", told)


_limited = False


def _limit_memory(most: int) -> None:
    """Once a process."""
    global _limited
    statm = Path("/proc/self/statm")
    if not _limited and statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + most, resource.RLIM_INFINITY))
        _limited = True


def survey(kind: str, first: int, count: int) -> Iterator[Ended]:
    """What became of so many of a kind, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for index, content in enumerate(whole(kind) if kind in FILES else ()):  # made once, in the parent
            path = Path(folder) / f"{index}.{kind}"
            path.write_bytes(content)
            irs.load(path)  # what a sound file needs is loaded once, in the parent
    if kind in PROGRAMS:
        trouble(PROGRAMS[kind](0))
    yield from watched(_read, [(kind, seed) for seed in range(first, first + count)], each=40 if kind in FILES else 250)


def main() -> None:
    parser = argparse.ArgumentParser(description="damaged files of a kind, read in processes that may die of them")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--first", type=int, default=0, help="the number of the first file")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="where the counts so far are kept")
    options = parser.parse_args()
    found = Counts(f"damaged files: {options.kind}")
    try:
        for ended in survey(options.kind, options.first, options.count):
            found.add(ended.way, ended.said, ended.program)
            if options.json and found.programs % _TOLD == 0:
                options.json.write_text(json.dumps(found.plain()), encoding="utf-8")
    except KeyboardInterrupt:
        pass
    print("\n".join([*table([found]), *(f"{way}: {program}: {said}" for way, program, said in found.bad())]))


if __name__ == "__main__":
    main()
