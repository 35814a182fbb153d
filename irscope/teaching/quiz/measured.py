"""The question with a measured answer: which is faster, op by op or fused, and by how much?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from irscope._base.verdict import Verdict
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType
from irscope.ops.view_steps import byte_words
from irscope.report.words import duration
from irscope.teaching.quiz.question import Option, Question
from irscope.transforms.fusion import Fusion

if TYPE_CHECKING:
    from irscope.runtime.measure import Comparison

__all__ = ["BRACKETS", "example_arguments", "speed_question"]

BRACKETS = ((0.0, 0.8), (0.8, 1.25), (1.25, 2.0), (2.0, 4.0), (4.0, float("inf")))
"""Ranges of the speedup of the fused program; the second means that neither is faster."""

_AGAIN: Final = 1.1
"""The factor by which a ratio may change when it is measured again: the quartiles of one run do not bound the next."""

_WORDS = (
    "op by op is faster", "about the same, less than a quarter apart", "fused is 1.25 to 2 times as fast",
    "fused is 2 to 4 times as fast", "fused is more than 4 times as fast",
)  # fmt: skip


def speed_question(fusion: Fusion, arguments: Sequence[Any], repeats: int = 7) -> Question:
    """Measures both ways on the processor, alternating. The bracket of the best runs is right, and so is an adjacent
    bracket that the quartiles reach, or come within a tenth of.

    Raises ArgumentError for arguments that the program does not take.
    """
    from irscope.runtime.measure import compare

    measured = compare(fusion, *arguments, devices=["cpu"], repeats=repeats)
    low, ratio, high = speedup(measured)
    moved = [fusion.traffic(group) for group in fusion.groups]
    before, after = sum(each[0] for each in moved), sum(each[1] for each in moved)
    fewer = (
        f", and the fused ops move {byte_words(after)} in place of {byte_words(before)}"
        if moved
        else ", and nothing was fused"
    )
    because = f"fused is {ratio:.2f} times as fast here ({_times(measured)}){fewer}"
    nearest = next(k for k, (_, to) in enumerate(BRACKETS) if ratio < to)
    options = tuple(
        Option("abcde"[k], words, Verdict(abs(k - nearest) <= 1 and low < to * _AGAIN and high * _AGAIN >= since, because, fusion.groups))
        for k, ((since, to), words) in enumerate(zip(BRACKETS, _WORDS, strict=True))
    )
    note = f"The fused way has {plural(len(fusion.groups), 'fusion group')}. Measured on this machine: {measured.caption}"
    return Question(
        "speed", fusion.graph, "Which is faster, op by op or fused, and by how much?", options, several=False, note=note
    )


def _rows(measured: Comparison) -> tuple[Any, Any]:
    rows = {row.label: row for row in measured.rows}
    alone = next(row for label, row in rows.items() if "op by op" in label)
    fused = next(row for label, row in rows.items() if "fused" in label)
    return alone, fused


def speedup(measured: Comparison) -> tuple[float, float, float]:
    """Returns the speedup of fused over op by op: the least, that of each way's best run, and the most. Other programs
    disturb the best run least; the least and the most are what the quartiles reach."""
    alone, fused = _rows(measured)
    ratio = alone.best / fused.best
    return min(ratio, alone.low / fused.high), ratio, max(ratio, alone.high / fused.low)


def _times(measured: Comparison) -> str:
    alone, fused = _rows(measured)
    return f"at best {duration(alone.best)} op by op, {duration(fused.best)} fused"


def example_arguments(graph: Graph, seed: int) -> list[Any]:
    """Returns random arrays of the shapes that a program declares. Raises ArgumentError where it declares no sizes."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    found = []
    for value in graph.free_inputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if shape is None or not all(isinstance(extent, int) for extent in shape):
            what = f"%{graph.names[value]} is {value.type}, which does not say its sizes"
            raise ArgumentError(what, hint="give arguments to measure with: irs.quiz.speed(program, x)")
        found.append(numbers.uniform(-1, 1, shape).astype(np.float32))  # type: ignore[arg-type]
    return found
