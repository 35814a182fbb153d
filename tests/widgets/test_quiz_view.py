"""The Python side of a quiz in a notebook, without a browser."""

import json
from typing import Any

import pytest

import irscope as irs

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install 'irscope[lab]'")

from irscope.teaching.quiz import MIME, Shown
from irscope.widgets.lessons import QuizView
from tests.widgets.conftest import asked


def told(view: QuizView) -> dict[str, Any]:
    return json.loads(view.card)


def test_a_card_has_nothing_that_answers_it_before_it_is_answered() -> None:
    quiz = irs.quiz.alias(seed=2, count=2)
    view = QuizView(Shown(quiz))
    quiz.on_answer.append(view.refresh)
    before = view.card.decode()
    assert all(option.verdict.because not in before for option in quiz.questions[0].options)
    assert told(view)["judged"] is None
    asked(view, {"kind": "answer", "picks": list(quiz.questions[0].answer)})
    assert told(view)["judged"]["right"] and told(view)["done"] == ["right", ""]
    assert quiz.points == 1


def test_going_to_another_question_shows_its_program() -> None:
    view = QuizView(Shown(irs.quiz.alias(seed=2, count=2)))
    first = view.explorer
    asked(view, {"kind": "go", "number": 1})
    assert view.explorer is not first
    assert told(view)["number"] == 1
    asked(view, {"kind": "go", "number": 0})
    assert view.explorer is first


@pytest.mark.parametrize("message", [{"kind": "answer", "picks": ["%nothing"]}, {"kind": "go", "number": 7}, {"kind": "answer"}, 3])
def test_a_bad_message_is_answered_with_what_is_wrong(message: Any) -> None:
    quiz = irs.quiz.alias(seed=2, count=2)
    view = QuizView(Shown(quiz))
    assert [answer["kind"] for answer in asked(view, message)] == ["error"]
    assert not quiz.judgements


def test_the_page_cannot_put_another_card_in_its_place() -> None:
    view = QuizView(Shown(irs.quiz.alias(seed=2)))
    before = view.card
    view.set_state({"card": b"{}", "explorer": "IPY_MODEL_none"})
    assert view.card == before


def test_what_a_notebook_keeps_has_pictures_text_and_the_answers() -> None:
    quiz = irs.quiz.alias(seed=2, count=1)
    quiz.answer(*quiz.questions[0].answer)
    kept = Shown(quiz).mimebundle()
    assert kept[MIME]["points"] == 1 and "<img" in kept["text/html"] and "answered: " in kept["text/html"]
