"""One question about a program: its options, which of them are right, and why.

Right answers are not typed in. Each option carries the verdict of an analysis, or of a measurement: it is right if the
verdict holds, and a wrong pick is answered with the verdict's reason and its witness.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from irscope._base.results import Verdict
from irscope._base.words import listed, printable
from irscope.errors import ArgumentError
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_graph
from irscope.report.box_tree import node_lines

_MOST_LINES: Final = 100
"""Of a longer program, only the lines around what the question names are shown."""

Mark = Literal["right", "wrong", "missed"]


@dataclass(frozen=True)
class Option:
    """One possible answer of a question."""

    name: str
    """What the user types to pick it: a printed name, or a letter."""
    text: str
    """The text beside the name."""
    verdict: Verdict
    """Holds if it is right to pick this, and says why or why not."""
    record: Value | Node | None = None
    """The value or node that it names; None where it names neither."""


@dataclass(frozen=True)
class Remarked:
    """The remark on one option after an answer."""

    option: Option
    mark: Mark

    def __str__(self) -> str:
        verdict = self.option.verdict
        words = {"right": "right", "wrong": "not this", "missed": "missed"}[self.mark]
        return f"{words}: {self.option.name}, because {verdict.because}"


@dataclass(frozen=True)
class Judgement:
    """The points of an answer, and the remarks on it. Truthy if all of it is right."""

    picks: tuple[str, ...]
    """The names of the picked options, in the order of the options."""
    remarks: tuple[Remarked, ...]
    """On picked and on missed options, in the order of the options."""
    points: float
    """From 0 to 1. Right options count equally, and a wrong pick subtracts as much as a right one adds."""

    def __bool__(self) -> bool:
        return all(remark.mark == "right" for remark in self.remarks)

    @property
    def witness(self) -> tuple[Any, ...]:
        """The values and nodes that show what is wrong; for a right answer, why it is right."""
        wrong = [remark for remark in self.remarks if remark.mark != "right"] or self.remarks
        return tuple(dict.fromkeys(record for remark in wrong for record in remark.option.verdict.witness))

    def __str__(self) -> str:
        return "\n".join([f"{'right' if self else 'not quite'}, {self.points:.2g} of 1", *map(str, self.remarks)])

    def __repr__(self) -> str:
        return f"<Judgement: {self}>"


@dataclass(frozen=True, eq=False)
class Question:
    """A question, its options and the program that it is about.

    >>> import irscope as irs
    >>> q = irs.quiz.alias(irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Tensor = aten::t(%x)
    ...   %b : Tensor = aten::relu(%a)
    ...   return (%b)'''), subject="x").questions[0]
    >>> print(q.judge(["%b"]))
    not quite, 0 of 1
    missed: %a, because %a is a view of %x (aten::t)
    not this: %b, because they are different memory: %x is an input, %b is made by aten::relu
    """

    kind: str
    graph: Graph
    """The program that is shown."""
    prompt: str
    options: tuple[Option, ...]
    several: bool = True
    """Whether more than one option may be picked."""
    exactly: int | None = None
    """How many are right, where the question says so."""
    subject: Value | Node | None = None
    """What the question is about; None where it is about the whole program."""
    note: str = ""
    """What else one needs to know to answer, such as where it was measured."""

    @cached_property
    def answer(self) -> tuple[str, ...]:
        """The names of the right options. It may be empty; if only one may be picked, any of them is right."""
        return tuple(option.name for option in self.options if option.verdict.holds)

    def judge(self, picks: Iterable[str]) -> Judgement:
        """Judges an answer. Raises ArgumentError for a name that is not an option, and unless one is picked where one
        is asked for."""
        chosen = [self._option(pick).name for pick in ([picks] if isinstance(picks, str) else picks)]
        if not self.several and len(chosen) != 1:
            raise ArgumentError(f"{len(chosen)} answers were given to a question with one", hint=f"pick one of {self._names()}")
        remarks = []
        for option in self.options:
            if option.name in chosen:
                remarks.append(Remarked(option, "right" if option.verdict.holds else "wrong"))
            elif option.verdict.holds and (self.several or not set(chosen) & set(self.answer)):
                remarks.append(Remarked(option, "missed"))
        marks = [remark.mark for remark in remarks]
        right, wrong = marks.count("right"), marks.count("wrong")
        if self.several:
            points = max(0.0, (right - wrong) / len(self.answer)) if self.answer else float(not wrong)
        else:
            points = float(right)
        return Judgement(tuple(option.name for option in self.options if option.name in chosen), tuple(remarks), points)

    def _option(self, pick: str) -> Option:
        wanted = str(pick).strip().lower()
        for option in self.options:
            name = option.name.lower()
            if wanted in (name, name.removeprefix("%"), name.removeprefix("line ")):
                return option
        raise ArgumentError(f"{pick!r} is not an answer to this question", hint=f"the options are {self._names()}")

    def _names(self) -> str:
        return listed([option.name for option in self.options], most=12)

    @property
    def how(self) -> str:
        """A sentence that says how many may be picked."""
        if not self.several:
            return "Pick one."
        return f"Pick {self.exactly}." if self.exactly else "Pick all that are right; there may be none."

    def text(self) -> str:
        """Formats the numbered program, the question and the options for terminals, screen readers and paper. A long
        program is cut to the lines around what the question names."""
        width = max((len(option.name) for option in self.options), default=0)
        options = [f"  {option.name.ljust(width)}  {option.text}".rstrip() for option in self.options]
        parts = [*self._program(), "", self.prompt, *([self.note] if self.note else []), self.how, *options]
        return printable("\n".join(parts))

    def _program(self) -> list[str]:
        lines = print_graph(self.graph, locations=False).split("\n")
        shown: Iterable[int] = range(len(lines))
        if len(lines) > _MOST_LINES:
            place, producer = node_lines(self.graph), self.graph.producer
            named = [self.subject, *(option.record for option in self.options)]
            nodes = [producer.get(record) if isinstance(record, Value) else record for record in named]
            near = {line for node in nodes if node is not None for line in range(place[node.id] - 2, place[node.id] + 3)}
            shown = sorted(near.intersection(shown))
        text, before = [], -1
        for number in shown:
            text += ["   …"] if number > before + 1 else []
            text.append(f"{number + 1:4}  {lines[number]}")
            before = number
        return text if before == len(lines) - 1 else [*text, "   …"]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Question ({self.kind}): {self.prompt}>"
