"""Functions of JAX, loaded and run, against `jax.jit` of the same."""

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


@pytest.mark.parametrize("way", ["cpu", *(pytest.param(way, marks=pytest.mark.long) for way in ("reference", "torch"))])
@pytest.mark.parametrize("name", [name if name in IN_SUITE else pytest.param(name, marks=pytest.mark.long) for name in FUNCTIONS])
def test_functions_equal_jit(name: str, way: str) -> None:
    """Op by op with JAX's arrays, in NumPy's references, and fused with torch's tensors."""
    if way == "reference" and name in NOT_IN_NUMPY:
        pytest.skip("NumPy has no such op")
    function, arguments = FUNCTIONS[name]
    graph = irs.load(function, *arguments)
    assert not {node.op for node in graph.nodes() if node.op.partition("::")[0] not in ("aten", "prim", "prims")}
    assert graph.functional == "StableHLO"
    if way == "torch":
        torch = pytest.importorskip("torch")
        made = irs.compile(irs.fuse(graph))(*(torch.from_numpy(np.array(argument)) for argument in arguments))
    else:
        made = irs.compile(graph, device=way)(*arguments)
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    for found, want in zip(map(np.asarray, made if isinstance(made, list | tuple) else (made,)), wanted, strict=True):
        assert (found.shape, str(found.dtype)) == (want.shape, str(want.dtype))
        np.testing.assert_allclose(found, want, rtol=3e-5 if way == "torch" else 2e-5, atol=3e-5 if way == "torch" else 2e-5)
