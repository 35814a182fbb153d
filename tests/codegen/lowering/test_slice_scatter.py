"""Ranges of a tensor that a group replaces: each part of the result is computed by itself, and the numbers are torch's."""

import random
from typing import Any

import numpy as np
import pytest

from irscope.errors import CodegenError
from irscope.runtime.device.protocol import Device
from tests.codegen.kernels import call, dense, planned
from tests.codegen.numerics.test_reductions import check, normal

torch = pytest.importorskip("torch")


def patched(b: Any, whole: Any, part: Any, dim: int, start: int, stop: int | None) -> Any:
    return call(b, "slice_scatter", whole, part, dim, start, stop, 1)


def test_a_replaced_range_is_one_part_and_the_rest_are_others(device: Device) -> None:
    def body(b: Any, x: Any) -> Any:
        return patched(b, x, call(b, "exp", call(b, "slice", x, 1, 2, 4, 1)), 1, 2, 4)

    plan = check(device, body, lambda x: x.slice_scatter(x[:, 2:4].exp(), 1, 2, 4), normal(5, 10))
    assert sorted((launch.sizes, len(launch.writes)) for launch in plan.launches) == [((5, 2), 2), ((5, 6), 1)]


def test_what_replaces_a_range_reads_ranges_replaced_before(device: Device) -> None:
    def body(b: Any, x: Any) -> Any:
        first = call(b, "select_scatter", x, call(b, "exp", call(b, "select", x, -1, 0)), -1, 0)
        second = call(b, "select_scatter", first, call(b, "neg", call(b, "select", first, -1, 1)), -1, 1)
        both = call(b, "mul", call(b, "slice", second, -1, 2, 4, 1), call(b, "slice", second, -1, 0, 2, 1))
        return patched(b, second, both, -1, 2, None)

    def eager(x: Any) -> Any:
        x = x.clone()
        x[..., 0] = x[..., 0].exp()
        x[..., 1] = -x[..., 1]
        x[..., 2:] = x[..., 2:4] * x[..., 0:2]
        return x

    plan = check(device, body, eager, normal(6, 5, 4))
    assert [len(launch.writes) for launch in plan.launches] == [4]


def test_parts_of_an_axis_that_a_view_has_merged(device: Device) -> None:
    def body(b: Any, x: Any) -> Any:
        made = patched(b, x, call(b, "exp", call(b, "slice", x, 0, 1, 3, 1)), 0, 1, 3)
        return call(b, "neg", call(b, "view", made, [20]))

    check(device, body, lambda x: -x.slice_scatter(x[1:3].exp(), 0, 1, 3).view(20), normal(4, 5))


def test_no_part_where_the_replaced_axis_is_inside_another(device: Device) -> None:
    def body(b: Any, x: Any) -> Any:
        made = patched(b, x, call(b, "exp", call(b, "slice", x, 1, 1, 3, 1)), 1, 1, 3)
        return call(b, "neg", call(b, "view", made, [20]))

    with pytest.raises(CodegenError, match="cannot be separated"):
        planned(body, dense(4, 5))


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_of_replaced_ranges(device: Device, seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
    steps: list[tuple[int, int, int, int, bool]] = []
    for _ in range(rng.randint(1, 5)):
        axis = rng.randrange(len(shape))
        start = rng.randrange(shape[axis] + 1)
        stop = rng.randint(start, shape[axis])
        other = rng.randint(0, shape[axis] - (stop - start))
        steps.append((axis, start, stop, other, rng.random() < 0.5 and stop == start + 1))

    def body(b: Any, x: Any, y: Any) -> Any:
        for axis, start, stop, other, by_select in steps:
            if by_select:
                part = call(b, "mul", call(b, "select", x, axis, other), call(b, "select", y, axis, start))
                x = call(b, "select_scatter", x, part, axis, start)
            else:
                mine, theirs = (call(b, "slice", x, axis, start, stop, 1), call(b, "slice", x, axis, other, other + stop - start, 1))
                y_part = call(b, "slice", y, axis, start, stop, 1)
                part = call(b, "add", call(b, "sub", mine, theirs, 2), y_part, 1)
                x = patched(b, x, part, axis, start, stop)
        return x

    def eager(x: Any, y: Any) -> Any:
        x = x.clone()
        for axis, start, stop, other, by_select in steps:
            if by_select:
                x = x.select_scatter(x.select(axis, other) * y.select(axis, start), axis, start)
            else:
                theirs = x.narrow(axis, other, stop - start)
                x.narrow(axis, start, stop - start).copy_(
                    x.narrow(axis, start, stop - start) - 2 * theirs + y.narrow(axis, start, stop - start)
                )
        return x

    check(device, body, eager, normal(*shape), np.float32(2) * normal(*shape))
