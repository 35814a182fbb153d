"""What a survey keeps: a record of each model, tables of all records, and the classes across models.

A worker writes a record, one JSON file per model, under a temporary name and renames it: at that moment the model is done. One
that is written again is the same file, so nothing is counted twice. A record carries a digest of itself; one that does not
match, as after a crash or a change by somebody else, is no record, and the model is examined again.

The tables are Parquet files, written a batch of models at a time:

    models    one row for each model that could be examined
    groups    one row for each fusion group of a model, with its class's fingerprint
    launches  one row for each kernel that a model needs, with the number of its groups that run it
    remarks   one row for each rule, kind and op of a model
    ops       one row for each op of a model: how often in a group, how often alone, and why the first of these is
    failures  one row for each model that was left out
    bodies    one row for each distinct group of a model

Bodies with equal fingerprints by `alpha` are one class. Only classes with equal coarse fingerprints can be the same by any other
relation; their representatives are read back from their text and sorted by dedup's own ladder: each merge is proven by a bijection. A
representative that cannot be read back, or then has another fingerprint, stays alone.

*A near-miss* is a family of classes that are equal except for one hole: all other parameters of their common form have the same value.
They are found by leaving out each parameter in turn and grouping by the values of the rest: linear in the classes, and quadratic in the
parameters, of which similar kernels have few.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from irscope._base.nested import grouped
from irscope.corpus.sources import Settings, Source
from irscope.errors import IrscopeError, LoadError, MissingExtra
from irscope.files import read_file, write_file
from irscope.frontends.text import parse
from irscope.ir import Node
from irscope.transforms.dedup import RELATIONS, Ladder, Piece, fingerprint, format_payload, pieces_of
from irscope.transforms.dedup.rewrite import ClassHoles, class_holes

Row = dict[str, Any]
_COLUMNS: Final = {
    "models": "model source key: string; nodes in_groups groups classes writes views view_copies bytes_before bytes_after: int64; "
    "compile_s seconds: float64; peak_bytes: int64",
    "groups": "model: string; group: int64; result fingerprint: string; bytes_before bytes_after: int64",
    "launches": "model kernel: string; groups: int64",
    "remarks": "model kind rule op: string; count: int64; example: string",
    "ops": "model op: string; in_groups alone: int64; because: string",
    "failures": "model source key kind what: string",
    "bodies": "model fingerprint coarse: string; members bytes_before bytes_after nodes: int64; ops kind: string; compile_s: float64; "
    "kernels text: string",
    "classes": "fingerprint: string; members models nodes: int64; ops kind: string; bytes_before bytes_after: int64; compile_s: "
    "float64; kernels first text: string",
    "near": "hole kind values: string; classes members: int64; compile_s: float64; fingerprints: string",
    "ladder": "relation: string; classes largest: int64; compile_s: float64",
}
COLUMNS: Final[dict[str, dict[str, str]]] = {
    table: {name: type for part in text.split("; ") for names, _, type in [part.partition(": ")] for name in names.split()}
    for table, text in _COLUMNS.items()
}
"""The columns of each table, with their Arrow types. A list in a cell is text separated by blanks, or by ` | `."""

MANIFEST: Final = "survey.json"
TABLES: Final = "tables"
_FOLDER: Final = "models"
"""What lies in the folder of a survey."""


# -- records ----------------------------------------------------------------------------------------------------------


def record_path(out: Path, key: str) -> Path:
    """Returns the file of a source's record. A subfolder holds one part of 256: some systems are slow with many files in one."""
    return out / _FOLDER / key[:2] / f"{key}.json"


def read_record(out: Path, source: Source) -> dict[str, Any] | None:
    """Returns the record of a source; None if it is not done, or its file does not hold a record."""
    with suppress(LoadError, ValueError, LookupError, TypeError, RecursionError):
        found: dict[str, Any] = json.loads(read_file(record_path(out, source.key)).getvalue())
        if found["digest"] == _digest(found["record"]):
            record: dict[str, Any] = found["record"]
            return record
    return None


def _digest(record: dict[str, Any]) -> str:
    return blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()


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
    write_file(path, json.dumps({"digest": _digest(record), "record": record}))


def failure(kind: str, what: str, *, limits: Sequence[int] | None = None) -> dict[str, Any]:
    """Returns the record of a source that is left out: the reason, and the limits if higher ones might suffice."""
    return {"failure": {"kind": kind, "what": what, "limits": None if limits is None else list(limits)}}


# -- tables -----------------------------------------------------------------------------------------------------------


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


def merge(job: tuple[str, str, int, Sequence[Source]]) -> int:
    """Writes the tables of a batch of models. Returns how many of them were examined."""
    out, tables, number, sources = Path(job[0]), Path(job[1]), job[2], job[3]
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    for source in sources:
        record = read_record(out, source) or failure("vanished", _VANISHED)
        about = {"model": source.name, "source": source.path, "key": source.key}
        for table, listed in _rows(record, about).items():
            rows[table] += listed
    for table, listed in rows.items():
        write_rows(tables / table / f"{number:06d}.parquet", table, listed)
    return len(rows["models"])


_VANISHED: Final = (
    "its record is gone, or is damaged: something else changed the folder of the survey meanwhile; a repeated call examines it again"
)


def _rows(record: dict[str, Any], about: Row) -> dict[str, list[Row]]:
    if "failure" in record:
        return {"failures": [{**about, **record["failure"]}]}
    bodies, name = record["bodies"], {"model": about["model"]}
    count, before, after, launches = Counter[int](), Counter[int](), Counter[int](), Counter[str]()
    rows: dict[str, list[Row]] = {"groups": [], "bodies": []}
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
    model = {**dict.fromkeys(COLUMNS["models"]), **about, **record["model"], **spent, "peak_bytes": record.get("peak_bytes", 0)}
    rows["models"] = [model]
    rows["launches"] = [{**name, "kernel": kernel, "groups": groups} for kernel, groups in sorted(launches.items())]
    for table in ("remarks", "ops"):
        rows[table] = [{**name, **row} for row in record[table]]
    return rows


# -- classes across models --------------------------------------------------------------------------------------------


def group(tables: Path) -> int:
    """Writes the classes, near-misses and ladder of all bodies; returns the number of classes."""
    rows = classes_of(read_rows(tables / "bodies", "bodies"))
    near: list[Row] = []
    steps: dict[str, Row] = {relation: {"relation": relation, "classes": 0, "largest": 0, "compile_s": 0.0} for relation in RELATIONS[1:]}
    for _, alike in groupby(rows, key=lambda row: row["coarse"]):
        _compare(list(alike), near, steps)
    for table, listed in (("classes", rows), ("near", near), ("ladder", steps.values() if rows else ())):
        write_rows(tables / table / "all.parquet", table, listed)
    return len(rows)


def classes_of(bodies: Any) -> list[Row]:
    """Merges bodies with equal fingerprints into rows, ordered by coarse fingerprint and then by fingerprint."""
    if not len(bodies):
        return []
    pyarrow = arrow()
    sums = [(name, "sum") for name in ("members", "bytes_before", "bytes_after")]
    firsts = [(name, "first") for name in ("coarse", "nodes", "ops", "kind", "compile_s", "kernels", "text", "model")]
    table = bodies.group_by("fingerprint", use_threads=False).aggregate([*sums, *firsts, ("model", "count")])
    order = pyarrow.compute.sort_indices(table, [("coarse_first", "ascending"), ("fingerprint", "ascending")])
    names = [
        {"model_count": "models", "model_first": "first"}.get(name, name.removesuffix("_first").removesuffix("_sum"))
        for name in table.column_names
    ]
    rows: list[Row] = table.take(order).rename_columns(names).to_pylist()
    return rows


def _compare(alike: Sequence[Row], near: list[Row], steps: dict[str, Row]) -> None:
    """Adds the near-misses and ladder steps of classes with one coarse fingerprint."""
    row_of: dict[Any, Row] = {row["fingerprint"]: row for row in alike}
    pieces: dict[Node | str, Piece] = dict(_read_back(alike)) if len(alike) > 1 else {}
    alone = [(mark,) for mark in row_of if mark not in pieces]
    ladder = Ladder(pieces)
    for relation in RELATIONS[1:]:
        step = steps[relation]
        for members in [*ladder.classes(relation), *alone]:
            step["classes"] += 1
            step["largest"] = max(step["largest"], sum(row_of[mark]["members"] for mark in members))
            step["compile_s"] += row_of[members[0]]["compile_s"]
    for members in ladder.classes("dtype"):
        if len(members) > 1:
            holes = class_holes([pieces[mark] for mark in members], "dtype")
            mark_of = {id(pieces[mark]): str(mark) for mark in members}
            near += _families(holes, [mark_of[id(piece)] for piece in holes.members], row_of)


def _read_back(rows: Sequence[Row]) -> Iterator[tuple[str, Piece]]:
    for row in rows:
        if not row["text"]:
            continue
        try:
            pieces = list(pieces_of(parse(row["text"]))[0].values())
        except IrscopeError:
            continue
        if len(pieces) == 1 and fingerprint(pieces[0], "alpha").hex() == row["fingerprint"]:
            yield row["fingerprint"], pieces[0]


def _families(holes: ClassHoles, marks: Sequence[str], row_of: dict[str, Row]) -> Iterator[Row]:
    """Yields the near-misses among classes that are equal except for holes."""
    parameters = holes.parameters
    columns = list(zip(*([format_payload(value) for value in row.values] for row in parameters), strict=True))
    for place, row in enumerate(parameters):
        found = grouped(((*column[:place], *column[place + 1 :]), member) for member, column in enumerate(columns))
        for members in found.values():
            if len({columns[member][place] for member in members}) > 1:
                rows = [row_of[marks[member]] for member in members]
                yield {
                    "hole": row.place, "kind": row.kind, "values": " | ".join(columns[member][place] for member in members),
                    "classes": len(rows), "members": sum(each["members"] for each in rows),
                    "compile_s": sum(each["compile_s"] for each in rows[1:]),
                    "fingerprints": " ".join(each["fingerprint"] for each in rows),
                }  # fmt: skip
