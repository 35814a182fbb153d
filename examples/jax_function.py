"""A JAX layer and its gradient: loaded, fused, compiled, and checked against `jax.jit`.

Needs `pip install 'irscope[jax,cpu]'`. Run: python examples/jax_function.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import irscope as irs


def layer(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """A dense layer with a normalisation."""
    hidden = jax.nn.gelu(x @ params["w"] + params["b"])
    return (hidden - hidden.mean(-1, keepdims=True)) * jax.lax.rsqrt(hidden.var(-1, keepdims=True) + 1e-5)


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return (layer(params, x) ** 2)[:, 0].sum()


def main() -> None:
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=(16, 8)), jnp.float32), "b": jnp.zeros(8)}
    x = jnp.asarray(rng.normal(size=(4, 16)), jnp.float32)
    for function in (layer, jax.grad(loss)):
        graph = irs.load(function, params, x)  # by way of StableHLO; jax.jit(f).lower(...) loads as well
        fusion = irs.fuse(graph)
        wanted = jax.tree_util.tree_leaves(jax.jit(function)(params, x))
        made = irs.compile(fusion)(params, x)
        found = made if isinstance(made, tuple | list) else (made,)
        print(f"{graph.name}: {len(graph.position)} nodes, {len(fusion.groups)} kernels, from {graph.functional}")
        for one, want in zip(found, wanted, strict=True):
            assert np.allclose(one, want, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
