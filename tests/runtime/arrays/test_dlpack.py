"""Arrays of other libraries as arguments: used where they lie, copied where the program may write, refused in words."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.arrays import borrow, dlpack, is_foreign
from irscope.runtime.program import Executable
from tests.programs import ir

TEXT = ir("x y | a = relu x; b = mul a y; d = mm b b; t = t x | b d t")
WRITES = ir("x y | one = 1; a = add_ x y one; b = tanh a | b")


class Lent:
    """An array of an unknown library."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device
        self.dtype, self.shape = array.dtype, array.shape

    def __dlpack__(self, **wanted: Any) -> Any:
        return self.array.__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def compiled(text: str = TEXT) -> Executable:
    return irs.compile(irs.fuse(irs.parse(text)))


def pair(size: int = 8) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x, y = np.random.default_rng(size).normal(size=(2, size, size)).astype(np.float32)
    return x, y


def expected(x: Any, y: Any) -> tuple[np.ndarray[Any, Any], ...]:
    b = np.maximum(x, 0) * y
    return b, b @ b, x.T


def test_a_lent_array_is_used_where_it_lies() -> None:
    x, y = pair()
    run = compiled()
    for _ in range(4):
        b, d, t = run(Lent(x), Lent(y))
        for found, wanted in zip((b, d, t), expected(x, y), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        assert np.shares_memory(t, x)
    np.testing.assert_allclose(run(x, Lent(y))[0], expected(x, y)[0])
    assert len(run.kernels) == 1


knows_what_is_read_only = pytest.mark.skipif(dlpack._LENDS_READ_ONLY, reason="NumPy before 2.2.5 marks all that others lend")


@knows_what_is_read_only
def test_a_program_writes_what_can_be_written_and_a_copy_of_the_rest() -> None:
    x, y = pair()
    before = x.copy()
    run = compiled(WRITES)
    np.testing.assert_allclose(run(Lent(x), Lent(y)), np.tanh(before + y), rtol=1e-5)
    np.testing.assert_allclose(x, before + y)
    frozen = before.copy()
    frozen.flags.writeable = False
    np.testing.assert_allclose(run(_Frozen(frozen), y), np.tanh(before + y), rtol=1e-5)
    np.testing.assert_array_equal(frozen, before)


def test_writes_that_a_copy_would_swallow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy before 2.2.5 marks all that others lend as read-only."""
    x, y = pair()
    locked = x.copy()
    locked.flags.writeable = dlpack._LENDS_READ_ONLY
    monkeypatch.setattr(dlpack, "_LENDS_READ_ONLY", True)
    for run in (compiled(WRITES), irs.compile(irs.parse(WRITES), device="reference")):
        with pytest.raises(ArgumentError, match="may write into it") as caught:
            run(Lent(locked), y)
        assert "from_dlpack(x).copy()" in str(caught.value)
        taken = np.from_dlpack(Lent(locked)).copy()  # as the hint says
        np.testing.assert_allclose(run(taken, y), np.tanh(x + y), rtol=1e-5)
        np.testing.assert_allclose(taken, x + y)
    np.testing.assert_allclose(compiled()(Lent(locked), Lent(y))[0], expected(x, y)[0])  # it is only read


class _Frozen(Lent):
    """One that never changes, as JAX's: what it lends is read-only."""

    def __dlpack__(self, **wanted: Any) -> Any:
        raise BufferError("read-only")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.array


def test_a_program_with_parameters_of_torch_takes_them_too(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    x, _ = pair()
    run = irs.compile(irs.fuse(irs.load(model, torch.from_numpy(x))))
    with torch.no_grad():
        torch.testing.assert_close(run(Lent(x)), model(torch.from_numpy(x)))


@knows_what_is_read_only
def test_they_are_compared_and_interpreted_too() -> None:
    x, y = pair()
    given = Lent(x), _Frozen(y)
    before, first = y.copy(), x.copy()
    found = irs.compare(irs.parse(WRITES), *given, peers={"NumPy": lambda x, y: np.tanh(x.array + y.array)}, repeats=1)
    assert [row.label for row in found.rows] == ["op by op", "fused", "fused + dedup", "NumPy"]
    assert all(row.error is not None and row.error < 1e-6 for row in found.rows)
    assert found.bytes
    np.testing.assert_array_equal(x, first)
    reference = irs.compile(irs.parse(TEXT), device="reference")
    np.testing.assert_allclose(reference(*given)[0], expected(x, y)[0], rtol=1e-5)
    np.testing.assert_array_equal(y, before)


def test_what_the_processor_cannot_use_is_refused() -> None:
    x, y = pair()
    with pytest.raises(ArgumentError, match="lies on a GPU") as caught:
        compiled()(Lent(x, (2, 0)), y)
    assert "device=" in caught.value.hint
    with pytest.raises(ArgumentError, match="elements of type"):
        borrow(_Frozen(np.array([{}], object)), may_write=False)
    assert not is_foreign("text") and not is_foreign(np.float32(1))


def test_arrays_of_jax_come_and_go_without_a_copy() -> None:
    jax = pytest.importorskip("jax")
    x, y = map(jax.numpy.asarray, pair(256))
    run = compiled()
    for _ in range(4):
        results = run(x, y)
        assert all(isinstance(result, jax.Array) for result in results)
        for found, wanted in zip(results, expected(np.asarray(x), np.asarray(y)), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-3)
    given = np.asarray(x)
    assert borrow(x, may_write=False).ctypes.data == given.ctypes.data
    assert not np.shares_memory(borrow(x, may_write=True), given)
    before = given.copy()
    found = compiled(WRITES)(x, y)
    np.testing.assert_array_equal(np.asarray(x), before)
    np.testing.assert_allclose(np.asarray(found), np.tanh(before + np.asarray(y)), rtol=1e-5)


def test_a_result_of_jax_keeps_its_numbers_when_the_argument_that_it_looks_at_changes() -> None:
    jax = pytest.importorskip("jax")
    x, y = pair(64)
    text = TEXT.replace("aten::t(%x)", "aten::detach(%y)")
    *_, seen = compiled(text)(jax.numpy.asarray(x), y)
    before = y.copy()
    y += 1
    np.testing.assert_array_equal(np.asarray(seen), before)
    with pytest.raises(ArgumentError, match="int4"):
        compiled()(*[jax.numpy.ones((2, 2), jax.numpy.int4)] * 2)
