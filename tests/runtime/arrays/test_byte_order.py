"""NumPy's arrays of another byte order, alone and beside others: NumPy's answer, or an error that says what to pass."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from tests.programs import ir

POINTWISE = ir("x y | a = tanh x; b = mul a y | b")
BETWEEN = ir("x y | a = relu x; b = matmul a y; c = mul b y; d = relu c | d")
WRITES = ir("x y | one = 1; z = add_ x y one; a = relu z; b = mul a y | b")
TRUTH: dict[str, Callable[[Any, Any], Any]] = {
    POINTWISE: lambda x, y: np.tanh(x) * y,
    BETWEEN: lambda x, y: np.maximum((np.maximum(x, 0) @ y) * y, 0),
    WRITES: lambda x, y: np.maximum(x + y, 0) * y,
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x.copy(),
    "turned": lambda x: x.T.copy().T,
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "other order": lambda x: x.astype(x.dtype.newbyteorder()),
    "other order, turned": lambda x: x.astype(x.dtype.newbyteorder()).T.copy().T,
    "other order, wider": lambda x: x.astype(np.dtype(np.float64).newbyteorder()),
    "other order, whole numbers": lambda x: (x * 10).astype(np.dtype(np.int32).newbyteorder()),
    "field of records": lambda x: np.rec.fromarrays([x, x > 0], dtype=[("a", "f4"), ("b", "?")])["a"],
}


def given(layout: str, seed: int) -> Any:
    return LAYOUTS[layout](np.random.default_rng(seed).uniform(-1, 1, (4, 4)).astype(np.float32))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("text", TRUTH, ids=["pointwise", "between", "writes"])
def test_layouts_and_byte_orders_mix(text: str, device: str) -> None:
    run = irs.compile(irs.fuse(irs.parse(text)), device=device)
    for first, second in product(LAYOUTS, LAYOUTS):
        for _ in range(3):  # the short way too
            x, y = given(first, 1), given(second, 2)
            wanted = TRUTH[text](*[array.astype(array.dtype.newbyteorder("=")) for array in (x, y)])
            try:
                found = run(x, y)
            except ArgumentError as error:
                assert text is WRITES
                odd = "other order" in first + second, "records" in first + second
                assert any(told in error.hint for told, is_there in zip(("newbyteorder", "copy"), odd, strict=True) if is_there)
            except irs.errors.RunError:
                assert text is WRITES, "into whole numbers, say, which torch refuses too"
                assert "whole numbers" in first or "wider" in second
            else:
                assert found.dtype.isnative
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_into_torch_they_go_as_copies(torch: Any) -> None:
    run = irs.compile(irs.fuse(irs.parse(BETWEEN)))
    x, y = given("other order, turned", 1), given("plain", 2)
    found = run(x, torch.from_numpy(y))
    np.testing.assert_allclose(found.numpy(), TRUTH[BETWEEN](x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("typed", [False, True])
def test_a_mask_is_not_ignored(typed: bool) -> None:
    x = given("plain", 1)
    run = irs.compile(irs.fuse(irs.load(POINTWISE, x, x) if typed else irs.parse(POINTWISE)))
    run(x, x)
    with pytest.raises(ArgumentError, match="mask"):
        run(x, np.ma.masked_array(x, x > 0))
    np.testing.assert_allclose(run(x, x), np.tanh(x) * x, rtol=1e-5, atol=1e-6)
