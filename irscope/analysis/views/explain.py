"""Explains why a step copies, and the least change of the operand's strides that would make the copy a view."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from irscope.analysis.views.placement import Failure
from irscope.ops.view_steps import Dense, Failed, Layout, Num, Regroup, gap_between, groups_of, memory_order

__all__ = ["StrideDemand", "failure_words", "stride_demands"]


class StrideDemand(NamedTuple):
    """One axis of the operand whose stride would have to be another."""

    axis: int
    stride: Num
    needed: Num

    def __str__(self) -> str:
        return f"stride({self.axis}) = {self.stride}, {self.needed} needed"


def stride_demands(failure: Failure) -> tuple[StrideDemand, ...]:
    """The strides that would make the step a view, the innermost axis first; outer ones assume the inner ones changed.

    >>> failure = Failure(Regroup((12,), True), Layout((3, 4), (5, 1), 0, None), Failed(""))
    >>> print(*stride_demands(failure))
    stride(0) = 5, 4 needed
    """
    layout = failure.before
    if layout.strides is None:
        return ()
    wanted = list(layout.strides)
    if isinstance(failure.step, Regroup):
        pairs = _merged(layout, failure.step)
    elif isinstance(failure.step, Dense):
        pairs = _dense(layout, failure.step, wanted)
    else:
        return ()
    for outer, inner in pairs:
        wanted[outer] = wanted[inner] * layout.shape[inner]
    order = sorted(range(len(wanted)), key=lambda axis: -axis)
    return tuple(StrideDemand(axis, layout.strides[axis], wanted[axis]) for axis in order if wanted[axis] != layout.strides[axis])


def _merged(layout: Layout, step: Regroup) -> list[tuple[int, int]]:
    """The axes that must follow each other, outer and inner, the innermost pair first."""
    groups = groups_of(layout.shape, step.shape)
    return [pair for old, _ in reversed(groups) for pair in reversed(list(pairwise(old)))]


def _dense(layout: Layout, step: Dense, wanted: list[Num]) -> list[tuple[int, int]]:
    order = [axis for axis in memory_order(step.memory_format, len(layout.shape)) if layout.shape[axis] != 1]
    if order:
        wanted[order[-1]] = 1
    return list(pairwise(order))[::-1]


def failure_words(failure: Failure, operand: str, op: str) -> str:
    """Why the step is not a view of the operand, as the end of a sentence."""
    layout, step = failure.before, failure.step
    if isinstance(failure.outcome, Failed):
        return f"{op} fails on {operand}: {failure.outcome.because}"
    if layout.strides is None:
        return f"the layout of {operand} is known only at run time"
    demands = stride_demands(failure)
    needs = "; ".join(map(str, demands))
    if isinstance(step, Regroup):
        pairs = [pair for pair in _merged(layout, step) if gap_between(layout.shape, layout.strides, *pair)]
        axes = _axes(sorted({axis for pair in pairs for axis in pair}))
        still = [axis for axis in {axis for pair in pairs for axis in pair} if layout.strides[axis] == 0]
        repeated = f", and axis {still[0]} repeats what it has" if still else ""
        return f"{op} puts {axes} of {operand} together{repeated}; it needs rows dense: {needs}"
    if isinstance(step, Dense):
        what = "row by row" if step.memory_format == 0 else "channels last"
        return f"{operand} is not laid out {what}: {needs}" if needs else f"torch does not regard {operand} as laid out {what}"
    return f"{op} makes a copy of {operand}"


def _axes(axes: list[int]) -> str:
    if len(axes) == 1:
        return f"axis {axes[0]}"
    return f"axes {', '.join(map(str, axes[:-1]))} and {axes[-1]}"


