"""The tables of a survey: records become Parquet files, a batch of models at a time.

    models    one row for each model that could be examined
    groups    one row for each fusion group of a model, with its class's fingerprint
    launches  one row for each kernel that a model needs, with the number of its groups that run it
    remarks   one row for each rule, kind and op of a model
    ops       one row for each op of a model: how often in a group, how often alone, and why the first of these is
    failures  one row for each model that was left out

and, shuffled by the coarsest fingerprint, so that bodies that may be alike are in one partition,

    bodies    one row for each distinct group of a model
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from irscope.corpus.records import read_record
from irscope.corpus.sources import Source
from irscope.errors import MissingExtra

__all__ = ["Row", "arrow", "merged", "read_rows", "write_rows"]

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


def arrow() -> Any:
    """Imports pyarrow. Raises MissingExtra."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", extra="corpus", purpose="to write and read the tables of a survey") from None
    return pyarrow


def write_rows(path: Path, table: str, rows: Iterable[Row]) -> None:
    """Writes rows as one Parquet file; writes nothing if there are none."""
    pyarrow = arrow()
    listed = list(rows)
    if not listed:
        return
    types = {name: getattr(pyarrow, type)() for name, type in COLUMNS[table].items()}
    columns = {name: pyarrow.array([row.get(name) for row in listed], type) for name, type in types.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")


def read_rows(folder: Path, table: str) -> Any:
    """Returns all rows of a table as a pyarrow table, which may be empty."""
    pyarrow = arrow()
    files = sorted(folder.rglob("*.parquet"))
    if files:
        return pyarrow.concat_tables(pyarrow.parquet.read_table(file, use_threads=False) for file in files)
    return pyarrow.table({name: pyarrow.array([], getattr(pyarrow, type)()) for name, type in COLUMNS[table].items()})


def merged(job: tuple[str, str, int, Sequence[Source], int]) -> int:
    """Writes the tables of a batch of models, their bodies by partition. Returns how many models were examined."""
    out, tables, number, sources, partitions = Path(job[0]), Path(job[1]), job[2], job[3], job[4]
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    for source in sources:
        record = read_record(out, source)
        if record is None:
            continue
        about = {"model": source.name, "source": source.path, "key": source.key}
        if "failure" in record:
            rows["failures"].append({**about, **record["failure"]})
        else:
            _add(rows, record, about)
    shuffled: dict[int, list[Row]] = {}
    for row in rows.pop("bodies"):
        shuffled.setdefault(int(row["coarse"][:4], 16) * partitions >> 16, []).append(row)
    for partition, bodies in shuffled.items():
        write_rows(tables / "bodies" / f"{partition:04d}" / f"{number:06d}.parquet", "bodies", bodies)
    for table, listed in rows.items():
        write_rows(tables / table / f"{number:06d}.parquet", table, listed)
    return len(rows["models"])


def _add(rows: dict[str, list[Row]], record: Row, about: Row) -> None:
    bodies, name = record["bodies"], {"model": about["model"]}
    count, before, after, launches = Counter[int](), Counter[int](), Counter[int](), Counter[str]()
    for group in record["groups"]:
        body = group["body"]
        count[body] += 1
        before[body] += group["bytes_before"]
        after[body] += group["bytes_after"]
        launches.update(bodies[body]["kernels"])
        rows["groups"].append({**name, **group, "fingerprint": bodies[body]["fingerprint"]})
    for place, body in enumerate(bodies):
        sums = {"members": count[place], "bytes_before": before[place], "bytes_after": after[place]}
        rows["bodies"].append({**name, **body, **sums, "kernels": " ".join(body["kernels"])})
    spent = {"compile_s": sum(body["compile_s"] for body in bodies), "seconds": record["seconds"]}
    rows["models"].append({**about, **record["model"], **spent, "peak_bytes": record.get("peak_bytes", 0)})
    rows["launches"] += [{**name, "kernel": kernel, "groups": groups} for kernel, groups in sorted(launches.items())]
    for table in ("remarks", "ops"):
        rows[table] += [{**name, **row} for row in record[table]]
