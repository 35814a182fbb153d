"""The public questions: about a given program, or about random ones of a chosen difficulty."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.frontends.text import parse
from irscope.ir import Graph, Node, Value, graph_of
from irscope.teaching.quiz import programs
from irscope.teaching.quiz.kinds import (
    alias_questions,
    fusion_questions,
    move_questions,
    same_questions,
    view_questions,
)
from irscope.teaching.quiz.measured import example_arguments, speed_question
from irscope.teaching.quiz.question import Question
from irscope.teaching.quiz.quiz import Quiz
from irscope.transforms.dedup import Dedup, dedup
from irscope.transforms.fusion import Fusion, fuse

__all__ = ["KINDS", "alias", "fusion", "mixed", "moves", "same", "sheets", "speed", "views"]

Ask = Callable[..., Iterator[Question]]
"""Of a graph, a source of chance and, where it is given, a subject."""
Write = Callable[[random.Random, int], str]

KINDS: Final[dict[str, tuple[Ask, Write]]] = {
    "alias": (alias_questions, programs.for_alias),
    "moves": (move_questions, programs.for_moves),
    "fusion": (lambda graph, rng: fusion_questions(fuse(graph), rng), programs.for_fusion),
    "views": (view_questions, programs.for_views),
    "same": (lambda graph, rng: same_questions(dedup(fuse(graph)), rng), programs.for_same),
    "speed": (lambda graph, rng: iter([speed_question(fuse(graph), example_arguments(graph, 0))]), programs.for_speed),
}
"""How each kind asks about a program, and what random programs it has."""

_ANALYSED: Final = ("alias", "moves", "fusion", "views", "same")
"""The kinds whose answers need no measurement."""

_MOST_TRIES: Final = 200
"""Random programs that have no such question, in a row, before that is called a mistake of ours."""


def alias(
    program: Any = None,
    *,
    subject: Value | str | None = None,
    count: int | None = None,
    difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:
    """Ask which values may share memory with one.

    `program` is a Graph, or a Fusion, whose graph is meant; the question is about `subject`, or about `count` values drawn. Without
    a program, `count` random ones are asked about: difficulty 1 has views, 2 also writes and two inputs that may be one, 3 also
    lists, ifs and loops. The same `seed` asks the same; without one it is drawn, and the quiz says it. Raises ArgumentError for a
    program that has no such question.

    >>> import irscope as irs
    >>> print(irs.quiz.alias(seed=1, count=1))  # doctest: +ELLIPSIS
    alias, seed 1
    ...
    """
    if program is None:
        return _random("alias", subject, count, difficulty, seed)
    return _about("alias", graph_of(program, "a quiz"), subject, count, seed, alias_questions)


def moves(
    program: Any = None,
    *,
    subject: Node | Value | str | None = None,
    count: int | None = None,
    difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:
    """Ask where a write may move. `subject` is its node; the rest is as for `alias`. Difficulty 2 has views of what is written, 3 a
    second write."""
    if program is None:
        return _random("moves", subject, count, difficulty, seed)
    return _about("moves", graph_of(program, "a quiz"), subject, count, seed, move_questions)


def views(
    program: Any = None,
    *,
    subject: Value | str | None = None,
    count: int | None = None,
    difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:
    """Ask whether a `reshape`, `contiguous` or the like copies; the program must say its sizes and strides. The rest is as for
    `alias`. Difficulty 2 asks after two of them, 3 after three in a row."""
    if program is None:
        return _random("views", subject, count, difficulty, seed)
    return _about("views", graph_of(program, "a quiz"), subject, count, seed, view_questions)


def fusion(
    program: Any = None,
    *,
    subject: Value | str | None = None,
    count: int | None = None,
    difficulty: int = 1,
    seed: int | None = None,
) -> Quiz:
    """Ask which values are made by one kernel. `program` is a Fusion, or a Graph, which is then fused; the rest is as for `alias`.
    Difficulty 2 has writes in between, 3 also sums and transposes."""
    if program is None:
        return _random("fusion", subject, count, difficulty, seed)
    made = program if isinstance(program, Fusion) else fuse(graph_of(program, "a quiz"))
    return _about("fusion", made.original, subject, count, seed, partial(_about_fusion, made))


def _about_fusion(made: Fusion, graph: Graph, rng: random.Random, *subject: Any) -> Iterator[Question]:
    return fusion_questions(made, rng, *subject)


def same(found: Any = None, *, count: int | None = None, difficulty: int = 1, seed: int | None = None) -> Quiz:
    """Ask which two fusion groups are the same. `found` is a Dedup, or a Fusion or Graph, whose groups are then compared by
    `irs.dedup`. Random groups differ in one op at difficulty 1, and in a number or an order only from 2."""
    if found is None:
        return _random("same", None, count, difficulty, seed)
    made = found
    if not isinstance(made, Dedup):
        made = dedup(found if isinstance(found, Fusion) else fuse(graph_of(found, "a quiz")))
    return _about("same", graph_of(made.source, "a quiz"), None, count, seed, lambda _, rng: same_questions(made, rng))


def speed(
    program: Any = None, *args: Any, count: int | None = None, difficulty: int = 1, seed: int | None = None
) -> Quiz:
    """Ask whether a program is faster op by op or fused, and by how much; both are measured here and now, which takes a
    second or so. `program` is a Graph or a Fusion, with arguments to run it with; without them, arrays of the sizes that it
    declares. Random programs are short at difficulty 1, and longer, some beside a product of matrices, from 2."""
    if program is None:
        return _random("speed", None, count, difficulty, seed)
    made = program if isinstance(program, Fusion) else fuse(graph_of(program, "a quiz"))
    drawn = _seed(seed)
    return Quiz([speed_question(made, args or example_arguments(made.original, drawn))], title="speed", seed=drawn)


def mixed(*, count: int = 10, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED) -> Quiz:
    """A quiz of several kinds, in turn, about random programs. Raises ArgumentError for a kind that there is not."""
    chosen = list(kinds)
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown or not chosen:
        what = f"there is no kind {unknown[0]!r}" if chosen else "no kinds are given"
        raise ArgumentError(what, hint=f"the kinds are {', '.join(KINDS)}")
    made = _seed(seed)
    rng = random.Random(made)
    return Quiz(
        [_random_question(chosen[k % len(chosen)], rng, difficulty) for k in range(_count(count))],
        title="mixed",
        seed=made,
    )


def sheets(
    people: int, *, count: int = 5, difficulty: int = 1, seed: int | None = None, kinds: Iterable[str] = _ANALYSED
) -> list[Quiz]:
    """A set for a class: one quiz for each of so many people, of the same kinds and difficulty about different programs. The seeds
    follow each other, so that `mixed(seed=...)` makes any of them again."""
    first, chosen = _seed(seed), list(kinds)
    return [mixed(count=count, difficulty=difficulty, seed=first + k, kinds=chosen) for k in range(_count(people))]


def _random(kind: str, subject: Any, count: int | None, difficulty: int, seed: int | None) -> Quiz:
    if subject is not None:
        raise ArgumentError("a subject is given without a program", hint=f"irs.quiz.{kind}(program, subject=...)")
    made = _seed(seed)
    rng = random.Random(made)
    asked = [_random_question(kind, rng, difficulty) for _ in range(_count(5 if count is None else count))]
    return Quiz(asked, title=kind, seed=made)


def _about(kind: str, graph: Graph, subject: Any, count: int | None, seed: int | None, ask: Ask) -> Quiz:
    made = _seed(seed)
    about = [] if subject is None else [_subject(graph, subject, is_node=kind == "moves")]
    found = ask(graph, random.Random(made), *about)
    questions = list(islice(found, 1 if count is None else _count(count)))
    if not questions:
        hint = f"irs.quiz.{kind}(seed=1) asks about random programs"
        raise ArgumentError(f"{graph.name!r} has nothing to ask about {kind}", hint=hint)
    return Quiz(questions, title=kind, seed=made)


def _subject(graph: Graph, subject: Any, *, is_node: bool) -> Value | Node:
    if is_node:
        return subject if isinstance(subject, Node) else graph.node(subject)
    return subject if isinstance(subject, Value) else graph.value(subject)


def _random_question(kind: str, rng: random.Random, difficulty: int) -> Question:
    if difficulty not in (1, 2, 3):
        raise ArgumentError(f"there is no difficulty {difficulty!r}", hint="it is 1, 2 or 3")
    ask, write = KINDS[kind]
    for _ in range(_MOST_TRIES):
        graph = parse(write(rng, difficulty))
        if (found := next(ask(graph, rng), None)) is not None:
            return found
    raise AssertionError(f"no random program has a question about {kind}")


def _seed(seed: int | None) -> int:
    return random.SystemRandom().randrange(100_000) if seed is None else seed


def _count(count: int) -> int:
    if not 1 <= count <= 10_000:
        raise ArgumentError(f"{count!r} questions cannot be asked", hint="ask for 1 to 10,000")
    return count
