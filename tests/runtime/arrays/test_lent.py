"""Programs called with arrays compute in torch, on the arrays' own memory, and give back arrays of the caller's kind."""

import warnings
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.program.executable import Executable, compile_graph
from tests.programs import ir

torch = pytest.importorskip("torch")

BETWEEN = ir("x y | a = relu x; b = mm a y; c = tanh b | c")
WRITES = ir("x y | one = 1; a = add_ x y one; t = t x; b = mm x y | a t b y")
CALLS = range(4)
"""The third call of a signature is the first that goes the short way."""


def square(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32)


def compiled(text: str) -> Executable:
    return irs.compile(irs.fuse(irs.parse(text)))


def test_writes_reach_the_callers_array_and_views_share_its_memory() -> None:
    run, y = compiled(WRITES), square(1)
    for seed in CALLS:
        x = square(seed)
        before = x.copy()
        a, t, b, same = run(x, y)
        assert run.library(x, y) == "torch"
        assert a is x and same is y, "what was given is the same object"
        np.testing.assert_allclose(x, before + y, rtol=1e-6)
        assert np.shares_memory(t, x) and type(t) is np.ndarray
        np.testing.assert_array_equal(t, x.T)
        np.testing.assert_allclose(b, x @ y, rtol=1e-4, atol=1e-5)


def test_an_array_that_is_read_only_is_read_in_place_and_never_written() -> None:
    run, x, y = compiled(BETWEEN), square(), square(1)
    x.flags.writeable = y.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in CALLS:
            assert run.library(x, y) == "torch"
            np.testing.assert_allclose(run(x, y), np.tanh(np.maximum(x, 0) @ y), rtol=1e-5, atol=1e-6)
    writes = compiled(WRITES)
    assert writes.library(x, y) == "numpy"
    for _ in CALLS:
        with pytest.raises(irs.IrscopeError, match="read-only"):
            writes(x, y)


@pytest.mark.parametrize("mode", ["autocast", "fake tensors", "dual numbers", "another default"])
def test_what_surrounds_a_call_in_torch_does_not_reach_arrays(mode: str) -> None:
    from torch._subclasses import FakeTensorMode

    modes: dict[str, Any] = {
        "autocast": lambda: torch.autocast("cpu"), "fake tensors": FakeTensorMode, "dual numbers": torch.autograd.forward_ad.dual_level,
    }  # fmt: skip
    run, x, y = compiled(BETWEEN), square(), square(1)
    for _ in CALLS:
        wanted = run(x, y)
    if mode == "another default":
        torch.set_default_dtype(torch.float64)
        try:
            found = run(x, y)
        finally:
            torch.set_default_dtype(torch.float32)
    else:
        with modes[mode]():
            found = run(x, y)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_what_torch_refuses_numpy_computes() -> None:
    text = "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::mm(%x, %y)\n  return (%a)\n"
    run, x, y = compiled(text), square(), square(1).astype(np.float64)
    for _ in CALLS:
        np.testing.assert_allclose(run(x, y), x @ y, rtol=1e-12)
    np.testing.assert_allclose(run(x[::-1], y), x[::-1] @ y, rtol=1e-12)


def test_containers_and_what_is_in_them_come_back_as_arrays() -> None:
    text = ir("x:Tensor[] w | zero = 0; a = cat x zero; l:Tensor[] = append x a; n:int = len x; m = mm w w | a n x w")
    items, w = [np.array([1.0]), np.array([3.0])], square()
    run = compile_graph(irs.parse(text))
    for _ in CALLS:
        a, n, same, weight = run(items, w)
        assert run.library(items, w) == "torch"
        assert a.tolist() == [1.0, 3.0] and n == 3 and weight is w
        assert len(items) == 2 and len(same) == 3
        assert all(type(item) is np.ndarray for item in same)


def test_without_torch_numpy_runs_the_ops_and_a_profile_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = square(), square(1)
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)
    run = compiled(BETWEEN)
    assert run.library(x, y) == "numpy" and run.lacks_torch
    np.testing.assert_allclose(run(x, y), np.tanh(np.maximum(x, 0) @ y), rtol=1e-5, atol=1e-6)
    found = irs.profile(irs.parse(BETWEEN), x, y, seconds=0.2)
    assert any("irscope[torch]" in warning for warning in found.warnings)
    monkeypatch.undo()
    assert not any("irscope[torch]" in warning for warning in irs.profile(irs.parse(BETWEEN), x, y, seconds=0.2).warnings)


def test_pointwise_ops_keep_numpys_numbers_beside_torchs_products() -> None:
    text = "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::mm(%x, %y)\n  %b : Tensor = aten::fmod(%x, %y)\n  return (%a, %b)\n"
    x, y = np.full((16, 16), 3, np.float32), np.full((16, 16), 1e-45, np.float32)
    for program in (irs.parse(text), irs.fuse(irs.parse(text))):
        run = irs.compile(program)
        for _ in CALLS:
            assert run.library(x, y) == "torch"
            np.testing.assert_array_equal(run(x, y)[1], np.fmod(x, y))


def test_calls_with_jaxs_arrays_take_the_short_way_of_numpys() -> None:
    jax = pytest.importorskip("jax")
    run, own = compiled(BETWEEN), []
    for seed in CALLS:
        x, y = jax.numpy.asarray(square(seed)), square(1)
        own.append(run(x, y))
        assert isinstance(own[-1], jax.Array) and type(run(y, x)) is np.ndarray, "as the first array is"
        assert run.library(x, y) == "torch"
        np.testing.assert_allclose(own[-1], np.tanh(np.maximum(x, 0) @ y), rtol=1e-5, atol=1e-6)
    others = object()
    for lent in ((np.asarray(x), y), (y, np.asarray(x))):  # JAX's are read-only
        assert run._calls.like(lent)(lent, lambda given: others) is not others
    writes = compiled(WRITES)
    for _ in CALLS:
        x, y = jax.numpy.ones((4, 4)), jax.numpy.ones((4, 4))
        a, *_ = writes(x, y)
        assert float(a[0, 0]) == 2 and float(x[0, 0]) == 1, "JAX's arrays do not change"
    with pytest.raises(irs.IrscopeError):
        irs.compile(irs.load(BETWEEN, square(), square()))(jax.numpy.ones((3, 4)), jax.numpy.ones((4, 4)))
