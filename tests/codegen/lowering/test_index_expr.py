"""Forms against NumPy: the digits of every position, by enumeration, and views of views by what they show."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from irscope.codegen.lowering.index_propagation import AffineIndex, AxisMustSplit, Space, delinearize, linearize
from irscope.errors import CodegenError


def at(form: AffineIndex, point: tuple[int, ...]) -> int:
    return form.offset + sum(step * point[axis] for axis, step in form.terms)


def random_position(rng: np.random.Generator, space: Space, elements: int) -> AffineIndex | None:
    """A position that stays inside: an offset and a step along each axis."""
    terms, reach = [], 0
    for axis, size in enumerate(space.extents):
        step = int(rng.choice([0, 1, 2, 3, 4, 6, 12]))
        if size > 1 and step and reach + step * (size - 1) < elements:
            terms.append((axis, step))
            reach += step * (size - 1)
    return AffineIndex(int(rng.integers(0, elements - reach)), tuple(terms))


def test_digits_are_the_indices_of_each_position() -> None:
    rng = np.random.default_rng(0)
    found = {"described": 0, "split": 0, "refused": 0}
    for _ in range(3000):
        shape = tuple(int(size) for size in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 4))))
        space = Space([int(size) for size in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 4)))], [])
        position = random_position(rng, space, int(np.prod(shape)))
        assert position is not None
        try:
            indices = delinearize(position, shape, space.extents)
        except AxisMustSplit as cut:
            assert space.extents[cut.axis] % cut.inner == 0
            assert 1 < cut.inner < space.extents[cut.axis]
            found["split"] += 1
            continue
        except CodegenError:
            found["refused"] += 1
            continue
        found["described"] += 1
        for point in product(*map(range, space.extents)):
            want = np.unravel_index(at(position, point), shape)
            assert tuple(at(index, point) for index in indices) == tuple(map(int, want))
    assert min(found.values()) > 50, found


def test_cutting_an_axis_keeps_every_element_in_its_place() -> None:
    space = Space([12, 5], [7])
    before = [space.kept_form(0), space.kept_form(1), space.reduced_form()]
    space.split(0, 4)
    space.split(1, 2)
    after = [space.kept_form(0), space.kept_form(1), space.reduced_form()]
    assert space.extents == [3, 2, 2, 5, 7]
    for point in product(*map(range, space.extents)):
        a, b, c, row, gathered = point
        assert [at(form, point) for form in after] == [a * 4 + b * 2 + c, row, gathered]
    assert [form.offset for form in before] == [0, 0, 0]


def test_a_flattened_image_is_walked_by_rows_and_columns() -> None:
    space = Space([20], [])
    with pytest.raises(AxisMustSplit) as cut:
        delinearize(space.kept_form(0), (4, 5), space.extents)
    space.split(cut.value.axis, cut.value.inner)
    assert delinearize(space.kept_form(0), (4, 5), space.extents) == (AffineIndex(0, ((0, 1),)), AffineIndex(0, ((1, 1),)))


def test_positions_add_up() -> None:
    forms = [AffineIndex(2, ((0, 1),)), AffineIndex(0, ((0, 3), (1, 1)))]
    assert linearize(forms, [10, 2], 5) == AffineIndex(25, ((0, 16), (1, 2)))
