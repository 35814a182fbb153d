"""The records of a survey, one file per model, written as a whole or not at all.

A worker writes a record under a temporary name and renames it: at that moment the model is done. A worker that repeats it, because
another was thought dead, writes the same file. So nothing is counted twice, and what is done stays done.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from irscope.corpus.sources import Settings, Source
from irscope.files import replace_file

__all__ = ["failure", "has_record", "read_record", "record_path", "write_record"]

_FOLDER: Final = "models"


def record_path(out: Path, key: str) -> Path:
    """Returns the file of a source's record. A subfolder holds one part of 256: some systems are slow with many files in one."""
    return out / _FOLDER / key[:2] / f"{key}.json"


def read_record(out: Path, source: Source) -> dict[str, Any] | None:
    """Returns the record of a source; None if it is not done, or its file cannot be read."""
    with suppress(OSError, ValueError):
        record: dict[str, Any] = json.loads(record_path(out, source.key).read_bytes())
        return record
    return None


def has_record(out: Path, source: Source, settings: Settings) -> bool:
    """Checks whether a source is done. One that ran out of time or memory is not, if its limits are higher now."""
    record = read_record(out, source)
    if record is None:
        return False
    limits = record.get("failure", {}).get("limits")
    return limits is None or (limits[0] >= settings.seconds and limits[1] >= settings.memory)


def write_record(out: Path, source: Source, record: dict[str, Any]) -> None:
    """Writes the record of a source."""
    data = json.dumps({"key": source.key, "name": source.name, "source": source.path, **record}, separators=(",", ":"))
    path = record_path(out, source.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data.encode())


def failure(kind: str, what: str, *, limits: Sequence[int] | None = None) -> dict[str, Any]:
    """Returns the record of a source that is left out: the reason, and the limits if higher ones might suffice."""
    return {"failure": {"kind": kind, "what": what, "limits": None if limits is None else list(limits)}}
