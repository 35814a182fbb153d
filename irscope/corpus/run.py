"""Surveys: which models remain, examining them, and combining the results."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from irscope._base.progress import progress
from irscope.corpus.findings import MANIFEST, TABLES, Survey
from irscope.corpus.grouping import grouped
from irscope.corpus.order import longest_first
from irscope.corpus.records import has_record
from irscope.corpus.sources import Settings, Source, sources_of
from irscope.corpus.tables import arrow, merged
from irscope.corpus.workers import Workers, workers_of
from irscope.errors import ArgumentError, IrscopeError
from irscope.files import write_file

__all__ = ["survey"]

_BATCH: Final = 256
"""Models whose records are merged at once."""
_PARTITION: Final = 1 << 14
"""Models per partition of their fingerprints; there are between 1 and 4,096 partitions."""


def survey(
    sources: Any, client: Any = None, out: str | Path = "survey/", *, processes: int | None = None, seconds: int = 300,
    memory: int | None = None, policy: str = "greedy", trust: bool = False,
) -> Survey:  # fmt: skip
    """Loads, fuses and fingerprints many models, and reports what they have in common.

    `sources` is a folder, a file that `irs.load` reads, a function without arguments that returns what `irs.load` takes (a program, or a
    tuple of a model and its example arguments), a list of these, or a dictionary of them by name. Results are written below the folder
    `out`, model by model: a repeated call, after an interrupt or not, examines only new and changed models.

    Without a `client`, `processes` of this machine work (one per core). A `distributed.Client`, or a scheduler's address, uses the workers
    of a Dask cluster; they must see `out` and the files under the same paths.

    Each model may take `seconds` of processor time (four times that on the clock) and `memory` bytes (by default its share of the
    machine's); one that takes more, crashes or cannot be read is a row of `.failures`, and the others continue. `policy` is that of
    `irs.fuse`, `trust` that of `irs.load`.

    Returns a Survey, which shows itself in a cell, as `index.html` in the folder, and in `irs.explore`: `.classes`, `.kernels`, `.near`,
    `.models`, `.groups`, `.remarks`, `.ops`, `.failures` are tables. Ctrl-C ends it and keeps what is done.

    Raises LoadError, ArgumentError, MissingExtra where pyarrow or Dask is missing, or DeviceUnavailable where the system cannot fork.

    >>> import irscope as irs, tempfile
    >>> text = "graph(%x : Float(4)):\\n  %a : Float(4) = aten::relu(%x)\\n  %b : Float(4) = aten::tanh(%a)\\n  return (%b)"
    >>> with tempfile.TemporaryDirectory() as folder:                           # doctest: +SKIP
    ...     s = irs.corpus.survey({"one": text, "other": text.replace("%x", "%y")}, out=folder)
    ...     s.classes[["members", "models", "ops"]].values.tolist()
    [[2, 2, 'relu, tanh']]
    """
    arrow()
    folder = _resolved(Path(out))
    workers = workers_of(client, processes)
    settings = Settings(policy, trust, _checked(seconds, "seconds"), _checked(memory or _share(processes), "memory"))
    listed = sources_of(sources, settings)
    manifest = {"models": len(listed), "policy": policy, "done": False}
    with suppress(OSError):  # the manifest says what is wrong
        folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / MANIFEST, json.dumps(manifest))
    left = longest_first([source for source in listed if not has_record(folder, source, settings)], _seconds(folder))
    with progress(len(left), "surveying") as step, closing(workers.examine(left, folder, settings)) as done:
        for _ in done:
            step()
    try:
        _put_together(listed, folder, workers)
    except OSError as error:
        what = f"the tables cannot be written to {str(folder)!r}: {error.strerror or error}"
        raise ArgumentError(what, hint="make room there, and call it again: what is done is kept") from None
    write_file(folder / MANIFEST, json.dumps({**manifest, "done": True}))
    found = Survey(folder, {source.name: (source, settings) for source in listed})
    found.write(folder / "index.html")
    return found


def _seconds(out: Path) -> dict[str, float]:
    """Returns the seconds of models in an earlier survey of the folder."""
    with suppress(IrscopeError, OSError, KeyError):
        frame = Survey(out).models
        return dict(zip(frame["model"], frame["seconds"], strict=True))
    return {}


def _put_together(sources: Sequence[Source], out: Path, workers: Workers) -> None:
    """Builds the tables beside the existing ones, and replaces those when the new ones are complete."""
    ours = out / f".tables.{os.getpid()}.{os.urandom(4).hex()}"
    partitions = min(max(1, len(sources) // _PARTITION * 16), 4096)
    batches = [sources[start : start + _BATCH] for start in range(0, len(sources), _BATCH)]
    jobs = [(str(out), str(ours), number, batch, partitions) for number, batch in enumerate(batches)]
    try:
        with progress(len(jobs) + partitions, "grouping") as step:
            for _ in workers.each(merged, jobs):
                step()
            for _ in workers.each(grouped, [(str(ours), partition) for partition in range(partitions)]):
                step()
        shutil.rmtree(ours / "bodies", ignore_errors=True)
        ours.mkdir(exist_ok=True)
        if (out / TABLES).exists():
            (out / TABLES).replace(ours.with_suffix(".old"))
        ours.replace(out / TABLES)
    finally:
        shutil.rmtree(ours, ignore_errors=True)
        shutil.rmtree(ours.with_suffix(".old"), ignore_errors=True)


def _resolved(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # the working directory is gone, or there is no such user
        what = f"the folder {str(folder)!r} cannot be found: {getattr(error, 'strerror', '') or error}"
        raise ArgumentError(what, hint="give a whole path: out=…") from None


def _checked(number: float, name: str) -> int:
    if number < 1:
        raise ArgumentError(f"{name}={number!r} is too little for any model", hint=f"leave {name} out, or give more")
    return int(number)


def _share(processes: int | None) -> int:
    """Returns the machine's memory per process, less a reserve."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        whole = 1 << 35
    return max(1 << 31, int(0.9 * whole / (processes or os.cpu_count() or 1)))
