"""The workers of a survey: processes of this machine, or of a Dask cluster. Both treat each model in the same way."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from irscope._base.concurrency.waiting import Errand, join
from irscope.corpus.examiner import Examiner, StoppedError
from irscope.corpus.records import failure, has_record, write_record
from irscope.corpus.sources import Settings, Source
from irscope.errors import ArgumentError, DeviceUnavailable, LoadError, MissingExtra

__all__ = ["Here", "OnDask", "Workers", "workers_of"]


class Workers(Protocol):
    """The workers of a survey."""

    def examine(self, sources: Sequence[Source], out: Path, settings: Settings) -> Generator[tuple[Source, str], None, None]:
        """Writes the record of each source, in order; yields each source when it is done, with the reason if it is left out."""

    def each(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[object]:
        """Yields the result of a module's function for each item, in any order."""


class Here:
    """Processes of this machine, one per core, each busy with one model."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or os.cpu_count() or 1

    def examine(self, sources: Sequence[Source], out: Path, settings: Settings) -> Generator[tuple[Source, str], None, None]:
        """Examines the sources in their order. An interrupt stops the running ones; what is done stays."""
        left = deque(sources)
        done: SimpleQueue[tuple[Source, str] | BaseException] = SimpleQueue()
        examiner = Examiner(out, settings)

        def help() -> None:
            try:
                while True:
                    source = left.popleft()
                    done.put((source, examiner.examine(source)))
            except (IndexError, StoppedError):
                return  # another thread has taken the last one
            except BaseException as error:
                done.put(error)

        errands = [Errand(help) for _ in range(min(self.processes, len(left)))]
        try:
            for errand in errands:
                errand.start()
            for _ in sources:
                found = done.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            left.clear()
            examiner.stop()
            join(errands)

    def each(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[object]:
        """Runs one after the other, in this process: it is little work compared with the models."""
        return map(work, items)


class OnDask:
    """Workers of a Dask cluster. They see `out` and the files under the same paths, and write the results there themselves.

    A worker starts a process in which models are examined (`examiner`), so a model cannot end a worker. A worker that is killed
    loses its current model; Dask passes that to another.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def examine(self, sources: Sequence[Source], out: Path, settings: Settings) -> Generator[tuple[Source, str], None, None]:
        """Submits one task for each model."""
        if not sources:
            return
        from distributed import as_completed

        keys = [f"irscope-survey-{source.key}-{os.urandom(4).hex()}" for source in sources]
        jobs = [(str(out), source, settings) for source in sources]
        futures = self.client.map(_examine_on_worker, jobs, key=keys, retries=_RETRIES)
        source_of = dict(zip(futures, sources, strict=True))
        try:
            for future in as_completed(futures):
                source = source_of.pop(future)
                error = future.exception()
                if isinstance(error, LoadError | CancelledError):
                    raise error
                if error is not None and not has_record(out, source, settings):
                    what = f"the cluster gave it up: {type(error).__name__}: {error}"
                    limits = (settings.seconds, settings.memory)
                    write_record(out, source, failure("killed", what, limits=limits))
                yield source, "" if error is None and not future.result() else str(error or future.result())
                future.release()
        except (OSError, CancelledError) as error:
            raise _lost(error) from None
        finally:
            with suppress(OSError, CancelledError):  # the scheduler is gone, and its workers end with it
                self.client.cancel(list(source_of))
                self.client.run(_stop_examiners)

    def each(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[object]:
        """Submits one task for each item."""
        from distributed import as_completed

        futures = self.client.map(work, items, pure=False, retries=_RETRIES)
        try:
            yield from (future.result() for future in as_completed(futures))
        except (OSError, CancelledError) as error:
            if isinstance(error, OSError) and self.client.status == "running":
                raise  # of the work
            raise _lost(error) from None


_RETRIES = 3


def _lost(error: BaseException) -> DeviceUnavailable:
    what = "the connection to the Dask scheduler was lost" + (f": {error}" if isinstance(error, OSError) else "")
    return DeviceUnavailable(what, hint="what is done is kept: make the same call with a cluster that runs, or without one")


def _examine_on_worker(job: tuple[str, Source, Settings]) -> str:
    from distributed import get_worker

    out, source, settings = Path(job[0]), job[1], job[2]
    if not (out / "survey.json").exists():
        what = f"a worker on {os.uname().nodename!r} does not see the folder {str(out)!r}"
        raise LoadError(what, hint="give a folder that all workers see under the same path")
    known: dict[Any, Examiner] = vars(get_worker()).setdefault(_EXAMINERS, {})
    return known.setdefault((job[0], settings), Examiner(out, settings)).examine(source)


def _stop_examiners(dask_worker: Any) -> None:
    for examiner in vars(dask_worker).pop(_EXAMINERS, {}).values():
        examiner.stop()


_EXAMINERS = "_irscope_examiners"


def workers_of(client: Any, processes: int | None) -> Workers:
    """Returns processes here without a client; with one, or the address of a scheduler, its workers."""
    if client is None:
        if not hasattr(os, "fork"):
            raise DeviceUnavailable(
                "a survey examines each model in a fork of a process, and this system cannot fork",
                hint="run it on Linux or macOS (WSL is Linux), or on a Dask cluster there: client=…",
            )
        if processes is not None and processes < 1:
            raise ArgumentError(f"{processes} processes do no work", hint="give at least one")
        return Here(processes)
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("distributed", extra="corpus", purpose="to use a Dask cluster") from None
    if isinstance(client, str):
        try:
            return OnDask(Client(client, timeout="10s"))
        except (OSError, ValueError) as error:
            what = f"there is no Dask scheduler at {client!r}: {error}"
            raise LoadError(what, hint="give the address that the scheduler printed, such as tcp://127.0.0.1:8786") from None
    if not isinstance(client, Client):
        what = f"a client is a distributed.Client or a scheduler's address, not {type(client).__name__}"
        raise ArgumentError(what, hint="client=Client(cluster)")
    return OnDask(client)
