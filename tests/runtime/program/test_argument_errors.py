"""Calls that cannot work: one clear error, nothing kept, and the next call is right."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import RunError
from irscope.runtime.arrays.pool import BufferPool
from irscope.runtime.program.executable import compile_graph
from tests.programs import ir

OUTER = ir("x y | a = tanh x; b = mul a y | b")
"""One group, whose result is an outer product where the arguments are a column and a row."""


class Kept:
    """Arrays that a call is given, to see afterwards whether it kept any."""

    def __init__(self) -> None:
        self.references: list[weakref.ref[Any]] = []

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.references.append(weakref.ref(array))
        return array

    def none(self) -> bool:
        gc.collect()
        return all(reference() is None for reference in self.references)


def test_a_result_that_overlaps_itself_is_refused_and_says_why(torch: Any) -> None:
    text = "graph(%x : Tensor, %y : Tensor, %k : int):\n  %z : Tensor = aten::add_(%x, %y, %k)\n  return (%z)"
    run = compile_graph(irs.fuse(irs.parse(text)))
    wide = torch.zeros(1).expand(4)
    with pytest.raises(RunError, match="add_"):
        run(wide, torch.ones(4), 1)
    assert wide.tolist() == [0.0] * 4
    assert run(torch.zeros(4), torch.ones(4), 2).tolist() == [2.0] * 4


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_no_memory_for_a_result_is_one_error(library: str) -> None:
    run, kept = compile_graph(irs.fuse(irs.parse(OUTER))), Kept()
    size = 1 << 26
    long, wide = np.zeros((size, 1), np.float32), np.broadcast_to(np.float32(0), (1, size))
    arguments = [kept(long), kept(np.lib.stride_tricks.as_strided(wide))]
    del long, wide
    if library == "torch":
        torch = pytest.importorskip("torch")
        arguments = [torch.zeros(1, 1).expand(size, 1), torch.zeros(1, 1).expand(1, size)]
    with pytest.raises(RunError) as caught:
        run(*arguments)
    told = str(caught.value).lower()
    assert "memory" in told or "allocate" in told
    del caught, arguments
    assert kept.none()
    small = np.ones((3, 1), np.float32)
    np.testing.assert_allclose(run(small, small.T), np.full((3, 3), np.tanh(1.0)), rtol=1e-6)
    assert run.pool is not None
    assert run.pool.free_bytes <= 1 << 20


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_no_memory_in_a_call_like_the_last_one_is_the_same_error(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = compile_graph(irs.fuse(irs.parse(OUTER)))
    x: Any = np.linspace(-1, 1, 1 << 21, dtype=np.float32)
    if library == "torch":
        x = pytest.importorskip("torch").from_numpy(x)
    first, second = run(x, x), run(x, x)

    def full(pool: BufferPool, size: int) -> Any:
        raise MemoryError(f"no {size} bytes")

    with monkeypatch.context() as patch:
        patch.setattr(BufferPool, "_take", full)
        for _ in range(3):
            with pytest.raises(RunError, match=r"no \d+ bytes"):
                run(x, x)
    assert bool((run(x, x) == first).all())
    assert bool((second == first).all())


def test_an_error_in_the_middle_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)  # whose own memory has no pool
    text = ir("x y | a = relu x; b = tanh a; c = matmul b y; d = tanh c | d")
    run, kept = compile_graph(irs.fuse(irs.parse(text))), Kept()
    with pytest.raises(RunError, match="matmul"):
        run(kept(np.ones((300, 100), np.float32)), kept(np.ones((7, 7), np.float32)))
    assert kept.none()
    assert run.pool is not None
    free = run.pool.free_bytes
    for _ in range(3):
        with pytest.raises(RunError):
            run(np.ones((300, 100), np.float32), np.ones((7, 7), np.float32))
    assert run.pool.free_bytes == free > 0, "what was made before the error came back each time"
