"""Functions of JAX, loaded and run, against `jax.jit` of the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irscope as irs

jax = pytest.importorskip("jax")

from tests.frontends.jax.functions import FUNCTIONS  # noqa: E402

NOT_IN_NUMPY = {
    "lgamma", "random_uniform", "random_normal", "permutation", "fft", "irfft", "bitcast", "copysign", "frexp", "nextafter", "scatter_min",
    "scatter_multiply", "igamma",
}  # fmt: skip
"""Functions of which only torch has some op; the device "cpu" borrows it."""
IN_SUITE = [name for name in list(FUNCTIONS)[::6] if name != "igamma"]


def _check(name: str, device: str) -> None:
    function, arguments = FUNCTIONS[name]
    graph = irs.load(function, *arguments)
    foreign = {node.op for node in graph.nodes() if node.op.partition("::")[0] not in ("aten", "prim", "prims")}
    assert not foreign
    assert graph.functional == "StableHLO"
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    for found, want in zip(_run(graph, arguments, device), wanted, strict=True):
        assert (found.shape, str(found.dtype)) == (want.shape, str(want.dtype))
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


def _run(graph: Any, arguments: Any, device: str) -> list[np.ndarray[Any, Any]]:
    made = irs.compile(graph, device=device)(*arguments)
    return [np.asarray(one) for one in (made if isinstance(made, list | tuple) else (made,))]


@pytest.mark.parametrize("name", IN_SUITE)
def test_functions_equal_jit(name: str) -> None:
    _check(name, "cpu")


@pytest.mark.long
@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_equals_jit(name: str, device: str) -> None:
    if device == "reference" and name in NOT_IN_NUMPY:
        pytest.skip("NumPy has no such op")
    _check(name, device)


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_run_through_torch_and_fused(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, arguments = FUNCTIONS[name]
    graph = irs.load(function, *arguments)
    given = [torch.from_numpy(np.array(argument)) for argument in arguments]
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    made = irs.compile(irs.fuse(graph))(*given)
    for found, want in zip(made if isinstance(made, list | tuple) else (made,), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), want, rtol=3e-5, atol=3e-5)
