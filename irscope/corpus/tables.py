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

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from irscope.corpus.records import COLUMNS, Row, record_rows
from irscope.corpus.sources import Source
from irscope.errors import MissingExtra

__all__ = ["arrow", "merged", "read_rows", "write_rows"]

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
    columns = {name: pyarrow.array([_encodable(row.get(name)) for row in listed], type) for name, type in types.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")


def _encodable(cell: Any) -> Any:
    """Returns a cell, in a text of which half of a surrogate pair is escaped: UTF-8 has no such letter."""
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) and not cell.isascii() else cell


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
        for table, listed in (record_rows(out, source) or _vanished(source)).items():
            rows[table] += listed
    shuffled: dict[int, list[Row]] = {}
    for row in rows.pop("bodies"):
        shuffled.setdefault(int(row["coarse"][:4], 16) * partitions >> 16, []).append(row)
    for partition, bodies in shuffled.items():
        write_rows(tables / "bodies" / f"{partition:04d}" / f"{number:06d}.parquet", "bodies", bodies)
    for table, listed in rows.items():
        write_rows(tables / table / f"{number:06d}.parquet", table, listed)
    return len(rows["models"])


def _vanished(source: Source) -> dict[str, list[Row]]:
    what = "its record is gone, or is damaged: something else changed the folder of the survey meanwhile; a repeated call examines it again"
    return {"failures": [{"model": source.name, "source": source.path, "key": source.key, "kind": "vanished", "what": what}]}
