"""Promotion gives what torch's own `result_type` gives, for every pair of element types and strengths."""

from itertools import product
from typing import Any

import pytest

from irscope.ir.types import FLOAT, NUMBER, TensorType
from irscope.ops.type_rules import Operand, Unknown, operand_of, promote_types, result_dtype

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
RARE = ["uint16", "uint32", "uint64", "complex32"]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def _theirs(call: Any) -> str | None:
    try:
        return str(call()).removeprefix("torch.")
    except RuntimeError:
        return None


def test_promote_types_is_torchs(torch: Any) -> None:
    for a, b in product(DTYPES + RARE, repeat=2):
        assert promote_types(a, b) == _theirs(lambda a=a, b=b: torch.promote_types(getattr(torch, a), getattr(torch, b))), (a, b)


@pytest.mark.parametrize("ranks", [(1, 1), (0, 1), (1, 0), (0, 0)])
def test_tensors_promote_as_in_torch(torch: Any, ranks: tuple[int, int]) -> None:
    for a, b in product(DTYPES, repeat=2):
        tensors = [torch.ones((2,) * rank, dtype=getattr(torch, dtype)) for dtype, rank in zip((a, b), ranks, strict=True)]
        types = [TensorType(dtype, (2,) * rank) for dtype, rank in zip((a, b), ranks, strict=True)]
        assert result_dtype(map(operand_of, types)) == _theirs(lambda t=tensors: torch.result_type(*t)), (a, b)


@pytest.mark.parametrize("number", [True, 3, 2.5, 1j])
@pytest.mark.parametrize("rank", [0, 1])
def test_numbers_promote_as_in_torch(torch: Any, number: Any, rank: int) -> None:
    for dtype in DTYPES:
        tensor = torch.ones((2,) * rank, dtype=getattr(torch, dtype))
        assert result_dtype([operand_of(TensorType(dtype, (2,) * rank)), operand_of(number)]) == _theirs(
            lambda t=tensor: torch.result_type(t, number)
        ), dtype


def test_an_unknown_rank_matters_only_when_types_differ() -> None:
    assert result_dtype([Operand("float32", None), Operand("float32", 2)]) == "float32"
    assert result_dtype([Operand("float64", None), Operand("float32", 2)]) is None


def test_an_unknown_number_cannot_change_a_float_tensor_but_an_integer_one() -> None:
    unknown = operand_of(Unknown(NUMBER))
    assert result_dtype([operand_of(TensorType("float16", (3,))), unknown]) == "float16"
    assert result_dtype([operand_of(TensorType("int64", (3,))), unknown]) is None
    assert result_dtype([operand_of(TensorType("int64", (3,))), operand_of(Unknown(FLOAT))]) == "float32"
