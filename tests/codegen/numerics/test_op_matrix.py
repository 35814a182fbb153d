"""Every pointwise op on every element type in every layout and size: torch's class, within the stated bound.

Each type meets one layout in the usual run, and all of them, in all three texts, in the long one. That every single step is
right in every layout, `llvm/test_emit.py` and `cuda/test_emit.py` check; what is near the edges of a type, `test_edges`.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codegen.edges import cases, edges, torch
from tests.codegen.kernels import LAYOUTS, laid_out
from tests.codegen.numerics.test_edges import FLOATS, WHOLES, compare, device_of, words

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]

SHAPES = ((5, 37), (0, 3), (1, 1), (3, 0), (3, 1), (1, 129))
DTYPES = (*FLOATS, *WHOLES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op_on_every_type(dtype: str, tmp_path: Path) -> None:
    shapes = SHAPES[:3] if dtype in ("float32", "int64") else SHAPES[:2]
    assert check("cpu", dtype, (LAYOUTS[1 + DTYPES.index(dtype) % 5],), shapes, tmp_path) > 90


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", ["cpu", "cuda", "numpy"])
def test_every_op_on_every_type_in_every_layout(text: str, dtype: str, tmp_path: Path) -> None:
    assert check(text, dtype, LAYOUTS, SHAPES, tmp_path) > 90


def check(text: str, dtype: str, layouts: Sequence[str], shapes: Sequence[tuple[int, int]], folder: Path) -> int:
    """How many ops were compared."""

    def operands_of(types: Sequence[str]) -> Iterator[tuple[str, list[Array], list[Any]]]:
        for number, (layout, shape) in enumerate(product(layouts, shapes)):
            arrays = [operand(kind, layout, shape, number + place) for place, kind in enumerate(types)]
            yield f"{layout} {shape} ", arrays, [in_order(array, kind) for array, kind in zip(arrays, types, strict=True)]

    first = {case.schema.full_name: case for case in cases(dtype, every_number=False)}
    return compare(text, device_of(text, folder), first.values(), operands_of)


def operand(dtype: str, layout: str, shape: tuple[int, int], seed: int) -> Array:
    """Usual numbers and edges, laid out."""
    rng = np.random.default_rng(seed)
    some = edges(dtype)
    usual = torch.from_numpy(rng.normal(0, 3, shape)).to(some.dtype)
    edge = some[torch.from_numpy(rng.integers(0, some.numel(), shape))]
    values = torch.where(torch.from_numpy(rng.random(shape) < 0.2), edge, usual)
    return laid_out(words(values), layout, shape)


def in_order(array: Array, dtype: str) -> Any:
    """The elements in order, as torch's."""
    copy = torch.from_numpy(np.ascontiguousarray(array).ravel().copy())
    return copy.view(torch.bfloat16) if dtype == "bfloat16" else copy
