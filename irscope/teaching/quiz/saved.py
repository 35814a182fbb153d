"""Points of quizzes, including those that were answered in saved notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope.errors import LoadError
from irscope.files import read_json
from irscope.teaching.quiz.quiz import MIME, Quiz

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["saved_records", "score"]


def score(*answered: Quiz | str | Path) -> pd.DataFrame:
    """Returns the points of quizzes, one row each; a saved notebook (a path) has a row for each quiz that it shows.

    Raises LoadError for a file that is not a notebook.

    >>> import irscope as irs
    >>> q = irs.quiz.views(seed=3, count=2)
    >>> judged = q.answer(*q.questions[0].answer)
    >>> irs.quiz.score(q)[["title", "seed", "questions", "answered", "points"]].values.tolist()
    [['views', 3, 2, 1, 1.0]]
    """
    from irscope._base.tables import Table

    rows = []
    for source in answered:
        records = [source.record()] if isinstance(source, Quiz) else saved_records(source)
        where = "" if isinstance(source, Quiz) else Path(source).name
        rows += [(where, r["title"], r["seed"], r["questions"], len(r["answers"]), r["points"]) for r in records]
    return Table(rows, columns=["notebook", "title", "seed", "questions", "answered", "points"])


def saved_records(path: str | Path) -> list[dict[str, Any]]:
    """Returns the records of the quizzes in a saved notebook, each in its last state; `Quiz.restore` takes one."""
    notebook = read_json(path, hint="give the path of a saved .ipynb file", kind="a notebook")
    try:
        return list(_records(notebook["cells"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LoadError(
            f"{str(path)!r} is not a notebook with answers of irscope", hint="give the path of a saved .ipynb file"
        ) from None


_FIELDS: Final = {"title": str, "seed": int | None, "questions": int, "answers": list, "points": int | float}


def _records(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        for output in cell.get("outputs", ()):
            record = output.get("data", {}).get(MIME)
            if isinstance(record, dict):
                if not all(isinstance(record[key], kind) for key, kind in _FIELDS.items()):
                    raise TypeError("a field of a record has another type")
                yield record
