"""The facts of torch's own alias tests, and of scenarios derived from them: never a false "no", and sharper than torch."""

import json
from pathlib import Path
from typing import Any

import pytest

from irscope._base.results import Verdict
from irscope.analysis.alias.alias_db import AliasDb
from irscope.ir.text.parser import parse

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "cases/alias/alias_sample.json").read_text())["cases"]


def ask(db: AliasDb, question: str, arguments: list[str]) -> Verdict:
    if question == "writes_to_alias":
        return db.writes_to(db.graph.node(arguments[0]), arguments[1])
    if question == "node_has_writers":
        return db.has_writers(db.graph.node(arguments[0]))
    if question.startswith("move"):
        return db.can_move_before(*arguments) if question == "move_before" else db.can_move_after(*arguments)
    return {"may_alias": db.may_alias, "may_contain_alias": db.may_contain_alias, "has_writers": db.has_writers}[question](*arguments)


def is_sound(question: str, answer: bool, truth: bool) -> bool:
    """A sharing or a write that happens must not be denied; a move that changes the program must not be granted."""
    return answer <= truth if question.startswith("move") else answer >= truth


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_no_true_answer_is_missed(case: dict[str, Any]) -> None:
    db = AliasDb(parse(case["ir"]))
    for query in case["queries"]:
        verdict = ask(db, query["q"], query["args"])
        assert is_sound(query["q"], bool(verdict), query["ideal"]), f"{query['q']} {query['args']}: {verdict}"
        assert verdict.because


def test_less_is_given_up_than_by_torch() -> None:
    ours = theirs = 0
    for case in CASES:
        db = AliasDb(parse(case["ir"]))
        for query in case["queries"]:
            ours += bool(ask(db, query["q"], query["args"])) != query["ideal"]
            theirs += query["class"] == "torch_imprecise"
    assert ours <= theirs // 4


def test_torch_is_wrong_where_we_are_right() -> None:
    wrong = [(c, q) for c in CASES for q in c["queries"] if q["class"] == "torch_unsound"]
    assert len(wrong) > 10
    for case, query in wrong:
        assert bool(ask(AliasDb(parse(case["ir"])), query["q"], query["args"])) == query["ideal"] or query["expect"] != query["ideal"]
