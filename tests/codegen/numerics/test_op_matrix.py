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

from irscope.ops.expr.expression import cast, input_element
from tests.codegen.edges import cases, edges, torch
from tests.codegen.kernels import LAYOUTS, from_words, laid_out, plan_of, run
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


# --- Every conversion between element types gives torch's bits, in each of the three texts.

TIES = [65519.0, 65519.99999999, 65520.0, 257.0, 1 + 2**-9 + 2**-40, 1 + 2**-24 + 2**-50, 2.0**24 + 1, 2.0**53 + 1, 2.0**31 + 129]
"""Where a half or a float32 rounds to an even neighbour, overflows, or is rounded twice on the way."""


def numbers(dtype: str) -> Any:
    """Edges, ties, halves between whole numbers, and numbers of many sizes; whole numbers of every size."""
    rng, kind, some = np.random.default_rng(0), getattr(torch, dtype), edges(dtype)
    if dtype == "bool":
        return some
    if kind.is_floating_point:
        usual = [rng.normal(0, 1e3, 300), np.arange(600) + 0.5, 2.0 ** rng.uniform(-30, 30, 300), np.array(TIES)]
        return torch.cat([some, torch.from_numpy(np.concatenate(usual)).to(kind)])
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
    ties = torch.tensor([int(tie) for tie in TIES if tie <= high]).to(kind)
    return torch.cat([some, ties, torch.from_numpy(rng.integers(low, high, 500, dtype=np.int64)).to(kind)])


@pytest.mark.parametrize("text", ["cpu", "numpy", "cuda"])
def test_every_conversion(text: str, tmp_path: Path) -> None:
    device, wrong = device_of(text, tmp_path), []
    for source in DTYPES:
        x = numbers(source)
        operand = words(x).reshape(1, -1)
        exprs = [cast(input_element(0, source), target) for target in DTYPES if target != source]
        plan = plan_of(exprs, [operand], [source], operand.shape)
        for expr, found in zip(exprs, run(device.prepare(plan), plan, [operand]), strict=True):
            wanted = words(x.to(getattr(torch, expr.dtype)))
            differ = (found.ravel() != wanted) & defined(x, expr.dtype)
            if expr.dtype in FLOATS:
                differ &= ~(np.isnan(from_words(found.ravel(), expr.dtype)) & np.isnan(from_words(wanted, expr.dtype)))
            wrong += [f"{source} {x[i].item()!r} to {expr.dtype}: {found.ravel()[i]!r}" for i in np.flatnonzero(differ)[:1]]
    assert not wrong, "\n".join(wrong)


def defined(x: Any, target: str) -> Any:
    """Where C says what the conversion gives: a float that fits into the whole numbers, any other number."""
    if not x.is_floating_point() or target in FLOATS or target == "bool":
        return np.ones(x.numel(), bool)
    facts, wide = torch.iinfo(getattr(torch, target)), np.trunc(x.double().numpy())
    return (wide >= float(facts.min)) & (wide <= float(facts.max)) & (wide < 2.0**63)
