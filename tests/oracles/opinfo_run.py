"""Torch's OpInfo samples as programs, each captured, fused, compiled and called beside eager torch.

    python -m tests.oracles.opinfo_run --share 3/16 --json out.json
    python -m tests.oracles.opinfo_run --ops add,masked.sum --show

`--rounds` says how many samples an op has at most; every op gets its first sample before any gets its second.
"""

import math
import pkgutil
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

import irscope as irs
import irscope.runtime.cpu
import irscope.runtime.program
from irscope import codegen, runtime
from irscope.errors import CaptureError, IrscopeError, RunError
from irscope.runtime.device import ObjectStore
from irscope.runtime.program.executable import compile_graph
from tests.oracles.counts import Counts, parser, report
from tests.oracles.judge import Call, fresh, seen
from tests.oracles.opinfo_programs import KINDS, Program, programs
from tests.oracles.watched import Ended, Stage, watched

_UNWRITTEN: Final = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_".split())
_ROUNDS: Final = ((0, 1), (1, 3), (3, 6), (6, 10), (10, 20), (20, 40))
"""Which samples of an op each round takes."""
_OTHER_TYPES: Final = (
    torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool,
)  # fmt: skip


_POLICIES: Final = ("greedy", "min-bytes", "torch-legacy")
_CALLS: Final = 4
"""Later calls go by what earlier ones learnt, and from the third on as Python."""


@dataclass(frozen=True)
class Job:
    """Some samples of one op in one element type."""

    number: int
    """The op's place in the database."""
    dtype: torch.dtype
    start: int
    stop: int
    op: str
    turn: int = 0
    """What the first sample's turn is: it chooses policies, and what is returned."""


def database() -> list[Any]:
    """All ops. Samplers that torch's own tests call with a seed of their own are called with the state of the generator."""
    import torch.testing._internal.common_methods_invocations as invocations

    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return list(invocations.op_db)


def jobs(database: Sequence[Any], rounds: int) -> list[Job]:
    found = []
    for turn, (start, stop) in enumerate(_ROUNDS[:rounds]):
        for number, op in enumerate(database):
            allowed = op.supported_dtypes("cpu")
            if not allowed or op.full_name.startswith("jiterator"):
                continue
            first = torch.float32 if torch.float32 in allowed else min(allowed, key=str)
            found.append(Job(number, first, start, stop, op.full_name))
            if turn == 1:
                types = enumerate(_OTHER_TYPES, 3 + number)
                found += [Job(number, x, 0, 1, op.full_name, at) for at, x in types if x in allowed and x != first]
    return found


def work(job: Job, skip: int) -> Iterator[Stage | Ended]:
    op = _DATABASE[job.number]
    torch.default_generator.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    count = 0
    for index, sample in enumerate(islice(op.sample_inputs("cpu", job.dtype, requires_grad=False), job.stop)):
        if index < job.start:
            continue
        turn = job.turn + index
        for program in programs(op, sample, kinds_of(turn), turn):
            for way in ("export", "script"):
                count += 1
                if count <= skip:
                    continue
                name = f"{job.op} {str(job.dtype)[6:]} {index} {program.kind} {way}"
                yield from ended(name, program, way, op, turn)


def kinds_of(turn: int) -> tuple[str, ...]:
    """All for the first samples, later two for each in turn."""
    return KINDS if turn < 3 else (KINDS[turn % 2], KINDS[2 + turn // 2 % 4])


_DATABASE: list[Any] = []


def ended(name: str, program: Program, way: str, op: Any, turn: int) -> Iterator[Stage | Ended]:
    """One program through the whole path."""
    yield Stage(name, ours=False)
    arguments = program.arguments
    try:
        capture, function = captured(program, way)
        call = Call(function, arguments, op.name in _UNWRITTEN)
        call.wanted  # noqa: B018
    except _NotAProgram:
        return
    except Exception as error:
        yield Ended(name, "torch", _said(error))
        return
    yield Stage(name, ours=True)
    try:
        if way == "export":
            graph = irs.load(function, *fresh(arguments))
        else:
            graph = irs.load(capture, *(fresh(arguments) if turn % 4 else ()))
        executable = compile_graph(irs.fuse(graph, policy=_POLICIES[turn % 3]), "cpu", store=ObjectStore(None))
        calls = [seen(executable, fresh(arguments)) for _ in range(_CALLS)]
    except Exception as error:
        said = _said(error)
        yield Stage(name, ours=False)
        if _torch_fails(capture, function, arguments, way, isinstance(error, CaptureError)):
            yield Ended(name, "torch", said)
        else:
            yield Ended(name, way_of(error), said)
        return
    yield Stage(name, ours=False)
    complaint = next(filter(None, map(call.complaint, calls)), "")
    if not complaint:
        yield Ended(name, "passed")
        return
    if program.kind == "layouts" and call.reads_beyond:
        yield Ended(name, "torch", f"torch reads memory that no argument has: {complaint}")
        return
    left = _left(capture, function, arguments, way)
    if left is None or not call.complaint(left.wanted):
        yield Ended(name, "wrong", complaint)
        return
    other = next(filter(None, map(left.complaint, calls)), "")
    told = f"neither eager's nor torch's capture's: {complaint}; {other}" if other else f"torch's capture is another program: {complaint}"
    yield Ended(name, "wrong" if other else "torch", told)


def way_of(error: Exception) -> str:
    """How a program ends that torch runs and we do not: what was taken must run."""
    return "wrong" if isinstance(error, RunError) else "refused" if isinstance(error, IrscopeError) else "foreign"


class _NotAProgram(Exception):
    """Torch itself does not run it."""


def captured(program: Program, way: str) -> tuple[Any, Callable[..., Any]]:
    """The scripted or traced function (nothing for export) and the function that is the truth."""
    plain = program.function()
    try:
        seen(plain, fresh(program.arguments))
    except Exception as error:
        raise _NotAProgram from error
    if way == "export":
        return None, plain
    if program.scripted:
        try:
            function = program.script_function()
            seen(function, fresh(program.arguments))
            return torch.jit.script(function), function
        except Exception:
            pass
    torch.default_generator.manual_seed(0)
    with torch.no_grad():
        return torch.jit.trace(plain, tuple(fresh(program.arguments)), check_trace=False), plain


def _left(capture: Any, function: Any, arguments: Any, way: str) -> Call | None:
    """What torch's own capture makes of the program; None where it fails."""

    def interpreted(*given: Any) -> Any:
        with torch.jit.optimized_execution(False):
            return capture(*given)

    try:
        left = Call(interpreted if way == "script" else _exported(function, arguments).module(), arguments)
        left.wanted  # noqa: B018
    except Exception:
        return None
    return left


def _exported(function: Any, arguments: Any) -> Any:
    class Program(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return torch.export.export(Program(), tuple(fresh(arguments)), strict=False)


def _torch_fails(capture: Any, function: Any, arguments: Any, way: str, captures: bool) -> bool:
    if captures and way == "export":
        try:
            _exported(function, arguments)
        except Exception:
            return True
        return False
    return _left(capture, function, arguments, way) is None


def _warm() -> None:
    """What each child would have to import is imported once. Nothing is compiled here: a child does not inherit threads."""
    made = irs.fuse(irs.load(lambda x: torch.tanh(x * 2), torch.ones(3)))
    irs.fuse(irs.load(torch.jit.trace(lambda x: torch.tanh(x * 2), (torch.ones(3),)), torch.ones(3)))
    assert made.groups is not None
    for room in (codegen, runtime.cpu, runtime.program):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}"[:700].split())


def run(share: tuple[int, int], rounds: int, ops: Sequence[str] = (), seconds: float = math.inf, *, show: bool = False) -> Counts:
    """What the jobs of a share came to, one of `share[1]` parts; no new process is begun after so many seconds."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _DATABASE[:] = database()
    _warm()
    chosen = [job for job in jobs(_DATABASE, rounds) if not ops or job.op in ops or _DATABASE[job.number].name in ops]
    found, start = Counts("opinfo", show=show), time.monotonic()
    for end in watched(work, chosen[share[0] :: share[1]]):
        found.add(end.way, end.said, end.program)
        if time.monotonic() - start > seconds:
            break
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3, help=f"of samples, at most {len(_ROUNDS)}")
    options.add_argument("--ops", default="", help="only these, with commas between")
    options.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    given = options.parse_args()
    ops = tuple(filter(None, given.ops.split(",")))
    report(run(given.share, given.rounds, ops, given.seconds, show=given.show), given.json)


if __name__ == "__main__":
    main()
