"""NumPy functions traced by irscope give NumPy's element types, shapes and values, op by op and fused (`numpy_sweep.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.oracles import numpy_sweep as asked
from tests.oracles.counts import Counts

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="traced functions promote as NumPy 2 does"),
]
KINDS = {kind.__name__: kind for kind in (asked.unary, asked.numbers, asked.operators, asked.calls, asked.members)}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64"])
def test_some_functions_are_numpys(dtype: str, tell: Callable[[Counts], None]) -> None:
    found = Counts("NumPy: a slice")
    for place, kind in enumerate((*KINDS.values(), lambda first: asked.binary(first, "int64"))):
        asked.sweep(list(kind(dtype))[place :: 1 if kind is asked.unary else 53], found)
    tell(found)
    found.assert_sound(most_refused=0.01)
    assert found.ways["passed"] > 400


@pytest.mark.long
@pytest.mark.parametrize("dtype", asked.DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_of_every_type_is_numpys(kind: str, dtype: str, tell: Callable[[Counts], None]) -> None:
    found = Counts(f"NumPy: {kind}")
    asked.sweep(KINDS[kind](dtype), found, fused=kind != "members")  # which are the functions again
    tell(found)
    found.assert_sound(most_refused=0.01)


@pytest.mark.long
@pytest.mark.parametrize("first", asked.DTYPES)
def test_every_function_of_two_types_is_numpys(first: str, tell: Callable[[Counts], None]) -> None:
    found = Counts("NumPy: binary")
    for second in asked.DTYPES:
        asked.sweep(asked.binary(first, second), found)
    tell(found)
    found.assert_sound(most_refused=0.0)
