"""What the tables say of views and values is what torch does: every name is tried on tensors of many layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from irscope.ops.op import effect_of_schema
from irscope.ops.registry import overloads
from irscope.ops.traits import (
    ALWAYS_SHARES,
    ANOTHER_OBJECT,
    COMMUTES,
    CREATES,
    CREATES_LIKE,
    CUTS,
    DENSE_RESULT,
    INVERSES,
    KEEPS_ORDER,
    LIKE_ANOTHER,
    LOGICAL,
    MAYBE_ANOTHER_OBJECT,
    OVERLAPPING_RESULT,
    PATCHES,
    PUTS_BACK,
    READS_SHAPE,
    RESHAPES,
    ROW_MAJOR_FROM_ROWS,
    ROW_MAJOR_RESULT,
    SAME_PLACE,
    SEEN_THROUGH,
    STARTS_LIKE_FIRST,
    VIEWS,
)
from tests.ops.oracle import the_op

torch = pytest.importorskip("torch")


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
    assert may_copy == (name in VIEWS - ALWAYS_SHARES) or name == "aten::reshape_as"  # of its own shape: never a copy
    assert same == (name not in ANOTHER_OBJECT | CUTS) or name in ("aten::ravel", "aten::reshape", "aten::reshape_as")
    assert other == (name in MAYBE_ANOTHER_OBJECT)


@pytest.mark.parametrize("name", sorted(LOGICAL - CUTS))
def test_a_logical_view_of_a_copy_shows_the_same(name: str) -> None:
    tried = 0
    for x, arguments, result in calls(name):
        copied = call(name, x.clone(memory_format=torch.contiguous_format), *arguments)
        assert torch.equal(copied, result)
        tried += x.stride() != copied.stride()
    assert tried


def call(name: str, *arguments: Any) -> Any:
    return getattr(torch.ops.aten, name.partition("::")[2])(*arguments)


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


def calls(name: str) -> Iterator[tuple[Any, tuple[Any, ...], Any]]:
    """Tensors, other arguments, and what the op gives, wherever torch takes them."""
    torch.manual_seed(0)
    for x in tensors():
        try:
            for arguments in ARGUMENTS.get(name.partition("::")[2], _alone)(x):
                yield x, arguments, call(name, x, *arguments)
        except (RuntimeError, IndexError):
            continue


def _alone(x: Any) -> list[tuple[Any, ...]]:
    return [()]


def _size(x: Any) -> list[int]:
    return list(x.shape)


ARGUMENTS: Mapping[str, Callable[[Any], list[tuple[Any, ...]]]] = {
    "_reshape_alias": lambda x: [(_size(x), list(x.stride()))],
    "_unsafe_view": lambda x: [(_size(x),)],
    "as_strided": lambda x: [(_size(x), list(x.stride()))],
    "broadcast_to": lambda x: [(_size(x),), ([2, *_size(x)],)],
    "chunk": lambda x: [(1, 0), (2, 0)],
    "diagonal": lambda x: [(0, 0, 1), (1, -2, -1)],
    "dsplit": lambda x: [(1,)],
    "expand": lambda x: [(_size(x),), ([2, *_size(x)],)],
    "expand_as": lambda x: [(x,), (x.unsqueeze(0),)],
    "flatten": lambda x: [(0, -1)],
    "hsplit": lambda x: [(1,)],
    "moveaxis": lambda x: [(0, 0), (0, -1)],
    "movedim": lambda x: [(0, 0), (0, -1)],
    "narrow": lambda x: [(0, 0, x.shape[0]), (0, 0, 1)],
    "permute": lambda x: [(list(range(x.dim())),), (list(range(x.dim()))[::-1],)],
    "reshape": lambda x: [(_size(x),), ([-1],)],
    "reshape_as": lambda x: [(x,)],
    "select": lambda x: [(0, 0), (-1, -1)],
    "slice": lambda x: [(0, 0, 100, 1), (0, 1, 1000, 2)],
    "split": lambda x: [(1, 0), (100, 0)],
    "split_with_sizes": lambda x: [([x.shape[0]], 0)],
    "squeeze": lambda x: [(), (0,)],
    "swapaxes": lambda x: [(0, 0), (0, -1)],
    "swapdims": lambda x: [(0, 0), (0, -1)],
    "tensor_split": lambda x: [(1, 0), (2, 0)],
    "transpose": lambda x: [(0, 0), (0, -1)],
    "unbind": lambda x: [(0,)],
    "unflatten": lambda x: [(0, [-1, 1])],
    "unfold": lambda x: [(0, 1, 1)],
    "unsafe_chunk": lambda x: [(1, 0), (2, 0)],
    "unsafe_split": lambda x: [(1, 0), (100, 0)],
    "unsafe_split_with_sizes": lambda x: [([x.shape[0]], 0)],
    "unsqueeze": lambda x: [(0,), (-1,)],
    "view": lambda x: [(_size(x),), ([-1],)],
    "view_as": lambda x: [(x,)],
    "vsplit": lambda x: [(1,)],
}


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
