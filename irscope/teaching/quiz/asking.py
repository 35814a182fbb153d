"""The public questions: about a given program, or about random ones of a chosen difficulty.

All kinds are asked by one skeleton, `_about` and `_random`; a row of `KINDS` is what they differ in.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.frontends.text import parse
from irscope.ir import Node, Value, graph_of
from irscope.teaching.quiz import programs
from irscope.teaching.quiz.kinds import (
    alias_questions,
    example_arguments,
    fusion_questions,
    move_questions,
    same_questions,
    speed_question,
    view_questions,
)
from irscope.teaching.quiz.question import Question
from irscope.teaching.quiz.quiz import Quiz
from irscope.transforms.dedup import Dedup, dedup
from irscope.transforms.fusion import Fusion, fuse


def _as_graph(program: Any) -> Any:
    return graph_of(program, "a quiz")


def _as_fusion(program: Any) -> Fusion:
    return program if isinstance(program, Fusion) else fuse(graph_of(program, "a quiz"))


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


def moves(
    program: Any = None, *, subject: Node | Value | str | None = None, count: int | None = None, difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:  # fmt: skip
    """Ask where a write may move. `subject` is its node; the rest is as for `alias`. Difficulty 2 has views of the
    written memory, 3 also a second write."""
    return _quiz("moves", program, subject, count, difficulty, seed)


def views(
    program: Any = None, *, subject: Value | str | None = None, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask whether a `reshape`, `contiguous` or similar op copies; the program must declare sizes and strides. The rest
    is as for `alias`. Difficulty 2 asks after two such ops, 3 after three in a row."""
    return _quiz("views", program, subject, count, difficulty, seed)


def fusion(
    program: Any = None, *, subject: Value | str | None = None, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask which values one kernel computes. `program` is a Fusion, or a Graph, which is then fused; the rest is as for `alias`.
    Difficulty 2 has writes between them, 3 also sums and transposes."""
    return _quiz("fusion", program, subject, count, difficulty, seed)


def same(found: Any = None, *, count: int | None = None, difficulty: int = 1, seed: int | None = None) -> Quiz:
    """Ask which two fusion groups are the same. `found` is a Dedup, or a Fusion or Graph, whose groups are then compared by
    `irs.dedup`. Random groups differ in one op or number, and from difficulty 2 also in the order of two ops."""
    return _quiz("same", found, None, count, difficulty, seed)


def speed(program: Any = None, *args: Any, count: int | None = None, difficulty: int = 1, seed: int | None = None) -> Quiz:
    """Ask whether a program is faster op by op or fused, and by how much; both are measured on the spot, which takes a
    second or so. `program` is a Graph or a Fusion, with arguments to run it with; without arguments, arrays of the
    sizes that it declares. Random programs are short at difficulty 1; from 2 they are longer, some with a product of
    matrices."""
    if program is None:
        return _quiz("speed", None, None, count, difficulty, seed)
    made, drawn = _as_fusion(program), _seed(seed)
    return Quiz([speed_question(made, args or example_arguments(made.original, drawn))], title="speed", seed=drawn)


def mixed(*, count: int = 10, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED) -> Quiz:
    """Ask questions of several kinds, in rotation, about random programs. Raises ArgumentError for an unknown kind."""
    chosen = list(kinds)
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown or not chosen:
        what = f"there is no kind {unknown[0]!r}" if chosen else "no kinds are given"
        raise ArgumentError(what, hint=f"the kinds are {', '.join(KINDS)}")
    return _random("mixed", chosen, count, difficulty, seed)


def sheets(people: int, *, count: int = 5, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED) -> list[Quiz]:
    """Draw a set for a class: one quiz for each of `people`, of the same kinds and difficulty about different programs.
    The seeds are consecutive, so that `mixed(seed=...)` recreates any of them."""
    first, chosen = _seed(seed), list(kinds)
    return [mixed(count=count, difficulty=difficulty, seed=first + k, kinds=chosen) for k in range(_count(people))]


def _quiz(kind: str, program: Any, subject: Any, count: int | None, difficulty: int, seed: int | None) -> Quiz:
    if program is not None:
        return _about(kind, program, subject, count, seed)
    if subject is not None:
        raise ArgumentError("a subject is given without a program", hint=f"irs.quiz.{kind}(program, subject=...)")
    return _random(kind, [kind], 5 if count is None else count, difficulty, seed)


def _about(name: str, program: Any, subject: Any, count: int | None, seed: int | None) -> Quiz:
    """A quiz about one program."""
    kind, drawn = KINDS[name], _seed(seed)
    made = kind.prepare(program)
    graph = made.original if isinstance(made, Fusion) else graph_of(made.source, "a quiz") if isinstance(made, Dedup) else made
    if isinstance(subject, str):
        subject = graph.node(subject) if kind.about_nodes else graph.value(subject)
    about = () if subject is None else (subject,)
    questions = list(islice(kind.ask(made, random.Random(drawn), *about), 1 if count is None else _count(count)))
    if not questions:
        hint = f"irs.quiz.{name}(seed=1) asks about random programs"
        raise ArgumentError(f"{graph.name!r} has nothing to ask about {name}", hint=hint)
    return Quiz(questions, title=name, seed=drawn)


def _random(title: str, kinds: list[str], count: int, difficulty: int, seed: int | None) -> Quiz:
    """A quiz about random programs; the kinds take turns."""
    drawn = _seed(seed)
    rng = random.Random(drawn)
    asked = [_random_question(kinds[k % len(kinds)], rng, difficulty) for k in range(_count(count))]
    return Quiz(asked, title=title, seed=drawn)


def _random_question(name: str, rng: random.Random, difficulty: int) -> Question:
    if difficulty not in (1, 2, 3):
        raise ArgumentError(f"there is no difficulty {difficulty!r}", hint="it is 1, 2 or 3")
    kind = KINDS[name]
    for _ in range(_MOST_TRIES):
        program = kind.prepare(parse(kind.write(rng, difficulty)))
        if (found := next(kind.ask(program, rng), None)) is not None:
            return found
    raise AssertionError(f"no random program has a question about {name}")


def _seed(seed: int | None) -> int:
    return random.SystemRandom().randrange(100_000) if seed is None else seed


def _count(count: int) -> int:
    if not 1 <= count <= 10_000:
        raise ArgumentError(f"{count!r} questions cannot be asked", hint="ask for 1 to 10,000")
    return count
