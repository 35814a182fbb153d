"""A quiz: a sequence of questions, the answers given, and their points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irscope.errors import ArgumentError, IrscopeError, MissingExtra
from irscope.teaching.quiz.question import Judgement, Question

__all__ = ["MIME", "Quiz"]

MIME = "application/vnd.irscope.quiz+json"
"""The MIME type under which a notebook keeps the answers beside the output."""


class Quiz:
    """Questions, and the answers that were given.

    A notebook cell that ends with one shows it in the explorer; `ask()` asks in a terminal, `text()` is the sheet on paper.

    >>> import irscope as irs
    >>> q = irs.quiz.alias(seed=7, count=2)
    >>> q.answer(*q.questions[0].answer).points
    1.0
    >>> q
    <Quiz 'alias' (seed 7): 1 of 2 answered, 1 point>
    """

    def __init__(self, questions: Sequence[Question], *, title: str = "quiz", seed: int = 0) -> None:
        self.questions = tuple(questions)
        self.title = title
        self.seed = seed
        """The same call with this seed makes the same questions."""
        self._judged: dict[int, Judgement] = {}
        self.on_answer: list[Callable[[], object]] = []
        """Called after each answer; widgets that show the quiz register here."""

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def judgements(self) -> Mapping[int, Judgement]:
        """The judgement of each answer, by the number of the question, counted from 0."""
        return dict(self._judged)

    @property
    def points(self) -> float:
        """The sum of the points of all answers; each question counts at most 1."""
        return sum(judgement.points for judgement in self._judged.values())

    @property
    def next(self) -> int | None:
        """The number of the first question without an answer; None when all have one."""
        return next((k for k in range(len(self.questions)) if k not in self._judged), None)

    def answer(self, *picks: str, question: int | None = None) -> Judgement:
        """Answer a question, by default the first that has no answer. The first answer counts; a later one is only
        judged.

        Raises ArgumentError for an unknown question, for a name that is not an option, and when all are answered.
        """
        number = self.next if question is None else question
        if number is None:
            raise ArgumentError(
                "all questions are answered", hint="q.answer(..., question=0) judges another answer to the first one"
            )
        if not 0 <= number < len(self.questions):
            raise ArgumentError(
                f"there is no question {number}", hint=f"they are counted from 0 to {len(self.questions) - 1}"
            )
        judged = self.questions[number].judge(picks)
        if number not in self._judged:
            self._judged[number] = judged
            for callback in self.on_answer:
                callback()
        return judged

    def text(self, *, answers: bool = False) -> str:
        """Format all questions as a sheet for terminals, screen readers and paper; with `answers`, with the key for
        marking it."""
        parts = [f"{self.title}, seed {self.seed}"]
        for number, question in enumerate(self.questions):
            parts.append(f"\n{number + 1} of {len(self.questions)} ({question.kind})\n\n{question.text()}")
            if answers:
                parts.append(f"\nright: {', '.join(question.answer) or 'none of them'}")
            elif number in self._judged:
                judged = self._judged[number]
                parts.append(f"\nanswered: {', '.join(judged.picks) or 'none of them'}\n{judged}")
        return "\n".join([*parts, "", self.summary()])

    def summary(self) -> str:
        """Format how many questions are answered, and the points."""
        return f"{len(self._judged)} of {len(self.questions)} answered, {self.points:.3g} point{'' if self.points == 1 else 's'}"

    def ask(self, read: Callable[[str], str] = input, write: Callable[[str], object] = print) -> float:
        """Ask question after question in a terminal, and return the points. If several may be picked, an empty line or
        `none` picks none; an invalid answer is asked for again; `quit` or the end of the input stops."""
        while (number := self.next) is not None:
            question = self.questions[number]
            write(f"\n{number + 1} of {len(self.questions)} ({question.kind})\n\n{question.text()}\n")
            try:
                reply = read("your answer: ")
            except EOFError:
                break
            if reply.strip().lower() in ("quit", "exit"):
                break
            try:
                write(
                    str(
                        self.answer(
                            *(word for word in reply.replace(",", " ").split() if word.lower() not in ("line", "none"))
                        )
                    )
                )
            except IrscopeError as error:
                write(str(error))
        write(self.summary())
        return self.points

    def record(self) -> dict[str, Any]:
        """Return seed, questions, answers and points as plain JSON, which a notebook keeps."""
        answers = [
            {
                "question": k,
                "kind": asked.kind,
                "prompt": asked.prompt,
                "picks": list(judged.picks),
                "points": judged.points,
            }
            for k, judged in sorted(self._judged.items())
            for asked in [self.questions[k]]
        ]
        counted = {"questions": len(self.questions), "points": self.points}
        return {"title": self.title, "seed": self.seed, **counted, "answers": answers}

    def restore(self, record: Mapping[str, Any]) -> Quiz:
        """Replay the answers of a record, such as `record()` returns. Raises ArgumentError for a record of other
        questions."""
        for given in record.get("answers", ()):
            number = int(given["question"])
            if not 0 <= number < len(self) or self.questions[number].prompt != given["prompt"]:
                raise ArgumentError(
                    f"the answers are to other questions: {given['prompt']!r}",
                    hint=f"make the quiz with the seed {record.get('seed')}",
                )
            self.answer(*given["picks"], question=number)
        return self

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Quiz {self.title!r} (seed {self.seed}): {self.summary()}>"

    def kept(self) -> dict[str, Any]:
        """Return the text and the record, which a notebook keeps under two MIME types."""
        return {"text/plain": self.text(), MIME: self.record()}

    def _ipython_display_(self) -> None:
        """Show the quiz in the explorer's views, or its text if widgets are not installed."""
        from IPython.display import display

        from irscope.teaching.quiz.shown import Shown

        shown = Shown(self)
        try:
            from irscope.widgets.quiz_view import QuizView
        except MissingExtra:
            display(shown.mimebundle(), raw=True)
            return
        view = QuizView(shown, self.next or 0)
        self.on_answer.append(view.refresh)
        display(view)
