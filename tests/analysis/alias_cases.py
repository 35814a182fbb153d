"""Runs the case files of alias analysis: programs that torch.jit.script runs wrongly, and what we say of them.

Sections: `python` the program as a function `f`; `arguments` what to call it with; `input` the same program as a
graph; `questions` one `question a, b` a line, to which our answer is added after a colon. What torch makes of the
program is in `tests.analysis.test_alias_miscompiles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irscope._base.verdict import Verdict
from irscope.analysis.alias.alias_db import AliasDb
from irscope.ir.parser import parse
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
    asked = {"may_alias": db.may_alias, "has_writers": db.has_writers, "can_move_before": db.can_move_before}[question]
    return asked(*names)  # type: ignore[operator]
