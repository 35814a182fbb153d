"""Arrays of bfloat16 and of floats of eight bits, JAX's and those of `ml_dtypes`: computed with, and given back as they came."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from tests.programs import ir

ml_dtypes = pytest.importorskip("ml_dtypes")
WRITES = ir("x | one = 1; y = add_ x x one; z = tanh y | z", "BFloat16(4)")


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(ml_dtypes.bfloat16)


def near(found: Any, wanted: Any) -> None:
    """Within two units in the last place, as many as JAX's own compiler and its ops one by one are apart."""
    found, wanted = np.asarray(found, np.float32), np.asarray(wanted, np.float32)
    np.testing.assert_allclose(found, wanted, rtol=2**-7, atol=2**-9)


@pytest.mark.parametrize("fused", [False, True])
def test_arrays_of_jax_give_what_jax_gives(fused: bool) -> None:
    pytest.importorskip("torch")
    jax = pytest.importorskip("jax")

    def layer(x: Any, w: Any, n: Any) -> Any:
        h = jax.numpy.tanh(x @ w) * 2
        return jax.nn.softmax(h), {"n": n + 1, "x": x}, n

    x, w, n = jax.numpy.array(numbers(4, 8)), jax.numpy.array(numbers(8, 3)), jax.numpy.arange(3)
    graph = irs.load(layer, x, w, n)
    run = irs.compile(irs.fuse(graph) if fused else graph)
    wanted = jax.tree_util.tree_leaves(jax.jit(layer)(x, w, n))
    for _ in range(3):
        found = run(x, w, n)
        assert [(type(part), part.dtype) for part in found] == [(type(part), part.dtype) for part in wanted]
        for ours, theirs in zip(found, wanted, strict=True):
            near(ours, theirs)


def test_arrays_of_ml_dtypes_come_back_as_such_and_are_written_in_place(torch: Any) -> None:
    x = numbers(4)
    wanted = torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    run = irs.compile(irs.fuse(irs.parse(WRITES)))
    for _ in range(3):
        found = run(x)
        doubled = wanted.add_(wanted).clone()
        assert found.dtype == x.dtype == ml_dtypes.bfloat16
        near(x, doubled.float())
        near(found, doubled.tanh().float())


def test_floats_of_eight_bits_pass_through() -> None:
    pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    x = jax.numpy.array(numbers(6)).astype(jax.numpy.float8_e4m3fn)
    found = irs.compile(irs.load(lambda x: x.reshape(2, 3).T, x))(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(x.reshape(2, 3).T, np.float32))


def test_without_torch_numbers_are_rounded_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)
    x = numbers(4)
    text = WRITES.replace("add_", "add")
    found = irs.compile(irs.parse(text))(x)
    assert found.dtype == ml_dtypes.bfloat16
    near(found, np.tanh(x.astype(np.float32) * 2))
    with pytest.raises(ArgumentError, match="the program may write into it"):
        irs.compile(irs.parse(WRITES))(x)


def test_arrays_that_may_not_be_written() -> None:
    pytest.importorskip("torch")
    x = numbers(4)
    x.flags.writeable = False
    graph = irs.parse("graph(%x : BFloat16(4)):\n  %y : BFloat16(4) = aten::neg(%x)\n  return (%y)")
    for program in (graph, irs.fuse(graph)):
        np.testing.assert_array_equal(irs.compile(program)(x), -x)
