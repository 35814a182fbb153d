"""Runs the case files of alias analysis: programs about which torch's alias db is wrong, and what we say of them.

Sections: `input` the program as a graph; `questions` one `question a, b` a line, to which our answer is added after a
colon; where torch.jit.script runs the program wrongly, `python` the same one as a function `f` and `arguments` to call it with
(`tests.analysis.alias.test_miscompiles`). What torch does with the others is in `tests.analysis.alias.test_torch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irscope._base.verdict import Verdict
from irscope.analysis.alias.query.alias_db import AliasDb
from irscope.ir.text.parser import parse
from irscope.ir.verify import verify


def answer(sections: Mapping[str, str]) -> dict[str, str]:
    graph = parse(sections["input"])
    verify(graph)
    db = AliasDb(graph)
    return {
        "questions": "\n".join(
            f"{question} {', '.join(names)}:  {ask(db, question, names)}"
            for question, names in questions(sections["questions"])
        )
    }


def questions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each line's question and the names it asks about."""
    for line in text.splitlines():
        question, _, names = line.partition(":  ")[0].partition(" ")
        yield question, names.split(", ")


def ask(db: AliasDb, question: str, names: list[str]) -> Verdict:
    asked = {
        "may_alias": db.may_alias,
        "may_contain_alias": db.may_contain_alias,
        "must_alias": db.must_alias,
        "has_writers": db.has_writers,
        "can_move_before": db.can_move_before,
        "can_move_after": db.can_move_after,
    }[question]
    return asked(*names)  # type: ignore[operator]
