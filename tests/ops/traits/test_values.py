"""What is said of values: operands that may change places, results without gaps, tensors that numbers determine."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from irscope.ops.registry import lookup, overloads
from irscope.ops.schema import effect_of_schema
from irscope.ops.traits import (
    COMMUTES,
    CREATES,
    CREATES_LIKE,
    DENSE_RESULT,
    OVERLAPPING_RESULT,
    ROW_MAJOR_FROM_ROWS,
    ROW_MAJOR_RESULT,
    STARTS_LIKE_FIRST,
    VIEWS,
)

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", sorted(name for name in COMMUTES if name.startswith("aten::")))
def test_operands_may_change_places(name: str) -> None:
    function = getattr(torch.ops.aten, name.partition("::")[2])
    special = torch.tensor([0.0, -0.0, 1.0, -1.5, 1e30, 3e-40, float("inf"), -float("inf")])
    whole = torch.tensor([0, 1, 2, 5, 127])
    kinds: list[Any] = [whole, whole.to(torch.uint8), whole.bool()]
    for one, other in product([*kinds, special, special.half(), special.double()] if "bitwise" not in name else kinds, repeat=2):
        a, b = one[:, None], other[None, :]
        left, right = function(a, b), function(b, a)
        assert left.dtype == right.dtype
        is_number = left == left
        assert left[is_number].numpy().tobytes() == right[is_number].numpy().tobytes()


@pytest.mark.parametrize("name", sorted(CREATES | CREATES_LIKE | DENSE_RESULT))
def test_what_is_made_is_memory_of_its_own(name: str) -> None:
    op = lookup(name)
    assert op is not None and op.reference is not None
    assert all(effect_of_schema(schema) == "pure" for schema in overloads(name) if not schema.overload.endswith("out"))
    takes = {"Tensor" in str(schema.arguments[0].type) for schema in op.schemas}
    assert takes == {name in CREATES_LIKE | DENSE_RESULT}


def test_strides_are_operands_where_a_result_may_overlap() -> None:
    for name in OVERLAPPING_RESULT:
        assert all(any("stride" in a.name for a in schema.arguments) for schema in overloads(name))
    assert not (DENSE_RESULT | CREATES | CREATES_LIKE) & (OVERLAPPING_RESULT | VIEWS)
    assert not (ROW_MAJOR_RESULT | ROW_MAJOR_FROM_ROWS) & (OVERLAPPING_RESULT | VIEWS)
    assert {"aten::as_strided_scatter"} == OVERLAPPING_RESULT & STARTS_LIKE_FIRST, "which no family of writes begins with"
