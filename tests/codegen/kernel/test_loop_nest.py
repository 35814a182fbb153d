"""Collapsed loops visit what the full ones visit; instructions stand outside the loops along which they do not
change.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from irscope.codegen.kernel.loops import collapse_loops, loop_nest
from irscope.codegen.kernel.spec import Instruction, KernelSpec, Operand, Result


def addresses(sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Where each tensor is read at each point, in some order of the points."""
    points = product(*map(range, sizes))
    return sorted(tuple(sum(i * s for i, s in zip(point, own, strict=True)) for own in strides) for point in points)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """A shape, and strides of a dense tensor and of views of dense tensors: permuted, sliced, broadcast."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    tensors = []
    for index in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(len(shape))))
        strides, step = [0] * len(shape), 1
        for dim in order:
            strides[dim] = step * (draw(st.sampled_from([1, 1, 1, 2])) if index else 1)
            step = strides[dim] * max(shape[dim], 1)
        if index:
            strides = [0 if draw(st.integers(0, 4)) == 0 else stride for stride in strides]
        tensors.append(tuple(strides))
    return shape, tensors


@given(layouts())
def test_collapsed_loops_visit_the_same_elements_together(
    layout: tuple[tuple[int, ...], list[tuple[int, ...]]],
) -> None:
    shape, strides = layout
    sizes, steps = collapse_loops(shape, strides)
    assert addresses(sizes, steps) == addresses(shape, tuple(strides))
    assert len(sizes) == 1 or 1 not in sizes


@given(layouts())
def test_no_two_neighbouring_loops_could_still_be_one(layout: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    sizes, steps = collapse_loops(*layout)
    for outer in range(len(sizes) - 1):
        assert not all(own[outer] == own[outer + 1] * sizes[outer + 1] for own in steps)


def test_the_innermost_loop_walks_the_result_in_memory_order() -> None:
    sizes, steps = collapse_loops((8, 16), [(1, 8), (16, 1)])
    assert sizes == (16, 8)
    assert steps == ((8, 1), (1, 16))


def test_what_depends_on_the_row_alone_is_computed_once_a_row() -> None:
    inputs = (Operand("float32", "tensor", (2, 1)), Operand("float32", "tensor", (2, 0)), Operand("float64", "scalar"))
    code = (
        Instruction("input", (), "float32", 0),
        Instruction("input", (), "float32", 1),
        Instruction("input", (), "float64", 2),
        Instruction("cast", (2,), "float32"),
        Instruction("add", (1, 3), "float32"),
        Instruction("rsqrt", (4,), "float32"),
        Instruction("mul", (0, 5), "float32"),
    )
    nest = loop_nest(KernelSpec(inputs, code, (Result("float32", (2, 1), 6),), 2))
    assert nest.depths == (2, 1, 0, 0, 1, 1, 2)
    assert nest.stages == ((2, 3), (1, 4, 5), (0, 6))
    assert nest.carried == (5,)


def test_a_whole_dense_tensor_is_one_loop() -> None:
    strides = tuple(step // 4 for step in np.zeros((2, 3, 4, 5), np.float32).strides)
    assert collapse_loops((2, 3, 4, 5), [strides, strides]) == ((120,), ((1,), (1,)))
