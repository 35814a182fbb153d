"""The records of a survey, one file per model, written as a whole or not at all.

A worker writes a record under a temporary name and renames it: at that moment the model is done. A worker that repeats it, because
another was thought dead, writes the same file. So nothing is counted twice, and what is done stays done. A record is data: others may
write to a shared folder, and one that has not the rows of a model, or of a failure, is no record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, Final

from irscope.corpus.sources import Settings, Source
from irscope.errors import LoadError
from irscope.files import read_file, write_file

__all__ = ["COLUMNS", "Row", "failure", "has_record", "read_record", "record_path", "record_rows", "write_record"]

Row = dict[str, Any]
COLUMNS: Final[dict[str, dict[str, str]]] = {
    "models": {
        "model": "string", "source": "string", "key": "string", "nodes": "int64", "in_groups": "int64", "groups": "int64",
        "classes": "int64", "writes": "int64", "views": "int64", "view_copies": "int64", "bytes_before": "int64",
        "bytes_after": "int64", "compile_s": "float64", "seconds": "float64", "peak_bytes": "int64",
    },
    "groups": {
        "model": "string", "group": "int64", "result": "string", "fingerprint": "string", "bytes_before": "int64",
        "bytes_after": "int64",
    },
    "launches": {"model": "string", "kernel": "string", "groups": "int64"},
    "remarks": {"model": "string", "kind": "string", "rule": "string", "op": "string", "count": "int64", "example": "string"},
    "ops": {"model": "string", "op": "string", "in_groups": "int64", "alone": "int64", "because": "string"},
    "failures": {"model": "string", "source": "string", "key": "string", "kind": "string", "what": "string"},
    "bodies": {
        "model": "string", "fingerprint": "string", "coarse": "string", "members": "int64", "bytes_before": "int64",
        "bytes_after": "int64", "nodes": "int64", "ops": "string", "kind": "string", "compile_s": "float64", "kernels": "string",
        "text": "string",
    },
    "classes": {
        "fingerprint": "string", "members": "int64", "models": "int64", "nodes": "int64", "ops": "string", "kind": "string",
        "bytes_before": "int64", "bytes_after": "int64", "compile_s": "float64", "kernels": "string", "first": "string",
        "text": "string",
    },
    "near": {
        "hole": "string", "kind": "string", "values": "string", "classes": "int64", "members": "int64", "compile_s": "float64",
        "fingerprints": "string",
    },
    "ladder": {"relation": "string", "classes": "int64", "largest": "int64", "compile_s": "float64"},
}  # fmt: skip
"""The columns of each table, with their Arrow types. A list in a cell is text separated by blanks, or by ` | `."""

_FOLDER: Final = "models"
_DIGEST: Final = re.compile(r"[0-9a-f]{8,}")
_KINDS: Final = {"string": str, "int64": int, "float64": float | int}


def record_path(out: Path, key: str) -> Path:
    """Returns the file of a source's record. A subfolder holds one part of 256: some systems are slow with many files in one."""
    return out / _FOLDER / key[:2] / f"{key}.json"


def read_record(out: Path, source: Source) -> dict[str, Any] | None:
    """Returns the record of a source; None if it is not done, or its file does not hold a record."""
    found = _read(out, source)
    return None if found is None else found[0]


def record_rows(out: Path, source: Source) -> dict[str, list[Row]] | None:
    """Returns the rows of a source by table; None where `read_record` does."""
    found = _read(out, source)
    return None if found is None else found[1]


def _read(out: Path, source: Source) -> tuple[dict[str, Any], dict[str, list[Row]]] | None:
    with suppress(LoadError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        record: dict[str, Any] = json.loads(read_file(record_path(out, source.key)).getvalue())
        rows = _rows(record, {"model": source.name, "source": source.path, "key": source.key})
        for table, listed in rows.items():
            for row in listed:
                _check(row, COLUMNS[table])
        return record, rows
    return None


def _rows(record: dict[str, Any], about: Row) -> dict[str, list[Row]]:
    """Returns the rows of a record; raises a LookupError, TypeError, ValueError or AttributeError if it is not one."""
    if "failure" in record:
        limits = record["failure"].get("limits")
        if limits is not None and [type(limit) for limit in limits] != [int, int]:
            raise TypeError
        return {"failures": [{**about, **record["failure"]}]}
    bodies, name = record["bodies"], {"model": about["model"]}
    count, before, after, launches = Counter[int](), Counter[int](), Counter[int](), Counter[str]()
    rows: dict[str, list[Row]] = {"groups": [], "bodies": []}
    for group in record["groups"]:
        body = range(len(bodies))[group["body"]]
        count[body] += 1
        before[body] += group["bytes_before"]
        after[body] += group["bytes_after"]
        launches.update(bodies[body]["kernels"])
        rows["groups"].append({**name, **group, "fingerprint": bodies[body]["fingerprint"]})
    for place, body in enumerate(bodies):
        if not (_DIGEST.fullmatch(body["fingerprint"]) and _DIGEST.fullmatch(body["coarse"])):
            raise ValueError
        sums = {"members": count[place], "bytes_before": before[place], "bytes_after": after[place]}
        rows["bodies"].append({**name, **body, **sums, "kernels": " ".join(body["kernels"])})
    spent = {"compile_s": sum(body["compile_s"] for body in bodies), "seconds": record["seconds"]}
    model = {**dict.fromkeys(COLUMNS["models"]), **about, **record["model"], **spent, "peak_bytes": record.get("peak_bytes", 0)}
    rows["models"] = [model]
    rows["launches"] = [{**name, "kernel": kernel, "groups": groups} for kernel, groups in sorted(launches.items())]
    for table in ("remarks", "ops"):
        rows[table] = [{**name, **row} for row in record[table]]
    return rows


def _check(row: Row, columns: dict[str, str]) -> None:
    """Raises KeyError, TypeError or ValueError unless a row has these columns; only what is not counted for a model may be None."""
    for column, kind in columns.items():
        value = row[column]
        if value is None and kind == "int64":
            continue
        if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
            raise TypeError
        if not isinstance(value, str) and not (isfinite(value) and -(1 << 63) <= value < 1 << 63):
            raise ValueError


def has_record(out: Path, source: Source, settings: Settings) -> bool:
    """Checks whether a source is done. One that ran out of time or memory is not, if its limits are higher now."""
    record = read_record(out, source)
    if record is None:
        return False
    limits = record.get("failure", {}).get("limits")
    return limits is None or (limits[0] >= settings.seconds and limits[1] >= settings.memory)


def write_record(out: Path, source: Source, record: dict[str, Any]) -> None:
    """Writes the record of a source. Raises ArgumentError if it cannot be written."""
    path = record_path(out, source.key)
    with suppress(OSError):  # the file says what is wrong
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            path.unlink(missing_ok=True)  # a pipe, which would never take it
    write_file(path, json.dumps({"key": source.key, "name": source.name, "source": source.path, **record}, separators=(",", ":")))


def failure(kind: str, what: str, *, limits: Sequence[int] | None = None) -> dict[str, Any]:
    """Returns the record of a source that is left out: the reason, and the limits if higher ones might suffice."""
    return {"failure": {"kind": kind, "what": what, "limits": None if limits is None else list(limits)}}
