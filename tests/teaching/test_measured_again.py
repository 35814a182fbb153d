"""Questions of speed, measured a second time by another clock; and what both ways compute is what torch does.

Two measurements of one machine are two samples: they agree where the second, from its lower to its upper quartile and by its best
turns, meets a bracket that is called right.
"""

import random
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.teaching.kinds import BRACKETS, example_arguments
from irscope.teaching.programs import for_speed
from irscope.transforms.fusion import Fusion
from tests.teaching.test_executed import MANY, runs, tupled

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PAIRS = 25
LEAST_SECONDS = 1e-3
"""Of one sample, so that a clock's own price does not count."""
MOST_DISAGREE = 0.05
"""Of all questions, on a machine on which others compute as well."""


def programs(count: int) -> Iterator[tuple[Fusion, list[Any], dict[str, int]]]:
    """What `irs.quiz.speed` asks about with this difficulty and seed."""
    for difficulty, seed in product((1, 2, 3), range(count)):
        fusion = irs.fuse(irs.parse(for_speed(random.Random(seed), difficulty)))
        yield fusion, example_arguments(fusion.original, 0), {"difficulty": difficulty, "seed": seed}


def speedups(alone: Callable[..., Any], fused: Callable[..., Any], arguments: list[Any]) -> list[float]:
    """How many times as fast the second is: both in turn, the quartiles of each pair's ratio, and the ratio of the best; in order."""

    def seconds(function: Callable[..., Any], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            function(*arguments)
        return time.perf_counter() - start

    once = max(min(seconds(fused, 1), seconds(fused, 1)), 1e-7)
    calls = max(1, round(LEAST_SECONDS / once))
    pairs = [(seconds(alone, calls), seconds(fused, calls)) for _ in range(PAIRS)]
    best = min(one for one, _ in pairs) / min(other for _, other in pairs)
    return sorted([*np.quantile([one / other for one, other in pairs], [0.25, 0.75]), best])


def test_both_ways_compute_what_torch_does() -> None:
    for fusion, arguments, _ in programs(2):
        text = "\n".join(tupled(str(fusion.original).rstrip("\n").split("\n")))
        wanted = runs(text, *map(torch.from_numpy, arguments))
        for program in (fusion.original, fusion):
            found = irs.compile(program)(*arguments)
            for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_the_right_bracket_is_measured_again_in_two_hundred_questions() -> None:
    asked, apart = 0, []
    for fusion, arguments, chosen in programs(MANY):
        (question,) = irs.quiz.speed(count=1, **chosen).questions
        assert irs.same_structure(question.graph, fusion.graph)
        low, middle, high = speedups(irs.compile(fusion.original), irs.compile(fusion), arguments)
        right = [BRACKETS["abcde".index(name)] for name in question.answer]
        asked += 1
        if not any(since <= high and low < to for since, to in right):
            apart.append(f"{middle:.2f} ({low:.2f} to {high:.2f}) for {question.answer}: {question.options[0].verdict.because}")
    print(f"{asked} questions, {len(apart)} of them measured otherwise", *apart, sep="\n")
    assert asked >= 200
    assert len(apart) <= MOST_DISAGREE * asked
