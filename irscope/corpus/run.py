"""Surveys: which models remain, examining them on a Dask cluster, and combining the results.

The workers are Dask's: a cluster of this machine with a nanny for each worker, or the user's own. A worker that dies is
started again, and its model goes to another; one that ends workers several times is left out. What a model may take is
limited where it is examined (`examine`).
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from irscope._base.isolated import machine_memory
from irscope._base.running import progress
from irscope.corpus.examine import COMPILERS, examine
from irscope.corpus.findings import Survey
from irscope.corpus.sources import Settings, Source, sources_of
from irscope.corpus.tables import MANIFEST, TABLES, arrow, failure, group, has_record, merge, write_record
from irscope.errors import ArgumentError, DeviceUnavailable, IrscopeError, LoadError, MissingExtra, public
from irscope.files import as_path, write_file

_BATCH: Final = 256
"""Models whose records are merged at once."""
_RETRIES: Final = 3


@public
def survey(
    sources: Any, client: Any = None, out: str | Path = "survey/", *, processes: int | None = None, seconds: int = 300,
    memory: int | None = None, policy: str = "greedy", trust: bool = False, compiler: str | None = None,
) -> Survey:  # fmt: skip
    """Loads, fuses and fingerprints many models, and reports what they have in common.

    `sources` is a folder, a file that `irs.load` reads, a function without arguments that returns what `irs.load` takes (a program, or a
    tuple of a model and its example arguments), a list of these, or a dictionary of them by name. Results are written below the folder
    `out`, model by model: a repeated call, after an interrupt or not, examines only new and changed models.

    Without a `client`, a Dask `LocalCluster` of `processes` of this machine works (one per core) and ends with the survey. A
    `distributed.Client`, or a scheduler's address, uses the workers of another cluster; they must see `out` and the files under the
    same paths.

    Each model may take `seconds` of processor time (four times that on the clock) and `memory` bytes (by default its share of the
    machine's); one that takes more, crashes or cannot be read is a row of `.failures`, and the others continue. `policy` is that of
    `irs.fuse`, `trust` that of `irs.load`. With `compiler="inductor"` the groups are those that Inductor
    forms, so that the survey says what it never fuses, and why.

    Returns a Survey, which shows itself in a cell, as `index.html` in the folder, and in `irs.explore`: `.classes`, `.kernels`, `.near`,
    `.models`, `.groups`, `.remarks`, `.ops`, `.failures` are tables. Ctrl-C ends it and keeps what is done.

    Raises LoadError, ArgumentError, MissingExtra where pyarrow or Dask is missing, or DeviceUnavailable when the scheduler is lost.

    >>> import irscope as irs, tempfile
    >>> text = "graph(%x : Float(4)):\\n  %a : Float(4) = aten::relu(%x)\\n  %b : Float(4) = aten::tanh(%a)\\n  return (%b)"
    >>> with tempfile.TemporaryDirectory() as folder:                           # doctest: +SKIP
    ...     s = irs.corpus.survey({"one": text, "other": text.replace("%x", "%y")}, out=folder)
    ...     s.classes[["members", "models", "ops"]].values.tolist()
    [[2, 2, 'relu, tanh']]
    """
    arrow()
    folder = _resolve(as_path(out))
    if compiler is not None and compiler not in COMPILERS:
        raise ArgumentError(f"a survey cannot ask the compiler {compiler!r}", hint=f"it can ask {', '.join(COMPILERS)}")
    policy = compiler or policy
    settings = Settings(policy, trust, _check(seconds, "seconds"), _check(memory or _share(processes), "memory"))
    listed = sources_of(sources, settings)
    missing = [source for source in listed if not has_record(folder, source, settings)]
    with client_of(client, processes, len(missing)) as cluster:
        manifest = {"models": len(listed), "policy": policy, "done": False}
        with suppress(OSError):  # the manifest says what is wrong
            folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / MANIFEST, json.dumps(manifest))
        left = _longest_first(missing, folder)
        with progress(len(left), "surveying") as step:
            for source, error in _each(cluster, examine, [(str(folder), source, settings) for source in left], left):
                if isinstance(error, LoadError | CancelledError):
                    raise error
                if error is not None and not has_record(folder, source, settings):
                    what = f"the cluster gave it up: {type(error).__name__}: {error}"
                    write_record(folder, source, failure("killed", what, limits=(settings.seconds, settings.memory)))
                step()
        try:
            _put_together(listed, folder, cluster)
        except OSError as error:
            what = f"the tables cannot be written to {str(folder)!r}: {error.strerror or error}"
            raise ArgumentError(what, hint="make room there, and call it again: what is done is kept") from None
    write_file(folder / MANIFEST, json.dumps({**manifest, "done": True}))
    found = Survey(folder, {source.name: (source, settings) for source in listed})
    found.write(folder / "index.html")
    return found


@contextmanager
def client_of(client: Any, processes: int | None, models: int) -> Iterator[Any]:
    """Connects to a scheduler for the length of a `with`: to a cluster of this machine if there is no client, which ends with it.

    That cluster has no more workers than models. Whoever can connect to a scheduler can run code: so it listens on this machine
    alone, and only who has its certificate, which is made for it and kept in memory, is let in.
    """
    try:
        import cryptography  # noqa: F401  Dask makes certificates with it
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtra(error.name or "distributed", extra="corpus", purpose="to survey many models") from None
    if isinstance(client, Client):
        yield client
    elif isinstance(client, str):
        try:
            made = Client(client, timeout="10s")
        except (OSError, ValueError) as error:
            what = f"there is no Dask scheduler at {client!r}: {error}"
            raise LoadError(what, hint="give the address that the scheduler printed, such as tcp://127.0.0.1:8786") from None
        with made:
            yield made
    elif client is not None:
        what = f"a client is a distributed.Client or a scheduler's address, not {type(client).__name__}"
        raise ArgumentError(what, hint="client=Client(cluster)")
    elif processes is not None and processes < 1:
        raise ArgumentError(f"{processes} processes do no work", hint="give at least one")
    else:
        count = max(1, min(processes or os.cpu_count() or 1, models))
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "security": True, "silence_logs": 50}
        with _main_that_is_not_run_again(), LocalCluster(**options) as cluster, Client(cluster) as made:
            yield made


@contextmanager
def _main_that_is_not_run_again() -> Iterator[None]:
    """Hides the running script from processes that start: Python would run it there too, with the survey that it makes."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


def _each(
    client: Any, work: Callable[[Any], Any], items: Sequence[Any], names: Sequence[Any]
) -> Iterator[tuple[Any, BaseException | None]]:
    """Runs a task for each item, in this order, and yields the name of each that is done, with its error."""
    from distributed import as_completed

    futures = {client.submit(work, item, pure=False, retries=_RETRIES): name for item, name in zip(items, names, strict=True)}
    try:
        for future in as_completed(list(futures)):
            error = future.exception()
            yield futures.pop(future), error
    except (OSError, CancelledError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise  # of the work
        what = "the connection to the Dask scheduler was lost" + (f": {error}" if isinstance(error, OSError) else "")
        hint = "what is done is kept: make the same call with a cluster that runs, or without one"
        raise DeviceUnavailable(what, hint=hint) from None
    finally:
        with suppress(OSError, CancelledError):  # the scheduler is gone, and its workers end with it
            client.cancel(list(futures))


def _longest_first(sources: Sequence[Source], out: Path) -> list[Source]:
    """Returns the sources in the order in which to begin them, so that the last one to end is a short one: by their seconds in an
    earlier survey of the folder; before these the others, by their size."""
    seconds: dict[str, float] = {}
    with suppress(IrscopeError, OSError, KeyError):
        frame = Survey(out).models
        seconds = dict(zip(frame["model"], frame["seconds"], strict=True))
    return sorted(sources, key=lambda source: (source.name in seconds, -seconds.get(source.name, source.size)))


def _put_together(sources: Sequence[Source], out: Path, client: Any) -> None:
    """Builds the tables beside the existing ones, and replaces those when the new ones are complete."""
    ours = out / f".tables.{os.getpid()}.{os.urandom(4).hex()}"
    batches = [sources[start : start + _BATCH] for start in range(0, len(sources), _BATCH)]
    jobs = [(str(out), str(ours), number, batch) for number, batch in enumerate(batches)]
    try:
        with progress(len(jobs) + 1, "grouping") as step:
            for _, error in _each(client, merge, jobs, range(len(jobs))):
                if error is not None:
                    raise error
                step()
            group(ours)
        shutil.rmtree(ours / "bodies", ignore_errors=True)
        ours.mkdir(exist_ok=True)
        if (out / TABLES).exists():
            (out / TABLES).replace(ours.with_suffix(".old"))
        ours.replace(out / TABLES)
    finally:
        shutil.rmtree(ours, ignore_errors=True)
        shutil.rmtree(ours.with_suffix(".old"), ignore_errors=True)


def _resolve(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # the working directory is gone, or there is no such user
        what = f"the folder {str(folder)!r} cannot be found: {getattr(error, 'strerror', '') or error}"
        raise ArgumentError(what, hint="give a whole path: out=…") from None


def _check(number: float, name: str) -> int:
    if number < 1:
        raise ArgumentError(f"{name}={number!r} is too little for any model", hint=f"leave {name} out, or give more")
    return int(number)


def _share(processes: int | None) -> int:
    """Returns the machine's memory per process, less a reserve."""
    return max(1 << 31, int(0.9 * machine_memory() / (processes or os.cpu_count() or 1)))
