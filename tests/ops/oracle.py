"""One call of one overload, three ways: torch eager, our NumPy reference, our type rule; and the rule again on less knowledge."""

import importlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from irscope.errors import ArgumentError
from irscope.ir import ListType, OpSchema, TensorType, argument_type
from irscope.ops.op import Op
from irscope.ops.pointwise import activation, arithmetic, comparison
from irscope.ops.registry import _OP_FILES, lookup  # the table of op files is the registry's own
from irscope.ops.type_rules import DTYPE_CODES, Unknown
from irscope.runtime.arrays.numpy_calls import by_position, decided

POINTWISE: tuple[Op, ...] = (*arithmetic.OPS, *comparison.OPS, *activation.OPS)
"""All pointwise ops: each element of a result depends on one element of each operand, at the same position."""


def files() -> list[Any]:
    """The modules of ops."""
    return [importlib.import_module(f"irscope.ops.{name}") for name in _OP_FILES]


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[Op, OpSchema]]:
    """Every overload of every op file, by its full name."""
    return {schema.full_name: (op, schema) for file in files() for op in file.OPS for schema in op.schemas}


def the_op(name: str) -> Any:
    """The op of this name, whose rule and reference are there."""
    found = lookup(name)
    assert found is not None and found.type_rule is not None and found.reference is not None
    return found


def check(
    full_name: str, *args: Any, strides: bool = True, rtol: float = 1e-5, atol: float = 1e-6, values: bool = True, **kwargs: Any
) -> None:
    """All three agree. Tensors are torch's; each way gets its own copy with the same layout."""
    import torch

    op, schema = table()[full_name]
    name, _, overload = full_name.removeprefix("aten::").partition(".")
    theirs = list(map(copied, args))
    expected = getattr(getattr(torch.ops.aten, name), overload or "default")(*theirs, **kwargs)
    named = bound(schema, list(map(copied, args)), kwargs)
    assert op.type_rule is not None and op.reference is not None
    inferred = op.type_rule(**{key: fact(value) for key, value in named.items()})
    compare_types(inferred, expected, exact=True, strides=strides)
    for less in poorer(named):
        try:
            answer = op.type_rule(**less)
        except ArgumentError as error:
            raise AssertionError(f"a call that torch runs is refused: {error}") from error
        compare_types(answer, expected, exact=False, strides=strides)
    fresh = [[as_array(copied(value)) for value in named.values()] for _ in range(3)]
    ours = {key: as_array(value) for key, value in named.items()}
    found = op.reference(**ours)
    if values:
        compare_values(found, expected, rtol, atol)
        if schema.is_mutable:
            for mine, yours in zip(ours.values(), theirs, strict=False):
                compare_values(mine, yours, rtol, atol)
    check_aliasing(found, ours, expected, theirs)
    call = decided(op, list(named), {}, by_position(op.reference, list(named), {}, makes_array=isinstance(expected, torch.Tensor)))
    for given in fresh:  # the first call decides, the others do as decided
        again = call(*given)
        check_aliasing(again, dict(zip(named, given, strict=True)), expected, theirs)
        if values:
            same_arrays(again, found)
            same_arrays(given, list(ours.values()))


def same_arrays(these: Any, those: Any) -> None:
    """Both have the same bits, element types, and strides."""
    if isinstance(these, list | tuple):
        for one, other in zip(these, those, strict=True):
            same_arrays(one, other)
    elif isinstance(these, np.ndarray):
        other = np.asarray(those)
        assert (these.dtype, these.shape, these.strides) == (other.dtype, other.shape, other.strides)
        np.testing.assert_array_equal(these, other)


def copied(value: Any) -> Any:
    import torch

    if isinstance(value, list | tuple):
        return type(value)(map(copied, value))
    if not isinstance(value, torch.Tensor):
        return value
    span = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True)) + 1 if value.numel() else 0
    storage = torch.as_strided(value, (span,), (1,), value.storage_offset()).clone()
    return torch.as_strided(storage, value.shape, value.stride())


def bound(schema: OpSchema, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, defaults filled in, as an interpreter passes them."""
    named = {argument.name: argument.default for argument in schema.arguments}
    named.update(zip((argument.name for argument in schema.arguments), args, strict=False))
    named.update(kwargs)
    return {key: code(value) for key, value in named.items()}


def code(value: Any) -> Any:
    """torch's dtype and memory format objects as TorchScript's numbers."""
    import torch

    if isinstance(value, torch.dtype):
        return {name: number for number, name in DTYPE_CODES.items()}[str(value).removeprefix("torch.")]
    formats = [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d]
    return formats.index(value) if isinstance(value, torch.memory_format) else value


def fact(value: Any) -> Any:
    """What a type rule is given for an argument that is known in full."""
    if isinstance(value, list | tuple):
        return [fact(item) for item in value]
    return argument_type(value) if hasattr(value, "detach") else value


def as_array(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [as_array(item) for item in value]
    return value.numpy() if hasattr(value, "detach") else value


def poorer(named: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same call with less known: no strides, no extents, no ranks, no numbers."""

    def without(forget: Any) -> dict[str, Any]:
        return {key: degraded(fact(value), forget) for key, value in named.items()}

    yield without(lambda type: type.with_(strides=None))
    yield without(lambda type: type.with_(strides=None, shape=(None,) * len(type.shape)))
    yield without(lambda type: type.with_(strides=None, shape=(None, *type.shape[1:]) if type.shape else ()))
    yield without(lambda type: TensorType())
    for key, value in named.items():
        if isinstance(value, bool | int | float) or (isinstance(value, list) and value and isinstance(value[0], int)):
            yield {other: fact(item) if other != key else unknown(item) for other, item in named.items()}


def degraded(value: Any, forget: Any) -> Any:
    if isinstance(value, list):
        return [degraded(item, forget) for item in value]
    return forget(value) if isinstance(value, TensorType) else value


def unknown(value: Any) -> Any:
    type = argument_type(value)
    if isinstance(value, list):
        return [Unknown(type.element) for _ in value] if isinstance(type, ListType) else Unknown(type)
    return Unknown(type)


def compare_types(answer: Any, expected: Any, *, exact: bool, strides: bool) -> None:
    """What is said is true; with `exact`, everything is said."""
    import torch

    if isinstance(answer, Unknown):
        assert not exact, f"nothing is known of {expected}"
        return
    if isinstance(expected, list | tuple):
        assert len(answer) == len(expected)
        for one, other in zip(answer, expected, strict=True):
            compare_types(one, other, exact=exact, strides=strides)
        return
    if not isinstance(expected, torch.Tensor):
        assert answer == expected
        return
    truth = argument_type(expected)
    assert isinstance(truth, TensorType)
    if answer.dtype is not None or exact:
        assert answer.dtype == truth.dtype
    if answer.shape is not None or exact:
        assert truth.shape is not None and len(answer.shape) == len(truth.shape), (answer, truth)
        assert all(dim == size or (dim is None and not exact) for dim, size in zip(answer.shape, truth.shape, strict=True)), (answer, truth)
    if answer.strides is not None or (exact and strides):
        assert answer.strides == truth.strides, (str(answer), str(truth))


def compare_values(found: Any, expected: Any, rtol: float, atol: float) -> None:
    import torch

    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare_values(one, other, rtol, atol)
    elif isinstance(expected, torch.Tensor):
        assert isinstance(found, np.ndarray | np.generic), type(found)
        assert found.shape == tuple(expected.shape) and found.dtype == expected.numpy().dtype
        np.testing.assert_allclose(found, expected.numpy(), rtol=rtol, atol=atol, equal_nan=True)
    elif isinstance(expected, float):
        assert found == expected or abs(found - expected) <= atol + rtol * abs(expected)
    else:
        assert found == expected


def check_aliasing(found: Any, ours: dict[str, Any], expected: Any, theirs: list[Any]) -> None:
    """A result shares memory with the first tensor argument in NumPy just when it does in torch."""
    import torch

    mine = next((value for value in ours.values() if isinstance(value, np.ndarray)), None)
    yours = next((value for value in theirs if isinstance(value, torch.Tensor)), None)
    if mine is None or yours is None:
        return
    pairs = zip(found, expected, strict=True) if isinstance(expected, list | tuple) else [(found, expected)]
    for one, other in pairs:
        if isinstance(other, torch.Tensor) and other.numel() and isinstance(one, np.ndarray):
            shares = other.untyped_storage().data_ptr() == yours.untyped_storage().data_ptr()
            assert np.may_share_memory(one, mine) == shares, "aliasing differs from torch"
