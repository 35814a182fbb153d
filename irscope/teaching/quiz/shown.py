"""A quiz as a notebook shows it: the explorer's views of each question's program, and the card with the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from irscope._base.escaping import in_markup
from irscope.display.embedded import embedded_svg
from irscope.display.svg import graph_svg
from irscope.ir import Graph, Node, Value
from irscope.report.pages import HistoryInspection, ProgramIndex
from irscope.report.pages.history_view import history_view
from irscope.report.view_models import CardJudgement, CardOption, CardRemark, CardView
from irscope.teaching.quiz.question import Judgement, Question
from irscope.transforms.history import History

if TYPE_CHECKING:
    from irscope.widgets.explorer import Explorer

__all__ = ["Answered", "Shown", "card_of"]


class Answered(Protocol):
    """The part of a Quiz that is shown."""

    title: str
    seed: int
    questions: tuple[Question, ...]

    @property
    def judgements(self) -> Mapping[int, Judgement]: ...
    def answer(self, *picks: str, question: int | None = None) -> Judgement: ...
    def text(self) -> str: ...
    def summary(self) -> str: ...
    def kept(self) -> dict[str, Any]: ...


class Shown:
    """What a quiz's widget needs: views, cards and answers."""

    def __init__(self, quiz: Answered) -> None:
        self._quiz = quiz
        self._explorers: dict[int, Explorer] = {}

    def explorer(self, number: int) -> Explorer:
        """Returns the views of a question's unchanged program; they do not give away the answer."""
        from irscope.widgets.explorer import Explorer

        if number not in self._explorers:
            history = History(self._quiz.questions[number].graph)
            inspection = HistoryInspection(history)
            self._explorers[number] = Explorer(history_view(history), inspection, "")
        return self._explorers[number]

    def card(self, number: int) -> CardView:
        """Returns the current card of a question."""
        return card_of(self._quiz, number)

    def answer(self, number: int, picks: Sequence[str]) -> None:
        """Records an answer, which notifies the quiz's listeners."""
        self._quiz.answer(*picks, question=number)

    def mimebundle(self) -> dict[str, Any]:
        """Returns pictures and text of the questions with the answers so far, which a notebook keeps."""
        parts = []
        for number, question in enumerate(self._quiz.questions):
            graph = ProgramIndex(question.graph).first_graph()
            parts.append(embedded_svg(graph_svg(graph, themed=True), f"the graph of question {number + 1}"))
        html = f'<div class="irs-static">{"".join(parts)}<pre>{in_markup(self._quiz.text())}</pre></div>'
        return {**self._quiz.kept(), "text/html": html}


def card_of(quiz: Answered, number: int) -> CardView:
    """Returns the card of a question; it contains the right answer only once the question is answered."""
    question, judged = quiz.questions[number], quiz.judgements.get(number)
    done = [quiz.judgements.get(k) for k in range(len(quiz.questions))]
    return CardView(
        title=f"{quiz.title}, seed {quiz.seed}",
        kind=question.kind,
        number=number,
        done=["" if each is None else "right" if each else "wrong" for each in done],
        summary=quiz.summary(),
        prompt=question.prompt,
        note=question.note,
        how=question.how,
        several=question.several,
        subject=_id(question.graph, question.subject),
        options=[
            CardOption(name=option.name, text=option.text, record=_id(question.graph, option.record))
            for option in question.options
        ],
        judged=None if judged is None else _judged(question, judged),
    )


def _judged(question: Question, judged: Judgement) -> CardJudgement:
    remarks = [
        CardRemark(
            name=remark.option.name,
            mark=remark.mark,
            because=remark.option.verdict.because,
            witness=[id for record in remark.option.verdict.witness if (id := _id(question.graph, record))],
        )
        for remark in judged.remarks
    ]
    return CardJudgement(right=bool(judged), points=judged.points, picks=list(judged.picks), remarks=remarks)


def _id(graph: Graph, record: object) -> int:
    """Returns the id of a record of the program that is shown; 0 for any other, such as a group of the fused program."""
    if isinstance(record, Value) and record in graph.block_of:
        return record.id
    return record.id if isinstance(record, Node) and record in graph.position else 0
