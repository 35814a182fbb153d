"""Classes across models: the shuffled bodies of one partition become classes, their ladder, and near-misses.

Equal fingerprints by `alpha` are one class. Only classes with equal coarse fingerprints can be the same by any other relation; their
representatives are read back from their text and sorted by dedup's own ladder: each merge is proven by a bijection. A representative
that cannot be read back, or then has another fingerprint, stays alone.

*A near-miss* is a family of classes that are equal except for one hole: all other parameters of their common form have the same value.
They are found by leaving out each parameter in turn and grouping by the values of the rest: linear in the classes, and quadratic in the
parameters, of which similar kernels have few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from irscope.corpus.records import Row
from irscope.corpus.tables import arrow, read_rows, write_rows
from irscope.errors import IrscopeError
from irscope.frontends.text import parse
from irscope.ir import Node
from irscope.transforms.dedup import RELATIONS, Piece, fingerprint, pieces_of
from irscope.transforms.dedup.classes import Ladder
from irscope.transforms.dedup.holes import told
from irscope.transforms.dedup.rewrite import ClassHoles, class_holes

__all__ = ["classes_of", "grouped"]


def grouped(job: tuple[str, int]) -> int:
    """Writes the classes, near-misses and ladder of one partition; returns the number of classes."""
    tables, partition = Path(job[0]), job[1]
    rows = classes_of(read_rows(tables / "bodies" / f"{partition:04d}", "bodies"))
    near: list[Row] = []
    steps: dict[str, Row] = {
        relation: {"relation": relation, "classes": 0, "largest": 0, "compile_s": 0.0} for relation in RELATIONS[1:]
    }
    for _, alike in groupby(rows, key=lambda row: row["coarse"]):
        _compare(list(alike), near, steps)
    name = f"{partition:04d}.parquet"
    write_rows(tables / "classes" / name, "classes", rows)
    write_rows(tables / "near" / name, "near", near)
    if rows:
        write_rows(tables / "ladder" / name, "ladder", steps.values())
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
    columns = list(zip(*([told(value) for value in row.values] for row in parameters), strict=True))
    for place, row in enumerate(parameters):
        found: dict[tuple[str, ...], list[int]] = {}
        for member, column in enumerate(columns):
            found.setdefault((*column[:place], *column[place + 1 :]), []).append(member)
        for members in found.values():
            if len({columns[member][place] for member in members}) > 1:
                rows = [row_of[marks[member]] for member in members]
                yield {
                    "hole": row.place, "kind": row.kind, "values": " | ".join(columns[member][place] for member in members),
                    "classes": len(rows), "members": sum(each["members"] for each in rows),
                    "compile_s": sum(each["compile_s"] for each in rows[1:]),
                    "fingerprints": " ".join(each["fingerprint"] for each in rows),
                }  # fmt: skip
