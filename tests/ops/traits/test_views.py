"""What the tables say of views and values is what torch does: every name is tried on tensors of many layouts."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

from irscope.ops.op import effect_of_schema
from irscope.ops.registry import overloads

from irscope.ops.traits import (  # isort: skip
    ALWAYS_SHARES, ANOTHER_OBJECT, COMMUTES, CREATES, CREATES_LIKE, CUTS, DENSE_RESULT, INVERSES, KEEPS_ORDER, LIKE_ANOTHER, LOGICAL,
    MAYBE_ANOTHER_OBJECT, OVERLAPPING_RESULT, PATCHES, PUTS_BACK, READS_SHAPE, RESHAPES, ROW_MAJOR_FROM_ROWS, ROW_MAJOR_RESULT, SAME_PLACE,
    SEEN_THROUGH, STARTS_LIKE_FIRST, VIEWS,
)  # fmt: skip
from tests.ops.oracle import the_op

torch = pytest.importorskip("torch")

from tests.random_programs.view_chains import call_torch, random_call  # noqa: E402

SPREAD = {"aten::broadcast_to", "aten::expand", "aten::expand_as"}


def test_the_exceptions_and_unions_are_of_views() -> None:
    for names in (LIKE_ANOTHER, ALWAYS_SHARES, ANOTHER_OBJECT, KEEPS_ORDER, SEEN_THROUGH, LOGICAL):
        assert names <= VIEWS
    assert {name for name in READS_SHAPE if name.startswith("aten::")} == ALWAYS_SHARES
    assert ANOTHER_OBJECT <= MAYBE_ANOTHER_OBJECT and ANOTHER_OBJECT <= ALWAYS_SHARES
    assert SEEN_THROUGH <= LOGICAL and SAME_PLACE | RESHAPES <= KEEPS_ORDER
    assert set(INVERSES) | set(INVERSES.values()) <= ALWAYS_SHARES and not PATCHES & VIEWS
    assert set(INVERSES) | set(PUTS_BACK) <= ANOTHER_OBJECT & LOGICAL


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_view_is_a_view_by_its_schema(name: str) -> None:
    found = [schema for schema in overloads(name) if str(schema.arguments[0].type) == "Tensor"]
    assert found and all(effect_of_schema(schema) == "view" for schema in found)
    if name in SEEN_THROUGH:
        the_op(name)


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_what_torch_does(name: str) -> None:
    tried = 0
    may_copy, same, other = False, False, False
    for x, _, found in calls(name):
        for result in found if isinstance(found, list | tuple) else (found,):
            tried += 1
            may_copy |= memory(result) != memory(x)
            same |= result is x
            other |= result is not x
            if name in KEEPS_ORDER - SPREAD:
                assert torch.equal(result.reshape(-1), x.reshape(-1))
    assert tried > 1
    assert may_copy == (name in VIEWS - ALWAYS_SHARES)
    assert same == (name not in ANOTHER_OBJECT | CUTS) or name in ("aten::ravel", "aten::reshape", "aten::reshape_as")
    assert other == (name in MAYBE_ANOTHER_OBJECT)


@pytest.mark.parametrize("name", sorted(LOGICAL - CUTS))
def test_a_logical_view_of_a_copy_shows_the_same(name: str) -> None:
    tried = 0
    for x, view, result in calls(name):
        copied = view(x.clone(memory_format=torch.contiguous_format))
        assert torch.equal(copied, result)
        tried += x.stride() != copied.stride()
    assert tried


def memory(tensor: Any) -> int:
    found: int = tensor.untyped_storage().data_ptr()
    return found


def tensors() -> list[Any]:
    x = torch.randn(2, 3, 4)
    return [
        x, torch.randn(1, 1, 1), torch.randn(4, 4), torch.randn(3), torch.randn(()), x.transpose(0, 2), x[:, ::2, 1:3],
        torch.randn(2, 3, 2, dtype=torch.complex64), torch.randn(4, 4, dtype=torch.complex64), torch.randn(1, 3).expand(4, 3),
        torch.randn(2, 3, requires_grad=True), torch.randn(3, 2), torch.randn(5, 3, 2)[::2],
    ]  # fmt: skip


def calls(name: str) -> Iterator[tuple[Any, Callable[[Any], Any], Any]]:
    """Tensors, what the op does to one with some arguments, and what it gives of this one, wherever torch takes them."""
    rng, op = random.Random(name), name.partition("::")[2]
    for x in [x for x in tensors() for _ in range(12)]:
        overload, given = random_call(op, x, rng) or ("", None)
        try:
            if given is not None:
                yield x, partial(call_torch, op, overload, given=given), call_torch(op, overload, x, given)
        except (RuntimeError, IndexError):
            continue


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
    op = the_op(name)
    assert all(effect_of_schema(schema) == "pure" for schema in overloads(name) if not schema.overload.endswith("out"))
    takes = {"Tensor" in str(schema.arguments[0].type) for schema in op.schemas}
    assert takes == {name in CREATES_LIKE | DENSE_RESULT}


def test_strides_are_operands_where_a_result_may_overlap() -> None:
    for name in OVERLAPPING_RESULT:
        assert all(any("stride" in a.name for a in schema.arguments) for schema in overloads(name))
    assert not (DENSE_RESULT | CREATES | CREATES_LIKE) & (OVERLAPPING_RESULT | VIEWS)
    assert not (ROW_MAJOR_RESULT | ROW_MAJOR_FROM_ROWS) & (OVERLAPPING_RESULT | VIEWS)
    assert {"aten::as_strided_scatter"} == OVERLAPPING_RESULT & STARTS_LIKE_FIRST, "which no family of writes begins with"
