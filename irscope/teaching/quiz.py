"""What would you say, before it is shown: who shares memory, what moves, what fuses, what copies, what is the same, what is faster?

Questions about a given program, or about random ones of a chosen difficulty, with the answers that were given: as text, as a notebook
shows them, and as a saved notebook keeps them. All kinds are asked by one skeleton, `_about` and `_random`; a row of `KINDS` is what
they differ in.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from irscope._base.results import no, yes
from irscope._base.words import in_markup
from irscope.display.html import saved_part
from irscope.display.svg import embedded_svg, graph_svg
from irscope.errors import ArgumentError, IrscopeError, LoadError, MissingExtra, new_table, public
from irscope.files import read_json
from irscope.frontends.text import parse
from irscope.ir import Graph, Node, Value, graph_of
from irscope.ops.traits import MAY_COPY
from irscope.report.pages import ProgramIndex, history_page
from irscope.report.view_models import CardJudgement, CardOption, CardRemark, CardView, GraphView
from irscope.teaching import programs
from irscope.teaching.kinds import (
    alias_questions,
    example_arguments,
    fusion_questions,
    move_questions,
    same_questions,
    speed_question,
    view_questions,
)
from irscope.teaching.question import Judgement, Option, Question, Remarked
from irscope.transforms.base import History
from irscope.transforms.dedup import Dedup, dedup
from irscope.transforms.fusion import Fusion, fuse

if TYPE_CHECKING:
    import pandas as pd

    from irscope.widgets.explorer import Explorer

__all__ = [
    "Judgement", "KINDS", "Option", "Question", "Quiz", "Remarked", "alias", "fusion", "mixed", "moves", "own", "same",
    "score", "sheets", "speed", "views",
]  # fmt: skip

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

    def __add__(self, other: Quiz) -> Quiz:
        """One quiz of the questions of both, none of them answered."""
        if not isinstance(other, Quiz):
            return NotImplemented
        titles = dict.fromkeys((*self.title.split(" + "), *other.title.split(" + ")))
        return Quiz((*self.questions, *other.questions), title=" + ".join(titles), seed=self.seed)

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

    @public
    def answer(self, *picks: str, question: int | None = None) -> Judgement:
        """Answer a question, by default the first that has no answer. The first answer counts; a later one is only
        judged.

        Raises ArgumentError for an unknown question, for a name that is not an option, and when all are answered.
        """
        number = self.next if question is None else question
        if number is None:
            raise ArgumentError("all questions are answered", hint="q.answer(..., question=0) judges another answer to the first one")
        if not 0 <= number < len(self.questions):
            raise ArgumentError(f"there is no question {number}", hint=f"they are counted from 0 to {len(self.questions) - 1}")
        judged = self.questions[number].judge(picks)
        if number not in self._judged:
            self._judged[number] = judged
            for callback in self.on_answer:
                callback()
        return judged

    def text(self, *, answers: bool = False) -> str:
        """Format all questions as a sheet for terminals, screen readers and paper; with `answers`, with the key for marking it."""
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
                write(str(self.answer(*(word for word in reply.replace(",", " ").split() if word.lower() not in ("line", "none")))))
            except IrscopeError as error:
                write(str(error))
        write(self.summary())
        return self.points

    def record(self) -> dict[str, Any]:
        """Return seed, questions, answers and points as plain JSON, which a notebook keeps."""
        answers = [
            {"question": k, "kind": asked.kind, "prompt": asked.prompt, "picks": list(judged.picks), "points": judged.points}
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
                hint = f"make the quiz with the seed {record.get('seed')}"
                raise ArgumentError(f"the answers are to other questions: {given['prompt']!r}", hint=hint)
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

        shown = Shown(self)
        try:
            from irscope.widgets.lessons import QuizView
        except MissingExtra:
            display(shown.mimebundle(), raw=True)
            return
        view = QuizView(shown, self.next or 0)
        self.on_answer.append(view.refresh)
        display(view)


# The kinds of questions, and the quizzes of each.


def _as_graph(program: Any) -> Any:
    return graph_of(program, "a quiz")


def _as_fusion(program: Any) -> Fusion:
    return program if isinstance(program, Fusion) else fuse(_as_graph(program))


def _as_classes(found: Any) -> Dedup:
    return found if isinstance(found, Dedup) else dedup(_as_fusion(found))


def _speed_questions(fusion: Fusion, _: random.Random) -> Iterator[Question]:
    yield speed_question(fusion, example_arguments(fusion.original, 0))


@dataclass(frozen=True)
class Kind:
    """A kind of question: the questions about a prepared program, and a generator of random programs."""

    ask: Callable[..., Iterator[Question]]
    """Its arguments are what `prepare` returns, a random generator and, optionally, a subject."""
    write: Callable[[random.Random, int], str]
    prepare: Callable[[Any], Any] = _as_graph
    about_nodes: bool = False
    """Whether its subjects are nodes; otherwise they are values."""
    is_measured: bool = False


KINDS: Final = {
    "alias": Kind(alias_questions, programs.for_alias),
    "moves": Kind(move_questions, programs.for_moves, about_nodes=True),
    "fusion": Kind(fusion_questions, programs.for_fusion, _as_fusion),
    "views": Kind(view_questions, programs.for_views),
    "same": Kind(same_questions, programs.for_same, _as_classes),
    "speed": Kind(_speed_questions, programs.for_speed, _as_fusion, is_measured=True),
}
_ANALYSED: Final = tuple(name for name, kind in KINDS.items() if not kind.is_measured)

_MOST_TRIES: Final = 200
"""How many random programs without such a question, in a row, count as a bug in the generator."""


@public
def alias(
    program: Any = None, *, subject: Value | str | None = None, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask which values may share memory with one.

    `program` is a Graph, or a Fusion, which is asked about by its graph; the question is about `subject`, or about
    `count` values drawn at random. Without a program, `count` random programs are drawn: difficulty 1 has views, 2 also
    writes and two inputs that may be the same tensor, 3 also lists, ifs and loops. The same `seed` asks the same
    questions; without one it is drawn, and the quiz shows it. Raises ArgumentError for a program that has no such
    question.

    >>> import irscope as irs
    >>> print(irs.quiz.alias(seed=1, count=1))  # doctest: +ELLIPSIS
    alias, seed 1
    ...
    """
    return _quiz("alias", program, subject, count, difficulty, seed)


@public
def own(
    program: Any, prompt: str, *, right: Mapping[str, str], wrong: Mapping[str, str] = MappingProxyType({}),
    subject: Value | Node | str | None = None,
) -> Quiz:  # fmt: skip
    """Ask a question of your own about a program: `right` and `wrong` answers with the reason why they are.

    A name of the program (`%a`) as an answer can be picked in the views. One answer can be picked if one is right, otherwise several.
    Quizzes are joined by `+`. Raises ArgumentError for a question with fewer than two answers, and UnknownName for a subject that the
    program does not have.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2)):
    ...   %a : Float(2) = aten::relu(%x)
    ...   %b : Float(2) = aten::exp(%a)
    ...   return (%b)''')
    >>> q = own(g, "Which of these may be zero?", right={"%a": "relu cuts at zero"}, wrong={"%b": "exp is positive"})
    >>> print(q.answer("%b"))
    not quite, 0 of 1
    missed: %a, because relu cuts at zero
    not this: %b, because exp is positive
    >>> q + alias(g, subject="a", seed=1)
    <Quiz 'own + alias' (seed 0): 0 of 2 answered, 0 points>
    """
    graph = graph_of(program, "a quiz")
    named = {f"%{name}": value for value, name in graph.names.items()}
    if not isinstance(prompt, str):
        raise ArgumentError(f"a question is a text, not {prompt!r}", hint='irs.quiz.own(g, "Which may be zero?", right={...}, wrong={...})')
    if len({*right, *wrong}) < max(2, len(right) + len(wrong)):
        raise ArgumentError("a question has at least two answers, each of them once", hint="right={answer: reason}, wrong={answer: reason}")
    about = graph.node(subject) if isinstance(subject, str) else subject
    verdicts = {**{name: yes(why) for name, why in right.items()}, **{name: no(why) for name, why in wrong.items()}}
    order = [*(name for name in named if name in verdicts), *sorted(name for name in verdicts if name not in named)]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    options = tuple(
        Option(name if name in named else next(letters), "" if name in named else name, verdicts[name], named.get(name)) for name in order
    )
    asked = Question("own", graph, prompt, options, several=len(right) != 1, subject=about)
    return Quiz((asked,), title="own")


@public
def moves(
    program: Any = None, *, subject: Node | Value | str | None = None, count: int | None = None, difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:  # fmt: skip
    """Ask where a write may move. `subject` is its node; the rest is as for `alias`. Difficulty 2 has views of the
    written memory, 3 also a second write."""
    return _quiz("moves", program, subject, count, difficulty, seed)


@public
def views(
    program: Any = None, *, subject: Value | str | None = None, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask whether a `reshape`, `contiguous` or similar op copies; the program must declare sizes and strides. The rest
    is as for `alias`. Difficulty 2 asks after two such ops, 3 after three in a row."""
    return _quiz("views", program, subject, count, difficulty, seed)


@public
def fusion(
    program: Any = None, *, subject: Value | str | None = None, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask which values one kernel computes. `program` is a Fusion, or a Graph, which is then fused; the rest is as for `alias`.
    Difficulty 2 has writes between them, 3 also sums and transposes."""
    return _quiz("fusion", program, subject, count, difficulty, seed)


@public
def same(found: Any = None, *, count: int | None = None, difficulty: int = 1, seed: int | None = None) -> Quiz:
    """Ask which two fusion groups are the same. `found` is a Dedup, or a Fusion or Graph, whose groups are then compared by
    `irs.dedup`. Random groups differ in one op or number, and from difficulty 2 also in the order of two ops."""
    return _quiz("same", found, None, count, difficulty, seed)


@public
def speed(program: Any = None, *args: Any, count: int | None = None, difficulty: int = 1, seed: int | None = None) -> Quiz:
    """Ask whether a program is faster op by op or fused, and by how much; both are measured on the spot, which takes a
    second or so. `program` is a Graph or a Fusion, with arguments to run it with; without arguments, arrays of the
    sizes that it declares. Random programs are short at difficulty 1; from 2 they are longer, some with a product of
    matrices."""
    if program is None:
        return _quiz("speed", None, None, count, difficulty, seed)
    made, drawn = _as_fusion(program), _seed(seed)
    return Quiz([speed_question(made, args or example_arguments(made.original, drawn))], title="speed", seed=drawn)


@public
def mixed(*, count: int = 10, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED) -> Quiz:
    """Ask questions of several kinds, in rotation, about random programs. Raises ArgumentError for an unknown kind."""
    chosen = list(kinds)
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown or not chosen:
        what = f"there is no kind {unknown[0]!r}" if chosen else "no kinds are given"
        raise ArgumentError(what, hint=f"the kinds are {', '.join(KINDS)}")
    return _random("mixed", chosen, count, difficulty, seed)


@public
def sheets(people: int, *, count: int = 5, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED) -> list[Quiz]:
    """Draw a set for a class: one quiz for each of `people`, of the same kinds and difficulty about different programs.
    The seeds are consecutive, so that `mixed(seed=...)` recreates any of them."""
    first, chosen = _seed(seed), list(kinds)
    return [mixed(count=count, difficulty=difficulty, seed=first + k, kinds=chosen) for k in range(_count(people))]


def _quiz(name: str, program: Any, subject: Any, count: int | None, difficulty: int, seed: int | None) -> Quiz:
    if program is None and subject is not None:
        raise ArgumentError("a subject is given without a program", hint=f"irs.quiz.{name}(program, subject=...)")
    if program is None:
        return _random(name, [name], 5 if count is None else count, difficulty, seed)
    kind, drawn = KINDS[name], _seed(seed)
    made = kind.prepare(program)
    graph = made.original if isinstance(made, Fusion) else graph_of(made.source, "a quiz") if isinstance(made, Dedup) else made
    if isinstance(subject, str):
        subject = graph.node(subject) if kind.about_nodes else graph.value(subject)
    about = () if subject is None else (subject,)
    questions = list(islice(kind.ask(made, random.Random(drawn), *about), 1 if count is None else _count(count)))
    if not questions:
        hint = f"irs.quiz.{name}(seed=1) asks about random programs"
        why = "it has too few values, or every answer would be the same"
        raise ArgumentError(f"there is no question of the kind {name!r} to ask about {graph.name!r}: {why}", hint=hint)
    return Quiz(questions, title=name, seed=drawn)


def _random(title: str, kinds: list[str], count: int, difficulty: int, seed: int | None) -> Quiz:
    """A quiz about random programs; the kinds take turns."""
    drawn, several = _seed(seed), _count(count)
    if difficulty not in (1, 2, 3):
        raise ArgumentError(f"there is no difficulty {difficulty!r}", hint="it is 1, 2 or 3")
    rng, asked = random.Random(drawn), list[Question]()
    for name in islice(cycle(kinds), several):
        kind = KINDS[name]
        programs_of_it = (kind.prepare(parse(kind.write(rng, difficulty))) for _ in range(_MOST_TRIES))
        found = next((question for program in programs_of_it for question in islice(kind.ask(program, rng), 1)), None)
        assert found is not None, f"no random program has a question about {name}"
        asked.append(found)
    return Quiz(asked, title=title, seed=drawn)


def _seed(seed: int | None) -> int:
    if seed is not None and not hasattr(seed, "__index__"):
        raise ArgumentError(f"{seed!r} is not a seed", hint="a seed is a whole number, such as 7")
    return random.SystemRandom().randrange(100_000) if seed is None else seed


def _count(count: int) -> int:
    if not hasattr(count, "__index__") or not 1 <= count <= 10_000:
        raise ArgumentError(f"{count!r} questions cannot be asked", hint="ask for 1 to 10,000")
    return count


# Points of quizzes, including those that were answered in saved notebooks.


def score(*answered: Quiz | str | Path) -> pd.DataFrame:
    """Returns the points of quizzes, one row each; a saved notebook (a path) has a row for each quiz that it shows.

    Raises LoadError for a file that is not a notebook.

    >>> import irscope as irs
    >>> q = irs.quiz.views(seed=3, count=2)
    >>> judged = q.answer(*q.questions[0].answer)
    >>> irs.quiz.score(q)[["title", "seed", "questions", "answered", "points"]].values.tolist()
    [['views', 3, 2, 1, 1.0]]
    """
    rows = []
    for source in answered:
        records = [source.record()] if isinstance(source, Quiz) else saved_records(source)
        where = "" if isinstance(source, Quiz) else Path(source).name
        rows += [(where, r["title"], r["seed"], r["questions"], len(r["answers"]), r["points"]) for r in records]
    return new_table(rows, columns=["notebook", "title", "seed", "questions", "answered", "points"])


def saved_records(path: str | Path) -> list[dict[str, Any]]:
    """Returns the records of the quizzes in a saved notebook, each in its last state; `Quiz.restore` takes one."""
    notebook = read_json(path, hint="give the path of a saved .ipynb file", kind="a notebook")
    try:
        kept = [output.get("data", {}).get(MIME) for cell in notebook["cells"] for output in cell.get("outputs", ())]
        records = [record for record in kept if isinstance(record, dict)]
        if not all(isinstance(record[key], kind) for record in records for key, kind in _FIELDS.items()):
            raise TypeError("a field of a record has another type")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LoadError(f"{str(path)!r} is not a notebook with answers of irscope", hint="give the path of a saved .ipynb file") from None
    return records


_FIELDS: Final = {"title": str, "seed": int | None, "questions": int, "answers": list, "points": int | float}


# A quiz as a notebook shows it: the explorer's views of each question's program, and the card with the question.


class Shown:
    """What a quiz's widget needs: views, cards and answers."""

    def __init__(self, quiz: Quiz) -> None:
        self._quiz = quiz
        self._explorers: dict[int, Explorer] = {}

    def explorer(self, number: int) -> Explorer:
        """Returns the views of a question's unchanged program; they do not give away the answer."""
        from irscope.widgets.explorer import Explorer

        if number not in self._explorers:
            page = history_page(History(self._quiz.questions[number].graph))
            _untold(page.view["graph"], self._quiz.questions[number].graph)
            self._explorers[number] = Explorer(page)
        return self._explorers[number]

    def card(self, number: int) -> CardView:
        """Returns the current card of a question; it contains the right answer only once the question is answered."""
        quiz = self._quiz
        question, judged = quiz.questions[number], quiz.judgements.get(number)
        done = [quiz.judgements.get(k) for k in range(len(quiz.questions))]
        options = [CardOption(name=option.name, text=option.text, record=_id(question.graph, option.record)) for option in question.options]
        return CardView(
            title=f"{quiz.title}, seed {quiz.seed}", kind=question.kind, number=number,
            done=["" if each is None else "right" if each else "wrong" for each in done], summary=quiz.summary(),
            prompt=question.prompt, note=question.note, how=question.how, several=question.several,
            subject=_id(question.graph, question.subject), options=options,
            judged=None if judged is None else _judged(question, judged),
        )  # fmt: skip

    def answer(self, number: int, picks: Sequence[str]) -> None:
        """Records an answer, which notifies the quiz's listeners."""
        self._quiz.answer(*picks, question=number)

    def mimebundle(self) -> dict[str, Any]:
        """Returns pictures and text of the questions with the answers so far, which a notebook keeps."""
        parts = []
        for number, question in enumerate(self._quiz.questions):
            graph = _untold(ProgramIndex(question.graph).first_graph(), question.graph)
            parts.append(embedded_svg(graph_svg(graph, themed=True), f"the graph of question {number + 1}"))
        html = saved_part(f"{''.join(parts)}<pre>{in_markup(self._quiz.text())}</pre>")
        return {**self._quiz.kept(), "text/html": html}


def _untold(view: GraphView, graph: Graph) -> GraphView:
    """Gives the boxes of ops that may copy the colour of none: that of their kind would answer the question."""
    asked = {node.id for node in graph.nodes() if node.op in MAY_COPY}
    for box in view["boxes"]:
        if box["id"] in asked:
            box["category"] = "other"
    return view


def _judged(question: Question, judged: Judgement) -> CardJudgement:
    remarks = []
    for remark in judged.remarks:
        name, verdict = remark.option.name, remark.option.verdict
        witness = [id for record in verdict.witness if (id := _id(question.graph, record))]
        remarks.append(CardRemark(name=name, mark=remark.mark, because=verdict.because, witness=witness))
    return CardJudgement(right=bool(judged), points=judged.points, picks=list(judged.picks), remarks=remarks)


def _id(graph: Graph, record: object) -> int:
    """Returns the id of a record of the program that is shown; 0 for any other, such as a group of the fused program."""
    if isinstance(record, Value) and record in graph.block_of:
        return record.id
    return record.id if isinstance(record, Node) and record in graph.position else 0


class _Quizzes(ModuleType):
    """This module, which says what to call where somebody calls it, and offers that to the Tab key."""

    def __dir__(self) -> list[str]:
        return list(__all__)

    def __call__(self, *_: Any, **__: Any) -> Any:
        kinds = ", ".join(f".{name}" for name in KINDS)
        raise ArgumentError("a quiz is of one kind, or mixed", hint=f"irs.quiz.mixed(g); the kinds are {kinds}; irs.quiz.own asks your own")


sys.modules[__name__].__class__ = _Quizzes
