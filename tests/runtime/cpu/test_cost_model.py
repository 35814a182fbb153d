"""What is decided from how long a kernel should take."""

from __future__ import annotations

import pytest

from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.types import TENSOR, TensorType
from irscope.runtime.cpu.cost_model import stores_should_stream
from tests.codegen.groups import call, group


@pytest.mark.parametrize(
    ("shape", "streams"),
    [
        ((9765, 1024), True), ((100, 100_000), True), ((5000, 1024), False),  # the last fits the caches
        ((1_000_000, 10), False), ((312_500, 32), False), ((100_000, 100), False), ((20_000, 500), False),
    ],
)  # fmt: skip
def test_stores_pass_the_caches_only_in_long_rows(shape: tuple[int, int], streams: bool) -> None:
    made = group(lambda b, x, bias: call(b, "add", x, bias, 1), [TENSOR] * 2)
    plan = spec_of_group(made, [TensorType("float32", shape), TensorType("float32", shape[1:])])
    assert stores_should_stream(plan.launches[0], 64) == streams
