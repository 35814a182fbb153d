"""The Python side of a quiz in a notebook, without a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import irscope as irs

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install 'irscope[lab]'")

from irscope.teaching.quiz import MIME, Shown
from irscope.widgets.lessons import QuizView


class Recorded(QuizView):  # type: ignore[misc]
    """A quiz that keeps what it would send to the page."""

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent: Mapping[str, Any] = content

    def receive(self, message: Any) -> None:
        self._handle_custom_msg(message, [])

    def told(self) -> dict[str, Any]:
        return json.loads(self.card)


def test_a_card_has_nothing_that_answers_it_before_it_is_answered() -> None:
    quiz = irs.quiz.alias(seed=2, count=2)
    view = Recorded(Shown(quiz))
    quiz.on_answer.append(view.refresh)
    before = view.card.decode()
    assert all(option.verdict.because not in before for option in quiz.questions[0].options)
    assert view.told()["judged"] is None
    view.receive({"kind": "answer", "picks": list(quiz.questions[0].answer)})
    assert view.told()["judged"]["right"]
    assert view.told()["done"] == ["right", ""]
    assert quiz.points == 1


def test_going_to_another_question_shows_its_program() -> None:
    view = Recorded(Shown(irs.quiz.alias(seed=2, count=2)))
    first = view.explorer
    view.receive({"kind": "go", "number": 1})
    assert view.explorer is not first
    assert view.told()["number"] == 1
    view.receive({"kind": "go", "number": 0})
    assert view.explorer is first


@pytest.mark.parametrize("message", [{"kind": "answer", "picks": ["%nothing"]}, {"kind": "go", "number": 7}, {"kind": "answer"}, 3])
def test_a_bad_message_is_answered_with_what_is_wrong(message: Any) -> None:
    quiz = irs.quiz.alias(seed=2, count=2)
    view = Recorded(Shown(quiz))
    view.receive(message)
    assert view.sent["kind"] == "error"
    assert not quiz.judgements


def test_the_page_cannot_put_another_card_in_its_place() -> None:
    view = Recorded(Shown(irs.quiz.alias(seed=2)))
    before = view.card
    view.set_state({"card": b"{}", "explorer": "IPY_MODEL_none"})
    assert view.card == before


def test_what_a_notebook_keeps_has_pictures_text_and_the_answers() -> None:
    quiz = irs.quiz.alias(seed=2, count=1)
    quiz.answer(*quiz.questions[0].answer)
    kept = Shown(quiz).mimebundle()
    assert kept[MIME]["points"] == 1
    assert "<img" in kept["text/html"]
    assert "answered: " in kept["text/html"]
